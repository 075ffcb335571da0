"""Keeps litellm's HTTP to the endpoint, and notes what went over the wire.

litellm follows redirects with the provider's own key header (`x-api-key` is not dropped as `Authorization`
is), reads bodies of any size, and loses Retry-After. Its clients are httpx clients, made in two places: hooks
on each of them put that right. They act only where `EXCHANGE` is set, which it is for our calls alone, so a
host that uses litellm itself sees nothing of this.
"""

import functools
from collections.abc import AsyncIterator, Hashable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from sandbox_judge.lanes.address import HttpFailure, Origin, origin_and_target
from sandbox_judge.lanes.http import BODY_CAP, ERROR_BODY_CAP

_ENV_MARKS: Final = ("BASE", "ENDPOINT", "HOST", "URL")


class Seen:
    """One response: `whole` once its body was read to the end."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.body = bytearray()
        self.whole = False


class Exchange:
    """The traffic of one call. `allowed` None: the provider's own host, which must then not be one that an
    environment variable names (no base URL is taken from the environment)."""

    def __init__(self, allowed: Origin | None, environ: Mapping[str, str], clients: list[Any]) -> None:
        self.allowed = allowed
        self.environ = environ
        self.clients = clients
        self.requests = 0
        self.seen: list[Seen] = []
        self.blocked: HttpFailure | None = None

    def block(self, failure: HttpFailure) -> HttpFailure:
        self.blocked = failure
        return failure


EXCHANGE: ContextVar[Exchange | None] = ContextVar("sandbox_judge_litellm_exchange", default=None)


class _NotedStream:
    """A response's byte stream, counted and kept."""

    def __init__(self, inner: Any, seen: Seen, exchange: Exchange) -> None:
        self._inner = inner
        self._seen = seen
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        cap = ERROR_BODY_CAP if self._seen.status >= 300 else BODY_CAP
        async for chunk in self._inner:
            self._seen.body += chunk
            if len(self._seen.body) > cap:
                del self._seen.body[cap:]
                said = HttpFailure("bad_reply", f"the answer is larger than {cap:,} bytes")
                raise self._exchange.block(said)
            yield chunk
        self._seen.whole = True

    async def aclose(self) -> None:
        await self._inner.aclose()


async def before_request(request: Any) -> None:
    exchange = EXCHANGE.get()
    if exchange is None:
        return
    there, _ = origin_and_target(str(request.url))
    if exchange.allowed is not None and there != exchange.allowed:
        raise exchange.block(
            HttpFailure(
                "redirect", f"litellm would call {there}, which is not the endpoint {exchange.allowed}"
            )
        )
    if exchange.allowed is None and (name := _named_by(there, exchange.environ)):
        raise exchange.block(
            HttpFailure("redirect", f"the base URL would come from {name}: settings say where a provider is")
        )
    exchange.requests += 1
    # A coding would be undone without a cap.
    request.headers["accept-encoding"] = "identity"


async def after_response(response: Any) -> None:
    exchange = EXCHANGE.get()
    if exchange is None:
        return
    seen = Seen(response.status_code, {k.lower(): v for k, v in response.headers.items()})
    exchange.seen.append(seen)
    if response.has_redirect_location:
        raise exchange.block(HttpFailure("redirect", "the endpoint redirects, and the key does not follow"))
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise exchange.block(
            HttpFailure("bad_reply", "the answer has a content coding that was not asked for")
        )
    base = next(c for c in type(response.stream).__mro__ if c.__name__ == "AsyncByteStream")
    response.stream = _noted_stream_class(base)(response.stream, seen, exchange)


@functools.cache
def _noted_stream_class(base: Hashable) -> Any:
    """`_NotedStream` as a stream that httpx accepts: it asks for its own base class."""
    bases: Any = (_NotedStream, base)
    return type("NotedStream", bases, {})


def guarded(client: Any) -> Any:
    """`client` (an httpx.AsyncClient) with the hooks, once. None passes."""
    if client is None:
        return None
    hooks = client.event_hooks
    if before_request not in hooks["request"]:
        client.event_hooks = {
            "request": [*hooks["request"], before_request],
            "response": [*hooks["response"], after_response],
        }
    exchange = EXCHANGE.get()
    if exchange is not None:
        exchange.clients.append(client)
    return client


def install(handler_class: Any, openai_class: Any) -> None:
    """Puts the hooks on every client that litellm makes from now on. Raises AttributeError where a release of
    litellm makes them elsewhere: then no key may be given to it."""
    make, make_openai = handler_class.create_client, openai_class._get_async_http_client
    if not hasattr(make, "guards"):

        @functools.wraps(make)
        def create_client(self: Any, *args: Any, **options: Any) -> Any:
            return guarded(make(self, *args, **options))

        create_client.guards = True  # type: ignore[attr-defined]
        handler_class.create_client = create_client
    if not hasattr(make_openai, "guards"):

        @functools.wraps(make_openai)
        def get_client(*args: Any, **options: Any) -> Any:
            return guarded(make_openai(*args, **options))

        get_client.guards = True  # type: ignore[attr-defined]
        openai_class._get_async_http_client = staticmethod(get_client)


def _named_by(there: Origin, environ: Mapping[str, str]) -> str | None:
    """The variable whose value is a URL of this origin, if one looks like an endpoint's."""
    for name, value in environ.items():
        if any(mark in name for mark in _ENV_MARKS) and value.startswith(("http://", "https://")):
            try:
                if origin_and_target(value)[0] == there:
                    return name
            except HttpFailure:
                continue
    return None

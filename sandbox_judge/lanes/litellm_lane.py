"""The lane for every provider that does not speak OpenAI's format: through litellm (design, section 12).

The only module that imports litellm, in a thread, when it is first needed: that costs seconds. What litellm
would do by itself is off: its retries, telemetry, logging, `.env` loading, look-ups, redirects.
"""

import importlib
import logging
import os
import re
import time
from collections.abc import Callable
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.lanes.address import HttpFailure, origin_and_target
from sandbox_judge.lanes.base import Call, LaneName, ModelFailure, Reply, Wire
from sandbox_judge.lanes.failures import Upstream, decoded, masked, of_status, of_trouble, upstream
from sandbox_judge.lanes.litellm_guard import EXCHANGE, Exchange, install
from sandbox_judge.lanes.memory import Memory, NoMemory
from sandbox_judge.lanes.negotiation import MAX_REQUESTS, Plan, Refusal, plan, refusal_in
from sandbox_judge.lanes.openai_reply import read_reply, reply_of
from sandbox_judge.lanes.private_loop import PrivateLoop
from sandbox_judge.lanes.threads import Background
from sandbox_judge.nulls import ErrorType

# Read by litellm at its import, the first one at each call too. Without it an Anthropic call with a schema
# looks up a remote host; without the last, a `.env` beside or above the working directory is loaded.
ENVIRONMENT: Final = {
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
}
# What its import sets by itself: where the vocabularies lie that it ships. Needed for as long as it is used.
_ITS_OWN: Final = "TIKTOKEN_CACHE_DIR"
# A provider's own address, said outright: litellm would look for one in the environment first.
OWN_BASE_URLS: Final = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "mistral": "https://api.mistral.ai/v1",
    "groq": "https://api.groq.com/openai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "deepseek": "https://api.deepseek.com/beta",
    "perplexity": "https://api.perplexity.ai",
    "cerebras": "https://api.cerebras.ai/v1",
    "fireworks_ai": "https://api.fireworks.ai/inference/v1",
}
# These sign with credentials of the machine or account; for all others no key means no key, not one that
# litellm finds in the environment.
_AMBIENT: Final = frozenset(
    {"bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta", "sagemaker", "sagemaker_chat"}
)
_CLOSE_S: Final = 1.0
_WRAPPING: Final = re.compile(
    r"^(?:(?:litellm\.)?\w+: )*(?:\w+(?:Exception|Error) - )?|[ .]*Handle with `[\w.]+`\.?| ssl:<[^>]*>"
)
_BY_NAME: Final[tuple[tuple[str, ErrorType], ...]] = (
    ("Timeout", "timeout"),
    ("ContextWindowExceededError", "context_overflow"),
    ("ContentPolicyViolationError", "refused"),
    ("RateLimitError", "rate_limited"),
    ("AuthenticationError", "auth"),
    ("PermissionDeniedError", "auth"),
    ("NotFoundError", "model_not_found"),
    ("BadRequestError", "bad_request"),
    ("UnprocessableEntityError", "bad_request"),
)


class LitellmLane:
    """`start` begins the import; without it the first call does."""

    lane: LaneName = "litellm"

    def __init__(self, *, memory: Memory | None = None, wall_clock: Callable[[], float] = time.time) -> None:
        self._memory = memory or NoMemory()
        self._wall_clock = wall_clock
        self._loop = PrivateLoop("litellm")
        self._library: Background[Any] | None = None
        self._before: dict[str, str | None] = {}
        self._clients: list[Any] = []
        self._closed = False

    def start(self) -> None:
        """Begins to import litellm in a thread; returns at once. Sets `ENVIRONMENT` until `aclose`."""
        if self._library is None:
            self._set_environment()
            if _ITS_OWN not in os.environ:
                self._before[_ITS_OWN] = None
            self._library = Background(self._import, name="import litellm")

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        """See `ChatModel.complete`."""
        tried: list[Wire] = []
        with anyio.CancelScope(deadline=deadline) as scope:
            return await self._complete(call, deadline, tried)
        if scope.cancelled_caught:
            what = "no whole answer" if tried else "litellm was still being imported"
            wire = tried[-1] if tried else None
            raise ModelFailure("timeout", f"{what} at the call's deadline", wire=wire)
        raise AssertionError("a scope that was not cancelled returned nothing")

    async def aclose(self) -> None:
        """Closes the clients of our calls, ends the loop, and puts the environment back."""
        with anyio.CancelScope(shield=True):
            if self._clients:
                with anyio.move_on_after(_CLOSE_S):
                    await self._loop.run(self._closed_clients)
            await self._loop.aclose(within_s=_CLOSE_S)
        self._closed = True
        if self._library is None or self._library.finished:
            self._put_back()

    def _set_environment(self) -> None:
        for name, value in ENVIRONMENT.items():
            now = os.environ.get(name)
            if now != value:
                self._before.setdefault(name, now)
                os.environ[name] = value

    def _put_back(self) -> None:
        before, self._before = self._before, {}
        for name, value in before.items():
            if name in ENVIRONMENT and os.environ.get(name) != ENVIRONMENT[name]:
                continue  # someone else changed it meanwhile
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _import(self) -> Any:
        try:
            return _imported()
        finally:
            if self._closed:  # an import that outlived its lane had to end under our environment
                self._put_back()

    async def _closed_clients(self) -> None:
        clients, self._clients = self._clients, []
        for client in clients:
            await client.aclose()

    async def _complete(self, call: Call, deadline: float, wires: list[Wire]) -> Reply:
        self.start()
        assert self._library is not None
        try:
            library = await self._library.result()
        except Exception as error:
            raise ModelFailure(
                "provider_error", f"litellm cannot be used: {masked(str(error))}", retryable=False
            ) from error
        self._set_environment()  # another lane of this process may have put it back
        known = self._memory.known(call)
        refused: set[Refusal] = set(known)
        requests = attempts = 0
        while True:
            tried = plan(call, refused)
            exchange = Exchange(_allowed(call), os.environ, self._clients)
            attempts += 1
            wire = Wire(
                lane="litellm",
                output_mode=tried.output_mode,
                sent=tried.sent,
                dropped=tried.dropped,
                requests=requests + 1,
            )
            wires.append(wire)
            try:
                answer: Any = await self._ask(library, call, tried, exchange, deadline)
                problem: Exception | None = None
            except ModelFailure:
                raise
            except Exception as error:
                answer, problem = None, error
            requests += exchange.requests
            wire = msgspec.structs.replace(wire, requests=max(requests, 1))
            try:
                reply = self._read(call, answer, problem, exchange, wire)
            except ModelFailure as failure:
                failure.wire = wire
                refusal = _refusal(failure, problem, exchange, tried)
                if refusal is None or refusal in refused or attempts >= MAX_REQUESTS:
                    raise
                refused.add(refusal)
                continue
            self._memory.learn(call, frozenset(refused - known))
            return reply

    async def _ask(self, library: Any, call: Call, tried: Plan, exchange: Exchange, deadline: float) -> Any:
        provider = _provider(library, call.provider)
        arguments: dict[str, Any] = {
            **tried.parameters,
            "model": call.model,
            "custom_llm_provider": provider,
            "messages": [dict(message) for message in call.messages],
            "api_base": call.endpoint.base_url or OWN_BASE_URLS.get(provider),
            "api_key": call.endpoint.api_key or (None if provider in _AMBIENT else "none"),
            "timeout": max(0.001, min(deadline - anyio.current_time(), 86_400.0)),
            "max_retries": 0,
            "drop_params": False,
        }
        if call.tools:
            arguments["tools"] = [dict(tool) for tool in call.tools]

        async def asked() -> Any:
            EXCHANGE.set(exchange)
            return await library.acompletion(**arguments)

        return await self._loop.run(asked)

    def _read(
        self, call: Call, answer: Any, problem: Exception | None, exchange: Exchange, wire: Wire
    ) -> Reply:
        """The reply, from what litellm made of it or from the wire. Raises ModelFailure."""
        secrets, now = (call.endpoint.api_key,), self._wall_clock()
        last = exchange.seen[-1] if exchange.seen else None
        if problem is None:
            choice = _first_choice(bytes(last.body)) if last else None
            if last and choice and isinstance(choice.get("message", {}).get("content"), list):
                # Of content as parts litellm keeps the last one, for some providers.
                return read_reply(bytes(last.body), wire, secrets=secrets, now=now)
            reply = reply_of(answer.model_dump(), wire, secrets=secrets, now=now)
            # litellm makes "stop" of a finish reason that the provider left out.
            left_out = choice is not None and choice.get("finish_reason") is None
            return msgspec.structs.replace(reply, finish=None) if left_out else reply
        if exchange.blocked is not None:
            raise of_trouble(exchange.blocked) from problem
        kind = _kind(problem)
        if last is None or kind == "timeout" or (last.status < 300 and not last.whole):
            raise self._unanswered(call, problem, kind, exchange) from problem
        body = bytes(last.body)
        if last.status >= 300:
            said = upstream(body)
            failure = of_status(last.status, said, headers=last.headers, secrets=secrets, now=now)
            if failure.type == "bad_request" and kind in ("context_overflow", "refused", "auth"):
                # litellm knows the words of more providers than we do.
                failure = ModelFailure(kind, failure.message if kind != "auth" else f"HTTP {last.status}")
            raise failure from problem
        if kind in ("context_overflow", "refused"):
            raise ModelFailure(kind, _said(problem, secrets)) from problem
        # A whole 200 that litellm could not read (content as parts, keys that it expects): where it is in
        # OpenAI's format we can.
        return read_reply(body, wire, secrets=secrets, now=now)

    def _unanswered(
        self, call: Call, problem: Exception, kind: ErrorType | None, exchange: Exchange
    ) -> ModelFailure:
        if kind == "auth":
            return ModelFailure("auth", "litellm has no credentials for this provider")
        text = _said(problem, (call.endpoint.api_key,))
        if exchange.seen and kind != "timeout":
            return ModelFailure("connection", "the server hung up amid the body")
        if kind == "timeout" or (kind is not None and exchange.requests == 0):
            return ModelFailure(kind, text)
        if exchange.requests:
            return ModelFailure("connection", text)
        return ModelFailure("provider_error", text, retryable=False)


def _imported() -> Any:
    """litellm, quiet. Raises whatever its import raises."""
    library: Any = importlib.import_module("litellm")
    handlers = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    openai_clients = importlib.import_module("litellm.llms.openai.common_utils")
    try:
        install(handlers.AsyncHTTPHandler, openai_clients.BaseOpenAILLM)
    except AttributeError as error:
        raise RuntimeError("this release of litellm cannot be kept to one host") from error
    library.suppress_debug_info = True
    library.set_verbose = False
    library.telemetry = False
    library.drop_params = False
    library.num_retries = None
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False
        logger.setLevel(logging.CRITICAL + 1)
    return library


def _provider(library: Any, provider: str) -> str:
    """litellm's name of a provider: ours has hyphens only (`spec/judge-file.md`), its mostly underscores."""
    listed = {str(getattr(entry, "value", entry)) for entry in library.provider_list}
    for name in (provider, provider.replace("-", "_")):
        if name in listed:
            return name
    raise ModelFailure(
        "bad_request",
        f"litellm knows no provider {provider!r}; one that speaks OpenAI's format needs"
        ' `"lane": "openai_wire"` and a base_url in the settings',
    )


def _allowed(call: Call) -> Any:
    base_url = call.endpoint.base_url or OWN_BASE_URLS.get(call.provider.replace("-", "_"))
    if base_url is None:
        return None
    try:
        return origin_and_target(base_url)[0]
    except HttpFailure as failure:
        raise of_trouble(failure) from failure


def _kind(problem: Exception) -> ErrorType | None:
    names = {cls.__name__ for cls in type(problem).__mro__}
    if isinstance(problem, TimeoutError):
        return "timeout"
    return next((kind for name, kind in _BY_NAME if name in names), None)


def _said(problem: Exception, secrets: tuple[str | None, ...]) -> str:
    return masked(_WRAPPING.sub("", str(problem)) or type(problem).__name__, secrets)


def _refusal(
    failure: ModelFailure, problem: Exception | None, exchange: Exchange, tried: Plan
) -> Refusal | None:
    """The parameter that the model refuses, by the server's word or, before any request, by litellm's."""
    if failure.type != "bad_request" or problem is None:
        return None
    if exchange.seen:
        return refusal_in(upstream(bytes(exchange.seen[-1].body)), tried)
    found = refusal_in(Upstream(message=str(problem)), tried)
    # litellm's own table costs no request, and may be right in its next release.
    return None if found is None else msgspec.structs.replace(found, lasting=False)


def _first_choice(body: bytes) -> dict[str, Any] | None:
    """The first choice as it came, where the body is a chat completion in OpenAI's format."""
    try:
        choice = decoded(body)["choices"][0]
    except (ValueError, LookupError, TypeError):
        return None
    return choice if isinstance(choice, dict) and isinstance(choice.get("message"), dict) else None

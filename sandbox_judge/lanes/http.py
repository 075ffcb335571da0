"""HTTP/1.1 for the model lanes: one POST, one whole response, every wait and every size bounded.

h11 keeps the protocol, anyio moves the bytes, on asyncio and trio. It is this small because a judge needs so
little: no cookies, no streaming, no HTTP/2 (docs/decisions/model-lanes.md says why not httpcore).
"""

import contextlib
import select
import zlib
from collections.abc import Mapping
from typing import Final

import anyio
import anyio.abc
import h11
import msgspec
from anyio.abc import SocketAttribute

from sandbox_judge.lanes.address import HttpFailure, Origin, Proxy, origin_and_target, proxy_for
from sandbox_judge.lanes.connect import Connector, Resolver, system_resolver

BODY_CAP: Final = 8 * 1024 * 1024
ERROR_BODY_CAP: Final = 64 * 1024
HEAD_CAP: Final = 64 * 1024
REDIRECTS: Final = 3
IDLE_S: Final = 55.0  # below the minute after which common gateways hang up on an idle connection
_READ: Final = 65_536
_SMALL: Final = 65_536  # fits the system's send buffers
_CUT_OFF: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """`headers` has lower-case names; repeated ones are joined by commas. `requests` counts the POSTs that it
    took: redirects, and a repeat where an idle connection turned out closed. An error's body may be cut."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    requests: int = 1


class _Stale(Exception):
    """A kept connection was closed by the server before it saw this request."""


class _Connection:
    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self.stream = stream
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_CAP)
        self.used = False
        self.sent = True
        self.idle_since = 0.0

    def is_live(self, now: float) -> bool:
        """May it be used again? An idle connection with something to read was closed, or is out of step."""
        if now - self.idle_since > IDLE_S:
            return False
        raw = self.stream.extra(SocketAttribute.raw_socket, None)  # noqa: S610  # no Django here
        if raw is None or raw.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
        return not poll.poll(0)


class HttpClient:
    """One a run or server, for all its calls; of one event loop. `environ` names proxies and certificates."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        body_cap: int = BODY_CAP,
        resolver: Resolver = system_resolver,
    ) -> None:
        self._environ = environ
        self._body_cap = body_cap
        self._connector = Connector(environ, resolver)
        self._idle: dict[tuple[Origin, Proxy | None], list[_Connection]] = {}
        self._closed = False

    async def post(
        self, url: str, *, headers: Mapping[str, str], content: bytes, deadline: float
    ) -> Response:
        """The response to one POST, whatever its status. `deadline` is on anyio's clock and bounds all of it:
        names, connect, TLS, every byte. Redirects are followed on the same origin. Raises HttpFailure."""
        with anyio.CancelScope(deadline=deadline) as scope:
            return await self._followed(url, headers, content)
        if scope.cancelled_caught:
            raise HttpFailure("timeout", "no whole answer before the call's deadline")
        raise AssertionError("a scope that was not cancelled returned nothing")

    async def warm(self, url: str, *, count: int, deadline: float) -> None:
        """Sees to it that `count` idle connections to the origin of `url` are open. Never raises for what
        keeps one from opening: the first call that needs it says so. `deadline` is on anyio's clock."""
        with contextlib.suppress(HttpFailure), anyio.CancelScope(deadline=deadline):
            origin, _ = origin_and_target(url)
            key = (origin, proxy_for(origin, self._environ))
            idle = self._idle.setdefault(key, [])
            half_ago = anyio.current_time() - IDLE_S / 2  # what is older may be gone when it is needed
            fresh = [c for c in idle if c.idle_since > half_ago and c.is_live(anyio.current_time())]
            aged = [connection for connection in idle if connection not in fresh]
            idle[:] = fresh
            for connection in aged:
                await anyio.aclose_forcefully(connection.stream)
            for _ in range(count - len(fresh)):
                connection = _Connection(await self._connector.open(*key))
                connection.used, connection.idle_since = True, anyio.current_time()
                idle.append(connection)

    async def aclose(self) -> None:
        """Closes idle connections; those in use close when their call ends."""
        self._closed = True
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                await anyio.aclose_forcefully(connection.stream)

    async def _followed(self, url: str, headers: Mapping[str, str], content: bytes) -> Response:
        origin, target = origin_and_target(url)
        requests = 0
        for _ in range(REDIRECTS + 1):
            response = await self._exchanged(origin, target, headers, content)
            requests += response.requests
            if response.status not in (301, 302, 303, 307, 308):
                return msgspec.structs.replace(response, requests=requests)
            if response.status not in (307, 308):
                raise HttpFailure("redirect", f"HTTP {response.status}: the redirect would lose the request")
            target = _same_origin_target(response.headers.get("location", ""), origin, target)
        raise HttpFailure("redirect", f"more than {REDIRECTS} redirects")

    async def _exchanged(
        self, origin: Origin, target: str, headers: Mapping[str, str], content: bytes
    ) -> Response:
        proxy = proxy_for(origin, self._environ)
        own = {"Host": origin.authority, "Accept-Encoding": "gzip, deflate", "Accept": "application/json"}
        own["Content-Length"] = str(len(content))
        if proxy and origin.scheme == "http":
            target = f"{origin}{target}"
            if proxy.authorization:
                own["Proxy-Authorization"] = proxy.authorization
        try:
            request = h11.Request(method="POST", target=target, headers=list({**own, **headers}.items()))
        except (h11.LocalProtocolError, UnicodeError) as error:
            raise HttpFailure("unusable", "a header (the key?) holds characters that HTTP forbids") from error
        requests = 0
        while True:
            # After one stale connection a fresh one, which cannot be stale: a server that hangs up on this
            # very request must not get it once for every idle connection.
            connection = await (self._fresh(origin, proxy) if requests else self._take(origin, proxy))
            requests += 1
            try:
                response = await self._on(connection, request, content)
            except _Stale:
                continue
            except BaseException:
                await anyio.aclose_forcefully(connection.stream)
                raise
            await self._give_back((origin, proxy), connection)
            return msgspec.structs.replace(response, requests=requests)

    async def _take(self, origin: Origin, proxy: Proxy | None) -> _Connection:
        idle = self._idle.get((origin, proxy), [])
        while idle:
            connection = idle.pop()
            if connection.is_live(anyio.current_time()):
                return connection
            await anyio.aclose_forcefully(connection.stream)
        return await self._fresh(origin, proxy)

    async def _fresh(self, origin: Origin, proxy: Proxy | None) -> _Connection:
        return _Connection(await self._connector.open(origin, proxy))

    async def _give_back(self, key: tuple[Origin, Proxy | None], connection: _Connection) -> None:
        http = connection.http
        if (
            self._closed
            or not connection.sent
            or http.our_state is not h11.DONE
            or http.their_state is not h11.DONE
        ):
            await anyio.aclose_forcefully(connection.stream)
            return
        http.start_next_cycle()
        connection.used = True
        connection.idle_since = anyio.current_time()
        self._idle.setdefault(key, []).append(connection)

    async def _on(self, connection: _Connection, request: h11.Request, content: bytes) -> Response:
        http = connection.http
        parts = (http.send(request), http.send(h11.Data(data=content)), http.send(h11.EndOfMessage()))
        try:
            head = await _answered(connection, b"".join(part for part in parts if part))
            body = await self._body(connection, head)
        except _HungUp as error:
            if connection.used and not error.heard:
                await anyio.aclose_forcefully(connection.stream)
                raise _Stale from error
            raise HttpFailure("connection", f"the server hung up {error}") from error
        except h11.RemoteProtocolError as error:
            raise HttpFailure("bad_reply", "the answer is not HTTP/1.1") from error
        return Response(status=head.status_code, headers=_folded(head), body=body)

    async def _body(self, connection: _Connection, head: h11.Response) -> bytes:
        is_error = head.status_code >= 300
        cap = ERROR_BODY_CAP if is_error else self._body_cap
        decoded = _Decoded(_folded(head).get("content-encoding", ""), cap)
        while True:
            event = await _event(connection, "amid the body")
            if isinstance(event, h11.EndOfMessage):
                decoded.end(lenient=is_error)
                return bytes(decoded.data)
            if isinstance(event, h11.Data) and not decoded.feed(bytes(event.data)):
                if is_error:  # what was read says enough; the rest is left, and the connection with it
                    return bytes(decoded.data)
                raise HttpFailure("bad_reply", f"the answer is larger than {cap:,} bytes")


class _HungUp(Exception):
    """`heard`: something of an answer came before."""

    def __init__(self, when: str, *, heard: bool) -> None:
        super().__init__(when)
        self.heard = heard


def _hung_up(http: h11.Connection, when: str) -> _HungUp:
    return _HungUp(when, heard=when != "before answering" or bool(http.trailing_data[0]))


async def _answered(connection: _Connection, data: bytes) -> h11.Response:
    """Sends `data`, and the head of the answer, which may come before all is sent: a server may say 413 and
    hang up, and a failed write would throw away what it said. Small requests do not wait to be sent."""
    stream = connection.stream
    if len(data) <= _SMALL:
        with contextlib.suppress(*_CUT_OFF):  # what the server said, if anything, is still to be read
            await stream.send(data)
        return await _head(connection)
    answer: list[h11.Response | Exception] = []

    async def send() -> None:
        with contextlib.suppress(*_CUT_OFF):
            await stream.send(data)
            connection.sent = True

    connection.sent = False
    async with anyio.create_task_group() as group:
        group.start_soon(send)
        try:
            answer.append(await _head(connection))
        except (_HungUp, h11.RemoteProtocolError) as error:  # raised outside, so that no group wraps it
            answer.append(error)
        group.cancel_scope.cancel()
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]


async def _head(connection: _Connection) -> h11.Response:
    while True:
        event = await _event(connection, "before answering")
        if isinstance(event, h11.Response):
            return event


async def _event(connection: _Connection, when: str) -> h11.Event:
    """The next event, reading as needed. Raises _HungUp, h11.RemoteProtocolError."""
    http = connection.http
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError as error:
            if http.trailing_data[1]:  # end-of-file was fed: the message was cut short, not malformed
                raise _hung_up(http, when) from error
            raise
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await connection.stream.receive(_READ))
            except anyio.EndOfStream:
                http.receive_data(b"")
            except _CUT_OFF as error:
                raise _hung_up(http, when) from error
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            raise _hung_up(http, when)
        elif isinstance(event, h11.Event):
            return event


class _Decoded:
    """A body as it comes in, its coding undone, never more than `cap` bytes of it: no gzip bomb unfolds."""

    def __init__(self, coding: str, cap: int) -> None:
        coding = coding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise HttpFailure("bad_reply", "the answer has a content coding that was not asked for")
        self.data = bytearray()
        self._cap = cap
        self._coding = coding
        self._inflate = None if coding in ("", "identity") else zlib.decompressobj(wbits=47)

    def feed(self, chunk: bytes) -> bool:
        """False once there is more than the cap. Raises HttpFailure for a damaged coding."""
        room = self._cap - len(self.data)
        if self._inflate is None:
            self.data += chunk[:room]
            return len(chunk) <= room
        while chunk and not self._inflate.eof:
            self.data += self._unfolded(chunk, room + 1)
            if len(self.data) > self._cap:
                del self.data[self._cap :]
                return False
            room = self._cap - len(self.data)
            chunk = self._inflate.unconsumed_tail
        return True

    def _unfolded(self, chunk: bytes, most: int) -> bytes:
        assert self._inflate is not None
        try:
            return self._inflate.decompress(chunk, most)
        except zlib.error as error:
            if self._coding == "deflate" and not self.data:
                # Some servers send a raw stream under this name (RFC 9110 8.4.1.2 notes them).
                self._coding, self._inflate = "raw deflate", zlib.decompressobj(wbits=-15)
                return self._unfolded(chunk, most)
            raise HttpFailure("bad_reply", "the answer's compression is damaged") from error

    def end(self, *, lenient: bool) -> None:
        if self._inflate is not None and not self._inflate.eof and self.data and not lenient:
            raise HttpFailure("bad_reply", "the answer's compression is cut short")


def _folded(head: h11.Response) -> dict[str, str]:
    folded: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        folded[name] = f"{folded[name]}, {value}" if name in folded else value
    return folded


def _same_origin_target(location: str, origin: Origin, target: str) -> str:
    """The target that a redirect of this very origin names. Raises HttpFailure for any other."""
    if not location:
        raise HttpFailure("redirect", "a redirect without a location")
    if location.startswith("/") and not location.startswith("//"):
        location = f"{origin}{location}"
    elif "://" not in location:
        raise HttpFailure("redirect", "a redirect to a location that is neither a path nor a URL")
    try:
        there, new_target = origin_and_target(location)
    except HttpFailure as error:
        raise HttpFailure("redirect", "a redirect to a location that cannot be read") from error
    if there != origin:
        raise HttpFailure(
            "redirect", f"the endpoint redirects to {there}, where the key does not go: set that base URL"
        )
    return new_target

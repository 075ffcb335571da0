"""Byte streams to an origin: names resolved in threads that hold nothing up, TLS, proxies. Deadlines are the
caller's cancel scope: every wait in here can be cancelled at once."""

import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Mapping

import anyio
import anyio.abc
import certifi
import h11
from anyio.streams.tls import TLSStream

from sandbox_judge.lanes.address import HttpFailure, Origin, Proxy
from sandbox_judge.lanes.threads import Background

Resolver = Callable[[str, int], list[str]]
_EYEBALLS_S = 0.25  # RFC 8305: how long one address may stay silent before the next is tried beside it
_NAMES_KEPT_S = 60.0
_HEAD_BYTES = 65_536


def system_resolver(host: str, port: int) -> list[str]:
    """The addresses of `host`, in the system's order. Blocks; raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Connector:
    """Opens connections for one client: remembers names for a minute, and makes the TLS context when the
    first https origin needs it (it costs milliseconds)."""

    def __init__(self, environ: Mapping[str, str], resolver: Resolver = system_resolver) -> None:
        self._environ = environ
        self._resolver = resolver
        self._names: dict[tuple[str, int], tuple[float, Background[list[str]]]] = {}
        self._context: ssl.SSLContext | None = None

    async def open(self, origin: Origin, proxy: Proxy | None) -> anyio.abc.ByteStream:
        """A stream that speaks to `origin`, or to a plain http origin's proxy. Raises HttpFailure."""
        first = proxy.origin if proxy else origin
        stream: anyio.abc.ByteStream = await self._dial(first)
        try:
            if first.scheme == "https":
                stream = await self._secured(stream, first)
            if proxy and origin.scheme == "https":
                await _tunnel(stream, origin, proxy)
                stream = await self._secured(stream, origin)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
        return stream

    async def _dial(self, origin: Origin) -> anyio.abc.SocketStream:
        addresses = await self._addresses(origin)
        won: list[anyio.abc.SocketStream] = []
        errors: list[OSError] = []

        async def attempt(address: str, ended: anyio.Event) -> None:
            try:
                stream = await anyio.connect_tcp(address, origin.port)
            except OSError as error:
                errors.append(error)
            else:
                won.append(stream)
                group.cancel_scope.cancel()
            finally:
                ended.set()

        try:
            async with anyio.create_task_group() as group:
                for address in addresses:
                    ended = anyio.Event()
                    group.start_soon(attempt, address, ended)
                    with anyio.move_on_after(_EYEBALLS_S):
                        await ended.wait()
        except BaseException:
            for stream in won:
                await anyio.aclose_forcefully(stream)
            raise
        for stream in won[1:]:
            await anyio.aclose_forcefully(stream)
        if not won:
            raise HttpFailure("connection", f"cannot connect to {origin}: {_told(errors)}")
        return won[0]

    async def _addresses(self, origin: Origin) -> list[str]:
        try:
            return [ipaddress.ip_address(origin.host).compressed]
        except ValueError:
            pass
        key = (origin.host, origin.port)
        now = anyio.current_time()
        since, lookup = self._names.get(key, (0.0, None))
        # One thread a name, however many calls wait for it: a resolver that hangs is not asked again.
        if lookup is None or (lookup.finished and now - since > _NAMES_KEPT_S):
            host, port = key
            lookup = Background(lambda: self._resolver(host, port), name=f"resolve {host}")
            self._names[key] = (now, lookup)
        try:
            addresses = await lookup.result()
        except (OSError, UnicodeError) as error:
            self._names.pop(key, None)
            text = error.strerror if isinstance(error, OSError) else None
            raise HttpFailure("connection", f"cannot resolve {origin.host}: {text or error}") from error
        if not addresses:
            raise HttpFailure("connection", f"cannot resolve {origin.host}: no address")
        return addresses

    async def _secured(self, stream: anyio.abc.ByteStream, origin: Origin) -> TLSStream:
        if self._context is None:
            self._context = tls_context(self._environ)
        try:
            # Not "standard compatible": HTTP frames its own messages, and many servers just hang up.
            return await TLSStream.wrap(
                stream, hostname=origin.host, ssl_context=self._context, standard_compatible=False
            )
        except ssl.SSLCertVerificationError as error:
            raise HttpFailure(
                "connection",
                f"TLS with {origin}: {error.verify_message or 'certificate not trusted'}"
                " (name a private CA's bundle in SSL_CERT_FILE)",
            ) from error
        except (OSError, ValueError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            reason = getattr(error, "reason", None) or "the server hung up in the handshake"
            raise HttpFailure("connection", f"TLS with {origin}: {reason}") from error


def tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Verifying; trusts certifi's bundle, or the one that the environment names instead of it (the first of
    SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE), and also SSL_CERT_DIR. Raises HttpFailure."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    named = (n for n in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if environ.get(n))
    name = next(named, None)
    path = environ[name] if name else certifi.where()
    directory = environ.get("SSL_CERT_DIR") or None
    if os.path.isdir(path):  # requests allows a directory in its variable
        path, directory = "", path
    try:
        context.load_verify_locations(path or None, directory)
    except (OSError, ssl.SSLError) as error:
        raise HttpFailure(
            "unusable", f"{name or 'certifi'} names no readable bundle of certificates"
        ) from error
    return context


async def _tunnel(stream: anyio.abc.ByteStream, origin: Origin, proxy: Proxy) -> None:
    """Ask `proxy` for a tunnel to `origin` (CONNECT, RFC 9110 9.3.6)."""
    conn = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
    headers = [("Host", origin.host_and_port)]
    if proxy.authorization:
        headers.append(("Proxy-Authorization", proxy.authorization))
    request = h11.Request(method="CONNECT", target=origin.host_and_port, headers=headers)
    try:
        await stream.send(conn.send(request) + conn.send(h11.EndOfMessage()))
        while True:
            event = conn.next_event()
            if event is h11.NEED_DATA:
                conn.receive_data(await stream.receive())
            elif isinstance(event, h11.Response):
                break
            elif not isinstance(event, h11.InformationalResponse):
                raise HttpFailure("connection", f"the proxy {proxy.origin} did not answer CONNECT")
    except (h11.RemoteProtocolError, anyio.EndOfStream, anyio.BrokenResourceError, OSError) as error:
        raise HttpFailure("connection", f"the proxy {proxy.origin} hung up at CONNECT") from error
    if not 200 <= event.status_code < 300:
        raise HttpFailure("connection", f"the proxy {proxy.origin} refused a tunnel: {event.status_code}")


def _told(errors: list[OSError]) -> str:
    """The reasons, each once. anyio wraps the system's own error, which alone says what happened."""
    reasons: list[str] = []
    for error in errors:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        number = getattr(cause, "errno", None)
        reasons.append(os.strerror(number).lower() if isinstance(number, int) and number > 0 else "failed")
    return ", ".join(dict.fromkeys(reasons)) or "no address"

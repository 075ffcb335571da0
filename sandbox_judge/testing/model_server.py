"""A scripted model over real HTTP on 127.0.0.1, for tests of anything that calls a model.

    with ModelServer([chat("first"), status(500), chat("third")]) as server:
        ...  # POST to server.base_url + "/chat/completions"
    assert server.requests[0].json["model"] == "m"

The script is one answer for every request, a list (one a request, in order of arrival; when it is used up the
server answers 500 and says so), or a function of the request. Answers, and the faults that a model's endpoint
can stage, are in `sandbox_judge.testing.answers`. Every wait ends when the server closes, at the latest after
`longest_s` seconds.
"""

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import msgspec

_HEAD_CAP = 65_536
_BODY_CAP = 64 * 1024 * 1024


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came. `connection` numbers the connection that it came on, from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        """The body as JSON, None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Line:
    """The server's side of one connection while it answers one request."""

    def __init__(self, sock: socket.socket, request: Request, closing: threading.Event, longest_s: float):
        self._sock = sock
        self._closing = closing
        self._longest_s = longest_s
        self.request = request
        self.keep = True

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def pause(self, seconds: float) -> bool:
        """Waits; False when the server is closing, so that a loop can end."""
        return not self._closing.wait(min(seconds, self._longest_s))

    def hang(self) -> None:
        """Says nothing more, and keeps the connection until the server closes."""
        self.pause(self._longest_s)
        self.keep = False

    def hang_up(self) -> None:
        """Ends the connection after what was sent."""
        self.keep = False

    def reset(self) -> None:
        """Ends the connection with a reset: what was sent may never be read."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.keep = False


Answer = Callable[[Line], None]
Script = Answer | Sequence[Answer] | Callable[[Request], Answer]


class ModelServer:
    """A context manager. `by_request=True` says that the script is a function of the request.

    `silent=True` accepts connections and never reads or writes (a hung TLS handshake looks like this).
    `tls` serves https with that context.
    """

    def __init__(
        self,
        script: Script,
        *,
        by_request: bool = False,
        silent: bool = False,
        tls: ssl.SSLContext | None = None,
        longest_s: float = 60.0,
    ) -> None:
        self._script = script
        self._by_request = by_request
        self._silent = silent
        self._tls = tls
        self._longest_s = longest_s
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.requests: list[Request] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """The base URL of an endpoint in OpenAI's wire format."""
        return f"{self.url}/v1"

    def __enter__(self) -> "ModelServer":
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every connection and waits for the threads."""
        self._closing.set()
        # A thread in accept() does not notice that its socket closes: knock.
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass
        with self._lock:
            still_open = list(self._open)
        for sock in still_open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)
        self._listener.close()

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True, name="scripted model")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self._closing.is_set():
                sock.close()
                return
            self._threads = [t for t in self._threads if t.is_alive()]
            with self._lock:
                self.connections += 1
                number = self.connections
                self._open.add(sock)
            self._start(self._serve, sock, number)

    def _serve(self, sock: socket.socket, number: int) -> None:
        plain = sock
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._silent:
                self._closing.wait(self._longest_s)
                return
            sock.settimeout(self._longest_s)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
                with self._lock:
                    self._open.discard(plain)  # wrapping took its file descriptor
                    self._open.add(sock)
            while (request := _read_request(sock, number)) is not None:
                answer = self._answer(request)
                line = Line(sock, request, self._closing, self._longest_s)
                answer(line)
                if not line.keep or self._closing.is_set():
                    return
        except (OSError, ValueError):
            return  # the client went away, or never spoke HTTP: nothing to tell it
        finally:
            with self._lock:
                self._open.discard(sock)
                self._open.discard(plain)
            sock.close()
            plain.close()

    def _answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        script: Any = self._script
        if self._by_request:
            chosen: Answer = script(request)
            return chosen
        if callable(script):
            only: Answer = script
            return only
        if number > len(script):
            return _used_up
        nth: Answer = script[number - 1]
        return nth


def _used_up(line: Line) -> None:
    body = b'{"error": {"message": "the script of this test server is used up"}}'
    line.send(b"HTTP/1.1 500 Used Up\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def _read_request(sock: socket.socket, number: int) -> Request | None:
    """The next request of a connection, None at its end. Raises ValueError for what is not HTTP."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = sock.recv(65_536)
        if not chunk:
            return None
        data += chunk
        if len(data) > _HEAD_CAP and b"\r\n\r\n" not in data:
            raise ValueError("request head too large")
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    if length > _BODY_CAP:
        raise ValueError("request body too large")
    parts = [body]
    left = length - len(body)
    while left > 0:
        chunk = sock.recv(min(left, 1_048_576))
        if not chunk:
            return None
        parts.append(chunk)
        left -= len(chunk)
    return Request(method=method, target=target, headers=headers, body=b"".join(parts), connection=number)

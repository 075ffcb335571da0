"""The Judgements page on loopback, read-only: one page, made anew when asked."""

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from sandbox_judge.errors import SandboxJudgeError, UsageError

_FRESH_SECONDS: Final = 2.0
_REQUEST_SECONDS: Final = 10.0
_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer(ThreadingHTTPServer):
    """Serves what `make` gives. Listens on 127.0.0.1 only; `port` 0 takes a free one. Raises UsageError."""

    daemon_threads = True

    def __init__(self, make: Callable[[], bytes], *, port: int) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._page = b""
        self._made = -_FRESH_SECONDS
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as err:
            raise UsageError(
                f"port {port} cannot be listened on: {err}.", remedy="Give another --port."
            ) from err

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def page(self) -> bytes:
        """The page, at most two seconds old. Raises what `make` raises."""
        with self._lock:
            if time.monotonic() - self._made >= _FRESH_SECONDS:
                self._page = self._make()
                self._made = time.monotonic()
            return self._page


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = _REQUEST_SECONDS
    server_version = "sandbox-judge"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        port = self.server.server_port
        # Another name for loopback is a page of somebody else's that wants to read this one (DNS rebinding).
        if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            return self._send(403, b"this page is for 127.0.0.1 only\n", body)
        if self.path != "/":
            return self._send(404, b"there is only /\n", body)
        try:
            page = self.server.page()
        except SandboxJudgeError as err:
            return self._send(
                503, err.paragraph().encode("utf-8", "replace"), body, "text/plain; charset=utf-8"
            )
        return self._send(200, page, body)

    def _send(self, status: int, content: bytes, body: bool, kind: str | None = None) -> None:
        self.send_response(status)
        plain = "text/plain; charset=utf-8" if status != 200 else None
        for name, value in _HEADERS.items():
            self.send_header(name, (kind or plain or value) if name == "Content-Type" else value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what is asked for is no news."""

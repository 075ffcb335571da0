"""A collector on a unix stream socket that behaves as it is told, well or badly, for tests."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec

_TICK_S: Final = 0.02
_READ: Final = 65_536


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What a collector does. The defaults make a well-behaved `unix:` one.

    `acks`: answer no line, each line, each with another id first and garbage around, or all at end of input.
    `reads`: False accepts and never reads. `accepts`: False listens only. `byte_every_s` reads one byte at a
    time, so often. `die_after` closes a connection after so many bytes, leaving the rest unread; `deaths` is
    how many connections that befalls. `lines_each` closes a connection after so many lines. `chatter` is sent
    as soon as a connection stands.
    """

    acks: Literal["none", "each", "confused", "at_end"] = "none"
    accepts: bool = True
    reads: bool = True
    byte_every_s: float = 0.0
    die_after: int | None = None
    deaths: int = 1
    lines_each: int | None = None
    chatter: bytes = b""


class Collector:
    """Listens in threads of its own from `start` (or entering the block) to `stop`.

    `received` holds the bytes of each connection, in the order of accepting.
    """

    def __init__(self, path: Path, behaviour: Behaviour | None = None, *, backlog: int = 64) -> None:
        self.path = path
        self.behaviour = behaviour or Behaviour()
        self.received: list[bytearray] = []
        self._backlog = backlog
        self._deaths = 0
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Binds the path, over a stale socket too. Raises OSError."""
        self._stopping.clear()
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen(self._backlog)
        self._listener.settimeout(_TICK_S)
        if self.behaviour.accepts:
            self._spawn(self._accept, self._listener)

    def stop(self) -> None:
        """Closes everything; leaves the socket file behind, stale, as a crash would."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self._listener is not None:
            self._listener.close()

    def events(self) -> Iterator[dict[str, Any]]:
        """Every whole line received, parsed, duplicates included. Raises ValueError for a line that is no
        JSON. A connection's last line without a newline is half a line, and no event."""
        for data in self.received:
            for line in bytes(data).split(b"\n")[:-1]:
                yield json.loads(line)

    def ids(self) -> list[str]:
        """The `id` of every event received, duplicates included."""
        return [str(event["id"]) for event in self.events()]

    def wait_for(self, count: int, *, timeout_s: float = 5.0) -> None:
        """Until so many different ids have come. Raises TimeoutError."""
        end = time.monotonic() + timeout_s
        while len(set(self.ids())) < count:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(set(self.ids()))} of {count} events came")
            time.sleep(_TICK_S)

    def _spawn(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            try:
                connection = listener.accept()[0]
            except TimeoutError:
                continue
            self.received.append(bytearray())
            self._spawn(self._serve, connection, self.received[-1])

    def _serve(self, connection: socket.socket, received: bytearray) -> None:
        with connection:
            connection.settimeout(_TICK_S)
            try:
                self._converse(connection, received)
            except OSError:  # the sender went away
                return

    def _converse(self, connection: socket.socket, received: bytearray) -> None:
        if self.behaviour.chatter:
            self._push(connection, self.behaviour.chatter)
        answered = 0
        while not self._stopping.is_set():
            if not self.behaviour.reads:
                time.sleep(_TICK_S)
                continue
            try:
                data = connection.recv(self._appetite(received))
            except TimeoutError:
                continue
            received += data
            lines = bytes(received).split(b"\n")[:-1]
            if self.behaviour.acks != "at_end" or not data:
                self._answer(connection, lines[answered:])
                answered = len(lines)
            if not data or self._is_over(received, lines):
                return
            time.sleep(self.behaviour.byte_every_s)

    def _push(self, connection: socket.socket, data: bytes) -> None:
        left = memoryview(data)
        while left and not self._stopping.is_set():
            try:
                left = left[connection.send(left) :]
            except TimeoutError:  # the sender does not read yet
                continue

    def _appetite(self, received: bytearray) -> int:
        if self.behaviour.byte_every_s:
            return 1
        if self.behaviour.die_after is not None and self._deaths < self.behaviour.deaths:
            return max(1, self.behaviour.die_after - len(received))
        if self.behaviour.lines_each is not None:
            return 1
        return _READ

    def _is_over(self, received: bytearray, lines: list[bytes]) -> bool:
        dies = self.behaviour.die_after is not None and self._deaths < self.behaviour.deaths
        if dies and len(received) >= (self.behaviour.die_after or 0):
            self._deaths += 1
            return True
        return self.behaviour.lines_each is not None and len(lines) >= self.behaviour.lines_each

    def _answer(self, connection: socket.socket, lines: list[bytes]) -> None:
        if self.behaviour.acks == "none":
            return
        for line in lines:
            answer = json.dumps({"ack": json.loads(line)["id"]}).encode() + b"\n"
            if self.behaviour.acks == "confused":
                self._push(
                    connection, b'{"ack": "another"}\n{"ack": 5}\n[]\n\xff\xfe{"\n' + b"x" * 9_000 + b"\n\n"
                )
            self._push(connection, answer)

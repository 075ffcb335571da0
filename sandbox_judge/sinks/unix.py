"""Events to a collector on a unix stream socket, one line of JSON each (design, section 11).

`unix:PATH`: a line is taken when all bytes of the run were written and our side was shut down without error.
`unix+ack:PATH`: a line is taken when the collector has answered `{"ack": "<event id>"}`, in any order.

One connection serves a run. A line that was cut by a broken connection is never continued: the caller sends
it again whole, with the same id, on a new one.
"""

import fcntl
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec

from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.base import Line, Taken
from sandbox_judge.sinks.unix_connect import check_path, connected

_READ: Final = 65_536
_READS_AT_ONCE: Final = 16
_ACK_CAP: Final = 4_096
_POLL_S: Final = 0.02
_LINGER_S: Final = 0.2
_SIOCOUTQ: Final = 0x5411  # Linux: bytes that the peer has not read yet
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)


class _Ack(msgspec.Struct):
    ack: str


class UnixSink:
    """`acks` makes it the `unix+ack:` form. Raises SettingsError for an impossible path."""

    spooled = True
    takes_ledger = True

    def __init__(self, path: Path, *, acks: bool = False) -> None:
        self.name = f"unix{'+ack' if acks else ''}:{path}"
        check_path(path, where=self.name)
        self._path = path
        self._acks = acks
        self._socket: socket.socket | None = None
        self._waiting: dict[str, None] = {}  # sent on this connection, not known to be taken
        self._answers = _Answers()
        self._at_end = False  # the collector has closed its side
        self._one_by_one = False

    async def send(self, lines: Sequence[Line], *, deadline: float, taken: Taken) -> None:
        with anyio.CancelScope(deadline=deadline) as scope, self._closing_on_error():
            for line in lines:
                await self._write(line, taken)
                if self._one_by_one:
                    await self._ended(taken)
        if scope.cancelled_caught:
            raise DeliveryError("the collector does not read: no room before the deadline.", where=self.name)

    async def finish(self, *, deadline: float, taken: Taken) -> None:
        with anyio.CancelScope(deadline=deadline) as scope, self._closing_on_error():
            await self._ended(taken)
        if scope.cancelled_caught:
            what = "the collector gave no acknowledgement" if self._acks else "the stream was not ended"
            raise DeliveryError(f"{what} before the deadline.", where=self.name)

    async def aclose(self) -> None:
        self._drop()

    def _drop(self) -> None:
        """Closes the connection; what was not taken on it counts as not sent."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._waiting.clear()
        self._answers = _Answers()
        self._at_end = False

    @contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # A collector that takes one line a connection would break each longer one for ever: from here on
            # every line has its own and is settled at once. (Acknowledged lines are not sent again anyway.)
            self._one_by_one = self._one_by_one or (bool(self._waiting) and not self._acks)
            self._drop()
            reason = (error.strerror or str(error)).lower()
            raise DeliveryError(f"the connection broke: {reason}.", where=self.name) from error
        except BaseException:
            self._drop()
            raise

    async def _write(self, line: Line, taken: Taken) -> None:
        if self._socket is None:
            self._socket = await connected(self._path, where=self.name)
        left = memoryview(line.data + b"\n")
        while left:
            self._read(taken)
            if self._acks and self._at_end:
                raise DeliveryError("the collector closed the connection.", where=self.name)
            try:
                left = left[self._socket.send(left, _NO_SIGNAL) :]
            except BlockingIOError:
                # In steps: a collector that waits until we read its answers would wait for us, as we for it.
                with anyio.move_on_after(_POLL_S):
                    await anyio.wait_writable(self._socket)
        self._waiting[line.event_id] = None

    async def _ended(self, taken: Taken) -> None:
        """Shuts our side down and settles what is still waiting."""
        if self._socket is None:
            return
        self._socket.shutdown(socket.SHUT_WR)
        if self._acks:
            await self._acknowledged(self._socket, taken)
        else:
            await self._read_by_peer(self._socket)
            for event_id in list(self._waiting):
                taken(event_id)
        self._drop()

    async def _acknowledged(self, connection: socket.socket, taken: Taken) -> None:
        while True:
            self._read(taken)
            if not self._waiting:
                return
            if self._at_end:
                raise DeliveryError(
                    f"the collector closed the connection and {len(self._waiting)} of the events sent had no"
                    " acknowledgement.",
                    where=self.name,
                )
            await anyio.wait_readable(connection)

    async def _read_by_peer(self, connection: socket.socket) -> None:
        """Waits a little for the collector to read what the kernel holds for it: one that dies before that is
        noticed then (the reset arrives here). One that is merely slow is trusted, as the contract says."""
        wait = 0.0005
        now = anyio.current_time()
        end = min(now + _LINGER_S, anyio.current_effective_deadline() - _POLL_S)
        while not self._at_end and now < end and _unread(connection):
            await anyio.sleep(min(wait, end - now))
            wait, now = min(wait * 2, _POLL_S), anyio.current_time()
            self._read(None)
        self._read(None)
        error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, "the collector closed the connection without reading everything")

    def _read(self, taken: Taken | None) -> None:
        """Reads what the collector has sent, without waiting, a bounded amount. Raises OSError on a reset."""
        assert self._socket is not None
        for _ in range(_READS_AT_ONCE):
            try:
                data = self._socket.recv(_READ)
            except BlockingIOError:
                return
            if not data:
                self._at_end = True
                return
            if self._acks and taken is not None:
                for event_id in self._answers.feed(data):
                    if event_id in self._waiting:
                        del self._waiting[event_id]
                        taken(event_id)


class _Answers:
    """Acknowledgements out of whatever a collector sends: garbage and overlong lines are passed over."""

    def __init__(self) -> None:
        self._part = b""
        self._overlong = False

    def feed(self, data: bytes) -> Iterator[str]:
        *whole, self._part = (self._part + data).split(b"\n")
        for line in whole:
            if self._overlong:
                self._overlong = False
                continue
            try:
                yield msgspec.json.decode(line, type=_Ack).ack
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
        if len(self._part) > _ACK_CAP:
            self._part = b""
            self._overlong = True


def _unread(connection: socket.socket) -> bool:
    try:
        held: int = struct.unpack("i", fcntl.ioctl(connection, _SIOCOUTQ, b"\0" * 4))[0]
    except OSError:  # not Linux
        return False
    return held > 0

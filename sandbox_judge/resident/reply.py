"""The reply to a client as one more sink of its run: a copy of the events, and last the ledger.

Whether the client has read it, the kernel tells: what it has not read counts as queued on our side of the
socket, and a client that goes away with something unread leaves a reset behind.
"""

import contextlib
import errno
import fcntl
import socket
import struct
import termios
from collections.abc import Sequence
from typing import Final

import anyio

from sandbox_judge.sinks.base import Line, SinkBroken, Taken
from sandbox_judge.sinks.stdout import StdoutSink

# The name under which the spool keeps what a client did not wait for; `flush` writes it to stdout.
REPLY: Final = "reply"
_FIRST_LOOK_S: Final = 0.001
_LAST_LOOK_S: Final = 0.05
_DRAINED: Final = 1 << 18
_NO_SIGNAL: Final = socket.MSG_NOSIGNAL


class ReplySink:
    """Owns the connection from now on. `read` says, after the end, that the client has everything.

    `confirm`: wait until the client has read (where nobody else gets the events).
    """

    name = REPLY
    spooled = False
    takes_ledger = True

    def __init__(self, sock: socket.socket, *, confirm: bool) -> None:
        self._sock = sock
        self._confirm = confirm
        self._broken = False
        self.read = False

    async def send(self, lines: Sequence[Line], *, deadline: float, taken: Taken) -> None:
        data = b"".join(line.data + b"\n" for line in lines)
        with anyio.CancelScope(deadline=deadline) as scope:
            await self._write(memoryview(data))
        if scope.cancelled_caught:
            raise self._gone("does not read")
        for line in lines:
            taken(line.event_id)

    async def finish(self, *, deadline: float, taken: Taken) -> None:
        """Ends the stream, and looks whether all of it was read."""
        if self._broken:
            return
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            return
        if not self._confirm:
            return
        look_s = _FIRST_LOOK_S
        while anyio.current_time() < deadline:
            if self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
                return
            if _unread(self._sock) == 0:
                # The reset of a client that left in this very moment comes with its close.
                self.read = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
                return
            await anyio.sleep(look_s)
            look_s = min(2 * look_s, _LAST_LOOK_S)

    async def aclose(self) -> None:
        hang_up(self._sock)

    async def _write(self, left: memoryview) -> None:
        if self._broken:
            raise self._gone("went away")
        while left:
            try:
                left = left[self._sock.send(left, _NO_SIGNAL) :]
            except BlockingIOError:
                await anyio.wait_writable(self._sock)
            except OSError as error:
                self._broken = True
                reason = (
                    "went away" if error.errno in (errno.EPIPE, errno.ECONNRESET) else "cannot be reached"
                )
                raise self._gone(reason) from error

    def _gone(self, why: str) -> SinkBroken:
        self._broken = True
        return SinkBroken(f"the client {why}.", where=self.name)


class KeptReply(StdoutSink):
    """Where `flush` takes what a client did not wait for: there is no other place to which it could go."""

    name = REPLY


def hang_up(sock: socket.socket) -> None:
    """Closes a connection so that the client can read what was said: what it sent and nobody read would come
    back to it as a reset. After the shutdown no more can arrive, so this is a buffer's worth at most."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
        while sock.recv(_DRAINED):
            continue
    sock.close()


def _unread(sock: socket.socket) -> int:
    """Bytes that were sent and not yet read by the peer (SIOCOUTQ)."""
    raw = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", raw)[0])

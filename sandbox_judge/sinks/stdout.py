"""Events on standard output: raw writes on a descriptor, never the io stack.

The io stack buffers (a signal loses what it holds), and on a non-blocking pipe loses what did not fit. A line
goes out whole, or the failure is counted. One write carries a line of up to 4,096 bytes (PIPE_BUF), so lines
of that size stay whole among several writers of one pipe; longer ones may be interleaved: use a socket then.
"""

import os
import select
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Final

import anyio

from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.base import Line, SinkBroken, Taken

_PIPE_BUF: Final = select.PIPE_BUF
_POLL_S: Final = 0.02
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)


def claim_stdout() -> int | None:
    """Takes descriptor 1 for events alone: returns a private copy and points 1 itself at stderr, so that what
    a library prints cannot land among the events. None if stdout was closed when the process started.

    Call it once, before anything else opens a file: where 1 is free, it is filled with the null device, lest
    the first file opened becomes standard output.
    """
    was_closed = sys.__stdout__ is None
    for standard in (0, 1, 2):
        try:
            os.fstat(standard)
        except OSError:
            was_closed = was_closed or standard == 1
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is `standard`
    if was_closed:
        return None
    private = _copy(1)
    os.dup2(2, 1)
    return private


def _copy(fd: int) -> int:
    """A close-on-exec copy above the standard three."""
    copies: list[int] = []
    while not copies or copies[-1] <= 2:
        copies.append(os.dup(fd))
    for low in copies[:-1]:
        os.close(low)
    return copies[-1]


class StdoutSink:
    """Writes to a descriptor that it does not own (None: stdout was closed at start)."""

    name = "stdout"
    spooled = False
    takes_ledger = False

    def __init__(self, fd: int | None = 1) -> None:
        self._broken = "" if fd is not None else "stdout is closed."
        self._fd = -1 if fd is None else fd
        self._own: int | None = None
        self._writer: Callable[[memoryview], int] | None = None
        self._socket: socket.socket | None = None

    async def send(self, lines: Sequence[Line], *, deadline: float, taken: Taken) -> None:
        for line in lines:
            with anyio.CancelScope(deadline=deadline) as scope:
                await self._write(line.data + b"\n")
                taken(line.event_id)
                continue
            if scope.cancelled_caught:
                raise DeliveryError(
                    "nobody reads: the line did not fit before the deadline.", where=self.name
                )

    async def finish(self, *, deadline: float, taken: Taken) -> None:
        """Nothing is held back."""

    async def aclose(self) -> None:
        if self._own is not None:
            os.close(self._own)
        if self._socket is not None:
            self._socket.close()
        self._own = self._socket = self._writer = None

    async def _write(self, data: bytes) -> None:
        if self._broken:
            raise SinkBroken(self._broken, where=self.name)
        left = memoryview(data)
        try:
            write = self._writer = self._writer or self._prepared()
            while left:
                try:
                    left = left[write(left) :]
                except BlockingIOError:
                    await self._writable()
        except OSError as error:
            self._fail(error)
        finally:
            if left and len(left) < len(data):
                # A later line would be glued to this half one.
                self._broken = self._broken or "a line was cut in the middle, so nothing can follow it."

    def _fail(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError | ConnectionError):
            self._broken = "its reader closed the pipe."
            raise SinkBroken(self._broken, where=self.name) from error
        raise DeliveryError(f"it cannot be written: {error.strerror}.", where=self.name) from error

    def _prepared(self) -> Callable[[memoryview], int]:
        """How to write without ever blocking the event loop, without changing the descriptor's flags (which
        are shared with whoever else holds it, the shell for one)."""
        mode = os.fstat(self._fd).st_mode
        if stat.S_ISSOCK(mode):
            self._socket = socket.socket(fileno=os.dup(self._fd))
            return self._send
        if stat.S_ISREG(mode) or not os.get_blocking(self._fd):
            return lambda data: os.write(self._fd, data)
        if stat.S_ISFIFO(mode) or os.isatty(self._fd):
            try:  # an opening of our own has flags of its own
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
                self._own = own = os.open(f"/proc/self/fd/{self._fd}", flags)
            except OSError:
                return self._write_when_ready
            return lambda data: os.write(own, data)
        return lambda data: os.write(self._fd, data)

    def _send(self, data: memoryview) -> int:
        assert self._socket is not None
        return self._socket.send(data, socket.MSG_DONTWAIT | _NO_SIGNAL)

    def _write_when_ready(self, data: memoryview) -> int:
        """A pipe that polls as writable takes PIPE_BUF bytes without blocking."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        if not poll.poll(0):
            raise BlockingIOError
        return os.write(self._fd, data[:_PIPE_BUF])

    async def _writable(self) -> None:
        """Until more may fit. Waited for in steps: a pipe with another writer can be ready and full again,
        and not every descriptor can be waited for."""
        fd = self._fd if self._own is None else self._own
        with anyio.move_on_after(_POLL_S):
            try:
                await anyio.wait_writable(self._socket or fd)
            except (OSError, ValueError):
                await anyio.sleep(_POLL_S)

"""A socket that takes events from many hooks at once and acknowledges each after its commit.

A hook that does not wait for acknowledgements has handed an event over once its bytes are written, so
nothing that was accepted may be dropped: connections are bounded before they are accepted, what is beyond
waits in the kernel's queue, and a stop reads what was already sent before it leaves.
"""

import errno
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.abc import SocketListener, SocketStream, TaskGroup

from sandbox_judge.errors import UsageError
from sandbox_judge.store.lines import LineBuffer, Overlong
from sandbox_judge.store.writer import Writer, read_lines
from sandbox_judge.trust import make_private_dir, require_private

MAX_CONNECTIONS: Final = 256
MAX_LINE: Final = 1024 * 1024
IDLE_SECONDS: Final = 300.0
_CHUNK: Final = 256 * 1024
_QUIET_SECONDS: Final = 0.3
_DRAIN_SECONDS: Final = 10.0
_ADDRESS_BYTES: Final = 107


@asynccontextmanager
async def unix_listener(path: Path, *, insecure: bool = False) -> AsyncIterator[SocketListener]:
    """A listening socket, mode 0600, in a directory that nobody else can write; a stale one is replaced, and
    it is removed at the end. Raises UsageError, TrustError."""
    if len(os.fsencode(path)) > _ADDRESS_BYTES:
        raise UsageError(
            f"a socket's path has at most {_ADDRESS_BYTES} bytes.",
            where=str(path),
            remedy="Name a shorter one.",
        )
    if path.parent.exists():
        require_private(path.parent, insecure=insecure, ours=False)
    else:
        make_private_dir(path.parent, insecure=insecure)
    _refuse_occupied(path)
    try:
        listener = await anyio.create_unix_listener(path, mode=0o600, backlog=1024)
    except OSError as err:
        raise UsageError(f"cannot listen: {err.strerror or err}.", where=str(path)) from err
    inode = _inode(path)
    async with listener:
        try:
            yield listener
        finally:
            if _inode(path) == inode:
                os.unlink(path)


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


def _refuse_occupied(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise UsageError("something that is not a socket is there.", where=str(path), remedy="Move it away.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        answer = probe.connect_ex(str(path))
    if answer not in (errno.ECONNREFUSED, errno.ENOENT):
        raise UsageError("something listens there already.", where=str(path), remedy="Stop it first.")


class Collector:
    """Serves one listener until told to stop."""

    def __init__(
        self,
        writer: Writer,
        *,
        max_line: int = MAX_LINE,
        idle_s: float = IDLE_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._writer = writer
        self._max_line = max_line
        self._idle_s = idle_s
        self._slots = anyio.Semaphore(max_connections)
        self._stop = anyio.Event()
        self._waits: set[anyio.CancelScope] = set()

    def stop(self) -> None:
        """Takes what was already sent, then ends."""
        self._stop.set()
        for scope in self._waits:
            scope.deadline = anyio.current_time() + _QUIET_SECONDS

    async def serve(self, listener: SocketListener, *, ready: Callable[[], None] = lambda: None) -> None:
        """Serves until `stop`; returns when all that was accepted is stored, or cannot be."""
        async with anyio.create_task_group() as writing:
            writing.start_soon(self._writer.run)
            try:
                async with anyio.create_task_group() as connections:
                    connections.start_soon(self._bound_drain, connections.cancel_scope)
                    ready()
                    await self._accept(listener, connections)
            finally:
                self._writer.close(patience_s=_DRAIN_SECONDS)

    async def _bound_drain(self, connections: anyio.CancelScope) -> None:
        await self._stop.wait()
        connections.deadline = anyio.current_time() + _DRAIN_SECONDS

    async def _accept(self, listener: SocketListener, connections: TaskGroup) -> None:
        while True:
            with self._wait(None if not self._stop.is_set() else _QUIET_SECONDS) as scope:
                await self._slots.acquire()
                try:
                    stream = await listener.accept()
                except BaseException:
                    self._slots.release()
                    raise
                connections.start_soon(self._connection, stream)
            if scope.cancelled_caught:
                return

    def _wait(self, seconds: float | None) -> "_Wait":
        return _Wait(self._waits, seconds)

    async def _connection(self, stream: SocketStream) -> None:
        try:
            async with stream:
                await self._take(stream)
        finally:
            self._slots.release()

    async def _take(self, stream: SocketStream) -> None:
        buffer = LineBuffer(self._max_line)
        hears = True
        while (chunk := await self._chunk(stream)) is not None:
            hears = await self._store(stream, buffer.feed(chunk), hears)
        if rest := buffer.end():
            await self._store(stream, [rest], hears)

    async def _chunk(self, stream: SocketStream) -> bytes | None:
        """The next bytes; None at the end, after long silence, or when a stop has heard no more."""
        with self._wait(_QUIET_SECONDS if self._stop.is_set() else self._idle_s):
            try:
                return await stream.receive(_CHUNK)
            # A peer that closed without reading its acknowledgements resets the connection: an end as well.
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return None
        return None

    async def _store(self, stream: SocketStream, lines: list[bytes | Overlong], hears: bool) -> bool:
        """Stores lines and acknowledges them; whether the peer still hears us."""
        if not lines:
            return hears
        incoming = read_lines(lines)
        if not await self._writer.submit(incoming) or not hears:
            return hears
        acks = b"".join(b'{"ack": %s}\n' % msgspec.json.encode(line.ack) for line in incoming if line.ack)
        try:
            with anyio.move_on_after(self._idle_s) as scope:
                await stream.send(acks)
        except anyio.BrokenResourceError:
            return False
        return not scope.cancelled_caught


class _Wait:
    """A cancel scope that a stop can shorten."""

    def __init__(self, waits: set[anyio.CancelScope], seconds: float | None) -> None:
        deadline = float("inf") if seconds is None else anyio.current_time() + seconds
        self._scope = anyio.CancelScope(deadline=deadline)
        self._waits = waits

    def __enter__(self) -> anyio.CancelScope:
        self._waits.add(self._scope)
        return self._scope.__enter__()

    def __exit__(self, *error: object) -> bool:
        self._waits.discard(self._scope)
        return bool(self._scope.__exit__(*error))  # type: ignore[arg-type]

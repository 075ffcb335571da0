"""A child process that cannot outlive its deadline, whatever it starts (agents, readers of files).

The child leads a session of its own and carries a mark in its environment. When it ends, or its time does,
its group is killed, and on Linux every process that carries the mark, also one that left the group.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

MARK: Final = "SANDBOX_JUDGE_CHILD"
_TICK_S: Final = 0.05
_REAP_S: Final = 1.0
_SWEEPS: Final = 5
_PROC: Final = Path("/proc")
_CHUNK: Final = 65_536


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended. `code` None: it was killed at its deadline (`timed_out`) or when its caller was
    cancelled. `output` is cut at the caller's bound, `overflow` says so; `errors` keeps the end."""

    code: int | None
    output: bytes
    errors: bytes
    timed_out: bool = False
    overflow: bool = False
    seconds: float = 0.0


class NotStarted(Exception):
    """The command is not there, or may not be run."""


async def run_contained(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    deadline: float,
    stdin: bytes = b"",
    most_output: int = 1 << 20,
    most_errors: int = 8_192,
    kill_on_overflow: bool = True,
) -> Ended:
    """Runs `argv` until it ends or `deadline` (absolute, anyio's clock) passes. Raises NotStarted. When the
    caller is cancelled the child is killed first."""
    cut = threading.Event()
    until = time.monotonic() + max(0.0, deadline - anyio.current_time())
    child = _Child(argv, env, cwd, until, stdin, most_output, most_errors, kill_on_overflow, cut)
    outcome: list[Ended | NotStarted] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_cut_when_cancelled, cut)
        with anyio.CancelScope(shield=True):
            outcome.append(await anyio.to_thread.run_sync(_told(child.run), limiter=anyio.CapacityLimiter(1)))
        group.cancel_scope.cancel()
    await anyio.lowlevel.checkpoint_if_cancelled()
    if isinstance(outcome[0], NotStarted):
        raise outcome[0]
    return outcome[0]


async def _cut_when_cancelled(cut: threading.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        cut.set()


def _told(work: Callable[[], Ended]) -> Callable[[], Ended | NotStarted]:
    """The exception as a value: a task group would wrap it in a group."""

    def run() -> Ended | NotStarted:
        try:
            return work()
        except NotStarted as error:
            return error

    return run


class _Child:
    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        until: float,
        stdin: bytes,
        most_output: int,
        most_errors: int,
        kill_on_overflow: bool,
        cut: threading.Event,
    ) -> None:
        self.argv, self.cwd, self.until, self.stdin = list(argv), cwd, until, stdin
        self.mark = uuid4().hex
        self.env = {**env, MARK: self.mark}
        self.most_output, self.most_errors = most_output, most_errors
        self.kill_on_overflow, self.cut = kill_on_overflow, cut
        self.output, self.errors = bytearray(), bytearray()
        self.overflow = False

    def run(self) -> Ended:
        began = time.monotonic()
        try:
            child = subprocess.Popen(
                self.argv,
                env=self.env,
                cwd=self.cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NotStarted(f"{self.argv[0]}: {error}") from error
        try:
            in_time = self._converse(child)
        finally:
            self._end(child)
        code = child.returncode if in_time else None
        return Ended(
            code=code,
            output=bytes(self.output),
            errors=bytes(self.errors),
            timed_out=not in_time and time.monotonic() >= self.until,
            overflow=self.overflow,
            seconds=time.monotonic() - began,
        )

    def _converse(self, child: subprocess.Popen[bytes]) -> bool:
        """Feeds and reads until the child has ended; False where it must be killed."""
        left = memoryview(self.stdin)
        with selectors.DefaultSelector() as selector:
            assert child.stdin and child.stdout and child.stderr
            for stream in (child.stdin, child.stdout, child.stderr):
                os.set_blocking(stream.fileno(), False)
            selector.register(child.stdout, selectors.EVENT_READ)
            selector.register(child.stderr, selectors.EVENT_READ)
            if left:
                selector.register(child.stdin, selectors.EVENT_WRITE)
            else:
                child.stdin.close()
            while True:
                if self.cut.is_set() or time.monotonic() >= self.until:
                    return False
                if self.overflow and self.kill_on_overflow:
                    return False
                ended = _has_ended(child)
                # Once it has ended, what its children still hold open is not waited for.
                ready = selector.select(0 if ended else _TICK_S) if selector.get_map() else []
                if not ready and ended:
                    return True
                if not ready and not selector.get_map():
                    time.sleep(_TICK_S / 10)
                for key, _ in ready:
                    if key.fileobj is child.stdin:
                        left = self._feed(child.stdin, left, selector)
                    elif not self._drain(key.fd, is_output=key.fileobj is child.stdout):
                        selector.unregister(key.fileobj)

    def _feed(self, stream: IO[bytes], left: memoryview, selector: selectors.BaseSelector) -> memoryview:
        try:
            left = left[os.write(stream.fileno(), left[:_CHUNK]) :]
        except BlockingIOError:
            return left
        except OSError:  # it does not read: its exit code will tell
            left = left[:0]
        if not left:
            selector.unregister(stream)
            with contextlib.suppress(OSError):
                stream.close()
        return left

    def _drain(self, descriptor: int, *, is_output: bool) -> bool:
        """Reads once; False at the end of the stream."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if is_output:
            self.overflow = self.overflow or len(self.output) + len(data) > self.most_output
            self.output += data[: self.most_output - len(self.output)]
        else:
            self.errors += data
            del self.errors[: -self.most_errors]
        return bool(data)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_REAP_S)
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        # What a marked process starts while it is looked for carries the mark too.
        for _ in range(_SWEEPS):
            if not self._kill_marked():
                break

    def _kill_marked(self) -> int:
        mark = f"{MARK}={self.mark}".encode()
        killed = 0
        for place in _PROC.glob("[0-9]*"):
            try:
                if mark not in (place / "environ").read_bytes().split(b"\0"):
                    continue
                os.kill(int(place.name), signal.SIGKILL)
                killed += 1
            except (OSError, ValueError):
                continue
        return killed


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has, without reaping it: until then its number, which names its group, stays its own."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

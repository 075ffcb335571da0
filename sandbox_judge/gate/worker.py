"""Searches beyond what the event loop may wait for: in child processes, each under a time limit (design 6).

The engine holds the interpreter while it searches, so neither a deadline nor a signal handler can stop it in
this process; killing a child can. A child is its own session, gets no environment, runs an isolated
interpreter with the engine alone (about 25 ms to start), and ends itself by an alarm should we be gone.
Works under asyncio and trio, and holds neither for longer than it takes to start a process.
"""

import marshal
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import msgspec

from sandbox_judge.gate import child, engine
from sandbox_judge.gate.child import Work

_CHILD: Final = str(Path(child.__file__ or ""))
_ENGINE: Final = str(Path(engine.__file__ or ""))
# What the dynamic loader of our own interpreter may need; nothing else of the environment is passed on.
_LOADER: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_WRITE_BYTES: Final = 1 << 20
_START_S: Final = 3.0
# A second child only where the first is still busy after this long.
_SECOND_AFTER_S: Final = 0.1


class Found(msgspec.Struct, frozen=True):
    """The number of the first alternative that holds, None where none does."""

    alternative: int | None


class NoAnswer(msgspec.Struct, frozen=True):
    message: str


Answer = Found | NoAnswer


class _Ended(Exception):
    """The child's output ended: it was killed, or could not start."""


def child_command(extension: str) -> list[str]:
    """The isolated interpreter with the child's script: nothing of the environment changes what it runs."""
    return [sys.executable, "-I", "-S", "-B", _CHILD, _ENGINE, extension]


def child_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _LOADER if name in os.environ}


async def run_jobs(
    work: Work, *, deadline: float, total_s: float, settled: Callable[[int, Answer], None]
) -> None:
    """Answer every job of `work` once, in order, through `settled`.

    `work[3]` seconds a job, `total_s` for all, and never past `deadline` (on `anyio.current_time`). Jobs that
    the time did not reach get a NoAnswer too. Leaves no process behind, also when cancelled.
    """
    queue = deque(range(len(work[2])))
    path = engine.extension_path()
    unanswered = f"the gates that need a process of their own got no answer within {total_s:g} s together"
    if path is None or not sys.executable:
        unanswered = "its search is too long for this process, and no other can be started here"
    else:
        ends = min(deadline, anyio.current_time() + total_s)
        packed = marshal.dumps(work)
        async with anyio.create_task_group() as group:
            group.start_soon(_lane, queue, packed, work[3], path, ends, settled)
            if len(queue) > 1 and (os.cpu_count() or 1) > 1:
                group.start_soon(_second_lane, queue, packed, work[3], path, ends, settled)
    for job in queue:
        settled(job, NoAnswer(unanswered))


async def _second_lane(
    queue: deque[int],
    packed: bytes,
    bound_s: float,
    path: str,
    ends: float,
    settled: Callable[[int, Answer], None],
) -> None:
    await anyio.sleep(min(_SECOND_AFTER_S, max(0.0, ends - anyio.current_time())))
    await _lane(queue, packed, bound_s, path, ends, settled)


async def _lane(
    queue: deque[int],
    packed: bytes,
    bound_s: float,
    path: str,
    ends: float,
    settled: Callable[[int, Answer], None],
) -> None:
    """Work through the queue with one child after another; a job that outlives its bound costs its child."""
    running: _Child | None = None
    try:
        while queue and anyio.current_time() < ends:
            if running is None:
                running = _Child(path)
                with anyio.CancelScope(deadline=min(ends, anyio.current_time() + _START_S)) as scope:
                    await running.begin(packed)
                if scope.cancelled_caught or not queue:
                    return
            job = queue.popleft()
            answer = await _asked(running, job, min(ends, anyio.current_time() + bound_s), bound_s)
            settled(job, answer)
            if isinstance(answer, NoAnswer):
                running.kill()
                running = None
    except (_Ended, OSError) as error:
        # Also where processes are refused us: what is left in the queue is reported by the caller.
        if queue:
            settled(queue.popleft(), NoAnswer(f"the process for its search ended: {error}"))
    finally:
        if running is not None:
            running.kill()


async def _asked(running: "_Child", job: int, until: float, bound_s: float) -> Answer:
    try:
        with anyio.CancelScope(deadline=until):
            line = await running.ask(job)
            if line == b"!":
                return NoAnswer("the engine refused the pattern in the process of its search")
            return Found(None if int(line) < 0 else int(line))
    except _Ended as error:
        return NoAnswer(f"the process of its search ended: {error}")
    return NoAnswer(f"its search took longer than {bound_s * 1000:.0f} ms or the deadline")


class _Child:
    def __init__(self, extension: str) -> None:
        self._process = subprocess.Popen(
            child_command(extension),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env=child_environment(),
            start_new_session=True,
            close_fds=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._read = b""
        for fd in (self._in, self._out):
            os.set_blocking(fd, False)

    async def begin(self, packed: bytes) -> None:
        """Hand over the work and wait until the child has it. Raises _Ended."""
        await self._write(len(packed).to_bytes(child.LENGTH_BYTES, "big"))
        await self._write(packed)
        if await self._line() != b"ready":
            raise _Ended("it did not start as it should")

    async def ask(self, job: int) -> bytes:
        """The child's answer to a job. Raises _Ended."""
        await self._write(b"%d\n" % job)
        return await self._line()

    def kill(self) -> None:
        """End the child at once and take leave of it: nothing is left, not even a zombie."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        # A killed process goes in a millisecond or so; the limit is for a kernel in trouble.
        self._process.wait(timeout=5.0)

    async def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._in, left[:_WRITE_BYTES]) :]
            except BlockingIOError:
                await anyio.wait_writable(self._in)
            except BrokenPipeError as error:
                raise _Ended(self._cause()) from error

    async def _line(self) -> bytes:
        while b"\n" not in self._read:
            try:
                got = os.read(self._out, 4096)
            except BlockingIOError:
                await anyio.wait_readable(self._out)
                continue
            if not got:
                raise _Ended(self._cause())
            self._read += got
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _cause(self) -> str:
        try:
            code = self._process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            return "without a word"
        return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"

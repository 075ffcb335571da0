"""How a child process and the thread that talks to it are held: by a deadline, and by who waits for them.

A blocking child in a thread of its own, so that no event loop's child watcher is needed (a host may run ours
outside its main thread). Whatever happens, the child's process group is killed before a call returns.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from sandbox_judge.errors import RecipeError

# No reading of a recipe takes longer, whatever the deadline; the plain case takes 5 ms.
LONGEST_S: Final = 20.0
_REAP_S: Final = 1.0

T = TypeVar("T")


class Leash:
    """Ties a child to a deadline (`time.monotonic` seconds) and to whoever may cut it, from any thread."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.is_cut = False
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def tie(self, child: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._child = child
            if self.is_cut:
                _kill_group(child)

    def cut(self) -> None:
        """Kills the child that runs now; none can be waited for after this."""
        with self._lock:
            self.is_cut = True
            if self._child is not None:
                _kill_group(self._child)

    def release(self) -> None:
        """Kills the child's group and reaps the child. From here on its number may be another process's."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                _kill_group(child)
        if child is not None:
            # A process in uninterruptible sleep (a dead network mount) outlives its killing: not waited for.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_REAP_S)

    def left(self) -> float:
        """Seconds until the deadline. Raises RecipeError when there are none, or the leash was cut."""
        left = self.deadline - time.monotonic()
        if self.is_cut or left <= 0:
            raise RecipeError(
                "git did not answer in time, so the recipe could not be read.",
                remedy="Give more time (--budget), and look whether the repository's disk answers.",
            )
        return left


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    if child.returncode is None:  # not yet reaped, so the number is still its own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


async def leashed(work: Callable[[Leash], T], *, deadline: float | None) -> T:
    """Runs blocking `work` in a thread; when the caller is cancelled its git is killed, and the thread ends.

    `deadline` is absolute on anyio's clock. Raises what `work` raises.
    """
    left = LONGEST_S if deadline is None else min(LONGEST_S, deadline - anyio.current_time())
    leash = Leash(time.monotonic() + left)
    outcome: list[T | Exception] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_cut_when_cancelled, leash)
        with anyio.CancelScope(shield=True):
            outcome.append(await _in_own_thread(partial(_told, work, leash)))
        group.cancel_scope.cancel()
    # A caller who was cancelled meanwhile is to hear of that, not of the git that was killed for it.
    await anyio.lowlevel.checkpoint_if_cancelled()
    result = outcome[0]
    if isinstance(result, Exception):
        raise result
    return result


async def _in_own_thread(work: Callable[[], T | Exception]) -> T | Exception:
    try:
        # A limiter of our own: the shared one may be used up by threads that a host has waiting.
        return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))
    except RuntimeError as error:
        return RecipeError(
            f"no thread could be started to read the recipe: {error}.",
            remedy="Raise the limit on processes (ulimit -u).",
        )


async def _cut_when_cancelled(leash: Leash) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        leash.cut()


def _told(work: Callable[[Leash], T], leash: Leash) -> T | Exception:
    """The exception as a value: a task group would wrap it in a group."""
    try:
        return work(leash)
    except Exception as error:
        return error

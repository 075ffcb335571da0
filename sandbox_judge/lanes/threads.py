"""Blocking work in daemon threads that a deadline may leave behind.

anyio's and asyncio's own worker threads are joined when a loop or the interpreter ends: a `getaddrinfo` that
hangs for 12 s holds a host's exit for 12 s. A daemon thread does not, and its context is empty, so nothing of
the host's leaks into what runs there.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")


def current_loop() -> anyio.lowlevel.EventLoopToken:
    """The loop that this task runs on, for `call_soon` from another thread."""
    return anyio.lowlevel.current_token()


def call_soon(loop: anyio.lowlevel.EventLoopToken, callback: Callable[[], object]) -> None:
    """Has `loop` call `callback` soon, from any thread, without waiting for it (anyio's own way back waits).

    Where the loop is over there is nobody left to tell, and nothing happens."""
    native: Any = loop.native_token  # asyncio's loop, or trio's token
    post = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
    with contextlib.suppress(RuntimeError):  # asyncio's for a closed loop; trio's RunFinishedError is one too
        post(callback)


class Background(Generic[T]):
    """`work` running in a daemon thread from now on; any number of tasks of any loop may wait for it."""

    def __init__(self, work: Callable[[], T], *, name: str) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._finished = False
        self._value: T | None = None
        self._error: BaseException | None = None
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError:  # a limit of processes: for whoever waits a failure like any other of the work
            self._error = OSError(errno.EAGAIN, f"no thread can be started ({os.strerror(errno.EAGAIN)})")
            self._finished = True

    @property
    def finished(self) -> bool:
        return self._finished

    async def result(self) -> T:
        """What `work` returned, or raises what it raised. Cancelled waits leave the thread to itself."""
        woken = anyio.Event()
        here = current_loop()

        def wake() -> None:
            call_soon(here, woken.set)

        with self._lock:
            if not self._finished:
                self._waiting.append(wake)
        if not self._finished:
            await woken.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set before `_finished`, and T may include None

    def forget(self) -> None:
        """Lets go of what `work` returned: for a value whose destructor is to run in the calling thread."""
        self._value = None

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # the waiter raises it in its own task
            self._error = error
        with self._lock:
            del self._work  # what it holds is not kept alive by whoever keeps the result
            self._finished = True
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()


async def in_daemon_thread(work: Callable[[], T], *, name: str) -> T:
    """`work()` in a daemon thread of its own; a cancelled wait leaves it behind."""
    return await Background(work, name=name).result()

"""Blocking work in daemon threads that a deadline may leave behind.

anyio's and asyncio's own worker threads are joined when a loop or the interpreter ends: a `getaddrinfo` that
hangs for 12 s holds a host's exit for 12 s. A daemon thread does not, and its context is empty, so nothing of
the host's leaks into what runs there.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

T = TypeVar("T")


class Background(Generic[T]):
    """`work` running in a daemon thread from now on; any number of tasks of any loop may wait for it."""

    def __init__(self, work: Callable[[], T], *, name: str) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._finished = False
        self._value: T | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def finished(self) -> bool:
        return self._finished

    async def result(self) -> T:
        """What `work` returned, or raises what it raised. Cancelled waits leave the thread to itself."""
        woken = anyio.Event()
        token = anyio.lowlevel.current_token()

        def wake() -> None:
            anyio.from_thread.run_sync(woken.set, token=token)

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
            # The waiter's loop may be over: nobody is left to tell.
            with contextlib.suppress(Exception):
                wake()


async def in_daemon_thread(work: Callable[[], T], *, name: str) -> T:
    """`work()` in a daemon thread of its own; a cancelled wait leaves it behind."""
    return await Background(work, name=name).result()

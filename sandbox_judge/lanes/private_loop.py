"""An asyncio loop in a daemon thread, for a library that needs asyncio whatever loop the host runs.

Work starts in an empty context. A wait that is cancelled asks its work to stop and does not wait for it: code
that swallows cancellation, or a thread stuck in the system, holds nobody up.
"""

import asyncio
import contextvars
import functools
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

import anyio

from sandbox_judge.lanes.threads import call_soon, current_loop, in_daemon_thread

T = TypeVar("T")


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        """In a thread that nobody joins: asyncio's own executor holds the interpreter's exit."""
        ask = functools.partial(socket.getaddrinfo, host, port, family, type, proto, flags)
        return await in_daemon_thread(ask, name="resolve")


class _Outcome(Generic[T]):
    value: T
    error: BaseException | None = None


class PrivateLoop:
    """Starts with the first `run`; `aclose` ends what still runs on it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What `work()` returns, or raises what it raised, from any asyncio or trio task."""
        loop = self._started()
        here = current_loop()
        ended = anyio.Event()
        outcome: _Outcome[T] = _Outcome()
        tasks: list[asyncio.Task[None]] = []

        async def worked() -> None:
            try:
                outcome.value = await work()
            except BaseException as error:  # told to the waiter, whatever it is
                outcome.error = error
            call_soon(here, ended.set)

        def begin() -> None:
            tasks.append(loop.create_task(worked()))

        loop.call_soon_threadsafe(begin, context=contextvars.Context())
        try:
            await ended.wait()
        except BaseException:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            raise
        if isinstance(outcome.error, asyncio.CancelledError):
            raise RuntimeError("the private loop was closed under this call") from outcome.error
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    async def aclose(self, *, within_s: float) -> None:
        """Cancels what runs, lets it clean up for `within_s` seconds, and ends the thread."""
        loop, self._loop = self._loop, None
        thread, self._thread = self._thread, None
        if loop is None or thread is None:
            return

        async def swept() -> None:
            rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in rest:
                task.cancel()
            if rest:
                await asyncio.wait(rest, timeout=within_s)
            await loop.shutdown_asyncgens()
            loop.stop()

        loop.call_soon_threadsafe(lambda: loop.create_task(swept()), context=contextvars.Context())
        with anyio.move_on_after(within_s + 0.5):
            await in_daemon_thread(functools.partial(thread.join, within_s + 0.5), name="private loop's end")

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = _Loop()
            self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
            self._thread.start()
        return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()

"""Who may call a model now, over all conversations of a server: at most so many at once, conversations by
turns, and for each provider no more than it has shown to bear.

A provider's limit halves at a 429 and recovers by one for each round of answers (additive increase,
multiplicative decrease); while it asks to wait (Retry-After), no new judge of it begins.
"""

import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

_LEAST_PAUSE_S: Final = 0.25
_MOST_PAUSE_S: Final = 60.0
_REMEMBERED: Final = 32
_ENOUGH: Final = 8
_FRESH_S: Final = 60.0


class Provider:
    """What is known of one provider. Times are on anyio's clock, in seconds."""

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self.limit = float(most)
        self.in_flight = 0
        self.paused_until = -math.inf
        self._cut_at = -math.inf
        self._times: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)

    def is_free(self, now: float) -> bool:
        return self.in_flight < max(1, int(self.limit)) and now >= self.paused_until

    def answered(self, *, began: float, now: float) -> None:
        self.limit = min(self._most, self.limit + 1 / self.limit)
        self._times.append((now, now - began))

    def refused(self, *, began: float, now: float, retry_after_s: float | None) -> None:
        """A 429. Those of calls that began before the last cut say nothing new about the limit."""
        if began > self._cut_at:
            self.limit, self._cut_at = max(1.0, min(self.limit, self.in_flight) / 2), now
        wait = retry_after_s if retry_after_s is not None and math.isfinite(retry_after_s) else 0.0
        self.paused_until = max(self.paused_until, now + min(_MOST_PAUSE_S, max(_LEAST_PAUSE_S, wait)))

    def fastest_s(self, now: float) -> float | None:
        """The fastest of its recent answers; None where there were too few lately."""
        fresh = [took for at, took in self._times if now - at <= _FRESH_S]
        return min(fresh) if len(fresh) >= _ENOUGH else None


class _Waiter:
    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.granted = False
        self.event = anyio.Event()

    def wake(self) -> None:
        self.event.set()
        if not self.granted:
            self.event = anyio.Event()


class FairSlots:
    """The slots of a server. `for_run` gives what one run uses."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._in_flight = 0
        self._providers: dict[str, Provider] = {}
        self._runs: OrderedDict[int, RunSlots] = OrderedDict()
        self._number = 0

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def waiting(self) -> int:
        return sum(len(run.queue) for run in self._runs.values())

    def provider(self, name: str) -> Provider:
        if name not in self._providers:
            self._providers[name] = Provider(self._most)
        return self._providers[name]

    def for_run(self, most: int) -> "RunSlots":
        """The slots of one conversation, at most `most` at once."""
        self._number += 1
        return RunSlots(self, self._number, most)

    def rate_limited(self, name: str, *, began: float, retry_after_s: float | None) -> None:
        self.provider(name).refused(began=began, now=anyio.current_time(), retry_after_s=retry_after_s)
        for run in self._runs.values():  # they wait for an event; now there is a time to wait for
            for waiter in run.queue:
                if waiter.provider == name:
                    waiter.wake()

    def answered(self, name: str, *, began: float) -> None:
        self.provider(name).answered(began=began, now=anyio.current_time())
        self._grant()

    async def _acquire(self, run: "RunSlots", name: str) -> None:
        waiter = _Waiter(name)
        run.queue.append(waiter)
        self._runs.setdefault(run.number, run)
        self._grant()
        try:
            while not waiter.granted:
                pause = self.provider(name).paused_until
                until = pause if pause > anyio.current_time() else math.inf
                with anyio.move_on_at(until):
                    await waiter.event.wait()
                self._grant()
        except BaseException:
            if waiter.granted:
                self._release(run, name)
            else:
                run.queue.remove(waiter)
                self._forget(run)
            raise

    def _release(self, run: "RunSlots", name: str) -> None:
        self._in_flight -= 1
        run.in_flight -= 1
        self.provider(name).in_flight -= 1
        self._grant()

    def _grant(self) -> None:
        """Gives free slots away, one a conversation and round, until none can be given."""
        now = anyio.current_time()
        given = True
        while given and self._in_flight < self._most and self._runs:
            given = False
            for run in list(self._runs.values()):
                if self._in_flight >= self._most:
                    return
                waiter = self._next(run, now)
                if waiter is None:
                    continue
                given = True
                run.queue.remove(waiter)
                run.in_flight += 1
                self._in_flight += 1
                self.provider(waiter.provider).in_flight += 1
                self._runs.move_to_end(run.number)
                self._forget(run)
                waiter.granted = True
                waiter.wake()

    def _next(self, run: "RunSlots", now: float) -> _Waiter | None:
        if run.in_flight >= run.most:
            return None
        return next((w for w in run.queue if self.provider(w.provider).is_free(now)), None)

    def _forget(self, run: "RunSlots") -> None:
        if not run.queue:
            self._runs.pop(run.number, None)


class RunSlots:
    """The slots of one conversation (`run.Slots`)."""

    def __init__(self, shared: FairSlots, number: int, most: int) -> None:
        self._shared = shared
        self.number, self.most = number, most
        self.in_flight = 0
        self.queue: deque[_Waiter] = deque()

    @asynccontextmanager
    async def slot(self, provider: str) -> AsyncIterator[None]:
        await self._shared._acquire(self, provider)
        try:
            yield
        finally:
            self._shared._release(self, provider)

"""Sends what the store holds to another place, at least once, in order of arrival (`collect --otlp`).

Nothing is kept in memory but one page, and nothing waits for the destination: while it is away, judgements
stay where they are, in the store, and the next collector with the same destination goes on from there.
"""

from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread
from sqlalchemy.exc import SQLAlchemyError

from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.base import Sink
from sandbox_judge.store.forwarding import Forwarding, Waiting
from sandbox_judge.store.writer import said

PAGE: Final = 256
_SEND_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 30.0
# A single judgement that is refused this often, while the destination takes others, is left out.
_REFUSALS: Final = 3


class Forwarder:
    """One destination. `complain` is told once an outage what is wrong, and of each judgement left out."""

    def __init__(self, forwarding: Forwarding, sink: Sink, complain: Callable[[str], None]) -> None:
        self.sent = 0
        self.left_out = 0
        self.held_elsewhere = False
        self._forwarding, self._sink, self._complain = forwarding, sink, complain
        self._page, self._pause, self._refusals = PAGE, _FIRST_PAUSE, 0
        self._complained = False

    async def run(self) -> None:
        """Forwards for ever; whatever fails is tried again."""
        while True:
            if not await self.step():
                await anyio.sleep(self._pause if self._complained else _POLL_SECONDS)

    async def drain(self, seconds: float, *, patient: bool = False) -> bool:
        """Forwards what there is, for so long at most (`patient`: for so long without any progress); whether
        nothing is left for this collector to do."""
        with anyio.move_on_after(seconds) as scope:
            while True:
                while await self.step():
                    if patient:
                        scope.deadline = anyio.current_time() + seconds
                if not self._complained and (self.held_elsewhere or not await self._left()):
                    return True
                await anyio.sleep(self._pause)
        return False

    async def aclose(self) -> None:
        """Leaves the destination to other collectors."""
        with anyio.CancelScope(shield=True):
            try:
                await anyio.to_thread.run_sync(self._forwarding.release)
            except SQLAlchemyError as err:  # it will be free by itself, in a minute
                self._complain(f"{self._sink.name} is not let go of: {said(err)}")
            await self._sink.aclose()

    async def step(self) -> bool:
        """One page; whether anything was sent, so that there may be more."""
        try:
            waiting = await anyio.to_thread.run_sync(self._take)
            if waiting:
                await self._send(waiting)
                # What was taken is kept as taken, whatever is cancelled meanwhile.
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._forwarding.advance, waiting[-1].place)
        except (DeliveryError, SQLAlchemyError, OSError) as err:
            self._failed(said(err) if isinstance(err, SQLAlchemyError | OSError) else str(err))
            return False
        self._went_well()
        return bool(waiting)

    def _take(self) -> list[Waiting]:
        # Most looks find nothing: then nothing is written either.
        if not self._forwarding.next(self._forwarding.place(), limit=1):
            return []
        place = self._forwarding.claim()
        self.held_elsewhere = place is None
        return [] if place is None else self._forwarding.next(place, limit=self._page)

    async def _left(self) -> int:
        try:
            return await anyio.to_thread.run_sync(self._forwarding.left)
        except SQLAlchemyError as err:
            self._failed(said(err))
            return 1

    async def _send(self, waiting: list[Waiting]) -> None:
        deadline = anyio.current_time() + _SEND_SECONDS
        lines = [one.line for one in waiting]
        try:
            await self._sink.send(lines, deadline=deadline, taken=lambda _: None)
            await self._sink.finish(deadline=deadline, taken=lambda _: None)
        except DeliveryError:
            if len(waiting) > 1 or not await self._refused():
                raise
            return self._leave_out(waiting[0], "it is refused alone, while others are taken")
        except Exception as err:
            # Something that cannot even be encoded is among them.
            if len(waiting) > 1:
                for one in waiting:
                    await self._send([one])
                return None
            return self._leave_out(waiting[0], f"it cannot be encoded: {type(err).__name__}")
        self.sent += len(waiting)
        self._refusals = 0
        return None

    async def _refused(self) -> bool:
        """Whether it is the judgement that the destination refuses: an empty request is taken meanwhile."""
        self._refusals += 1
        if self._refusals < _REFUSALS:
            return False
        try:
            await self._sink.send([], deadline=anyio.current_time() + _SEND_SECONDS, taken=lambda _: None)
        except DeliveryError:
            return False
        return True

    def _leave_out(self, one: Waiting, why: str) -> None:
        self.left_out += 1
        self._refusals = 0
        self._complain(f"{self._sink.name} is not sent judgement event {one.line.event_id}: {why}")

    def _failed(self, why: str) -> None:
        if not self._complained:
            self._complain(f"{self._sink.name} takes nothing ({why}); trying again until it does")
        else:
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        self._complained = True
        self._page = max(1, self._page // 2)

    def _went_well(self) -> None:
        if self._complained:
            self._complain(f"{self._sink.name} takes judgements again")
        self._complained, self._pause = False, _FIRST_PAUSE
        self._page = min(PAGE, self._page * 2)

"""Delivering a run's events to its sinks: written ahead where a sink is spooled, each sink on its own task.

Grading never waits for a sink, one sink that fails never hurts another, and each gets its events in order.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final

import anyio
import anyio.lowlevel
import msgspec

from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.base import Line, Sink
from sandbox_judge.sinks.outbox import Outbox, Parcel, leftover_parcels
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.sinks.spool_file import SpoolFile
from sandbox_judge.terminal import escaped

_LEFTOVERS_SEEN: Final = 1_000  # some may wait for sinks that this run does not have
_LEFTOVER_FILES: Final = 64
_LEFTOVER_BYTES: Final = 8 * 1024 * 1024


class DeliveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run's events: taken by every sink; not yet by some, and safe in the spool; lost to
    some sink. `resent` and `waiting` count events of earlier runs: delivered now, and still in the spool.
    `messages` are single lines for stderr."""

    delivered: int = 0
    spooled: int = 0
    failed: int = 0
    resent: int = 0
    waiting: int = 0
    messages: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """3 if an event of this run did not reach some sink (design, section 13)."""
        return 3 if self.spooled or self.failed else 0


class Delivery:
    """Made by `delivering`. `deadline` is absolute on anyio's clock."""

    def __init__(self, sinks: Sequence[Sink], *, spool: Spool | None, deadline: float) -> None:
        self._boxes = [Outbox(sink, deadline=deadline) for sink in sinks]
        self._spooled = tuple(sink.name for sink in sinks if sink.spooled)
        self._spool = spool if self._spooled else None
        self._deadline = deadline
        self._own: SpoolFile | None = None
        self._adopted: list[SpoolFile] = []
        self._ids: set[str] = set()
        self._faults: list[str] = []
        self._finishing = False
        self._report: DeliveryReport | None = None

    async def deliver(self, data: bytes, event_id: str, *, ledger: bool = False) -> None:
        """Hands one event to every sink. On return it is on disk for the sinks that are spooled. `ledger`
        leaves out stdout. Raises ValueError for what is not one line of JSON where a spool is kept."""
        await self.deliver_many([Line(event_id, data)], ledger=ledger)

    async def deliver_many(self, lines: Sequence[Line], *, ledger: bool = False) -> None:
        """As `deliver`, with one fsync for all: for the nulls of an ended run."""
        if self._finishing:
            raise RuntimeError("an event after the end of the delivery")
        boxes = [box for box in self._boxes if box.sink.takes_ledger or not ledger]
        file = self._written_ahead(lines)
        self._ids.update(line.event_id for line in lines)
        for line in lines:
            for box in boxes:
                box.put(Parcel(line, file if box.sink.spooled else None))
        await anyio.lowlevel.cancel_shielded_checkpoint()  # the sinks' tasks get their turn

    async def finish(self, *, deadline: float | None = None) -> DeliveryReport:
        """Waits for the sinks, until `deadline` (or the delivery's own, whichever is earlier) at most, and
        tells the outcome. The same report again when called again."""
        if self._report is None:
            self._finishing = True
            until = self._deadline if deadline is None else min(deadline, self._deadline)
            with anyio.CancelScope(shield=True):
                for box in self._boxes:
                    box.close(deadline=until)
                for box in self._boxes:
                    await box.done.wait()
            self._report = self._reported()
        return self._report

    def prepare(self) -> None:
        """Holds that the spool's directory is ours, and gives the sinks what earlier runs left there, behind
        this run's own events. Raises TrustError; a full disk is told at the end."""
        if self._spool is not None:
            try:
                self._spool.prepare()
                self._resume(self._spool)
            except DeliveryError as error:
                self._fault(error)

    def _resume(self, spool: Spool) -> None:
        """Oldest first, a bounded amount: a long outage is for `flush`, and for the runs that follow."""
        boxes = {box.sink.name: box for box in self._boxes}
        size = 0
        for file in islice(spool.leftovers(), _LEFTOVERS_SEEN):
            parcels = leftover_parcels(file, boxes, own=False)
            if not parcels:
                file.close()
                continue
            self._adopted.append(file)
            for name, parcel in parcels:
                boxes[name].put(parcel)
                size += len(parcel.line.data)
            if len(self._adopted) >= _LEFTOVER_FILES or size > _LEFTOVER_BYTES:
                return

    @property
    def boxes(self) -> Sequence[Outbox]:
        return self._boxes

    def _written_ahead(self, lines: Sequence[Line]) -> SpoolFile | None:
        """The file that the lines are in; None without a spool, or with a full disk: they are sent anyway."""
        if self._spool is None:
            return None
        try:
            if self._own is None:
                self._own = self._spool.create()
            self._own.append(lines, self._spooled)
        except DeliveryError as error:
            self._fault(error)
            return None
        except OSError as error:
            text = f"the spool cannot be written: {error.strerror}; events are sent without it."
            self._fault(DeliveryError(text, where=str(self._spool.directory)))
            return None
        return self._own

    def _fault(self, error: DeliveryError) -> None:
        text = error.paragraph()
        if text not in self._faults:
            self._faults.append(text)

    def _reported(self) -> DeliveryReport:
        spooled: set[str] = set()
        lost: set[str] = set()
        messages = list(self._faults)
        for box in self._boxes:
            left = [parcel for parcel in box.untaken() if parcel.own]
            spooled.update(parcel.line.event_id for parcel in left if parcel.file is not None)
            lost.update(parcel.line.event_id for parcel in left if parcel.file is None)
            if left and box.error is not None:
                messages.append(_told(box.error, left))
        waiting = sum(file.close() for file in self._adopted)
        if self._own is not None:
            self._own.close()
        if self._spool is not None:
            messages += self._spool.warnings
        if waiting:
            messages.append(f"{waiting} of the events that earlier runs left still wait in the spool.")
        return DeliveryReport(
            delivered=len(self._ids - spooled - lost),
            spooled=len(spooled - lost),
            failed=len(lost),
            resent=len({event_id for box in self._boxes for event_id in box.taken_old}),
            waiting=waiting,
            messages=tuple(escaped(message) for message in messages),
        )


@asynccontextmanager
async def delivering(
    sinks: Sequence[Sink], *, spool: Spool | None, deadline: float, reserve_s: float = 0.5
) -> AsyncIterator[Delivery]:
    """A delivery for one run, its tasks running. Without a spool (a dry run) nothing is written ahead.

    Leaving the block finishes it: by an exception or cancellation within `reserve_s` from then. Raises
    TrustError for a spool that is not ours, before anything else.
    """
    delivery = Delivery(sinks, spool=spool, deadline=deadline)
    delivery.prepare()
    try:
        async with anyio.create_task_group() as tasks:
            for box in delivery.boxes:
                tasks.start_soon(box.run)
            until = deadline
            try:
                yield delivery
            except BaseException:
                until = anyio.current_time() + reserve_s
                raise
            finally:
                await delivery.finish(deadline=until)
    except BaseExceptionGroup as group:
        # The tasks raise nothing of their own: what comes is what the block raised, wrapped by the group.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise


def _told(error: DeliveryError, left: Sequence[Parcel]) -> str:
    lost = sum(parcel.file is None for parcel in left)
    kept = len(left) - lost
    ends = []
    if kept:
        waits = "event waits" if kept == 1 else "events wait"
        ends.append(f"{kept} {waits} in the spool, `sandbox-judge flush` delivers")
    if lost:
        ends.append(f"{lost} {'event is' if lost == 1 else 'events are'} lost to it")
    return f"{error.paragraph().rstrip()} ({'; '.join(ends)})"

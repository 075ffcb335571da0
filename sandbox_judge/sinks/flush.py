"""Delivering what runs left in the spool, on request: everything, within a budget, at most twice a sink."""

from collections import Counter
from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel
import msgspec

from sandbox_judge.errors import SandboxJudgeError
from sandbox_judge.sinks.base import Sink
from sandbox_judge.sinks.outbox import Outbox, leftover_parcels
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.sinks.spool_file import SpoolFile
from sandbox_judge.terminal import escaped

_FILES_AT_ONCE = 16


class FlushReport(msgspec.Struct, frozen=True, kw_only=True):
    """Hand-overs, one for each event and sink: `delivered` by sink, `waiting` by sink (of the sinks that were
    asked for), `other` by sink (not asked for). `messages` are single lines."""

    delivered: dict[str, int] = {}
    waiting: dict[str, int] = {}
    other: dict[str, int] = {}
    messages: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return 3 if any(self.waiting.values()) else 0


class _Flush:
    def __init__(self, opener: Callable[[str], Sink], only: Sequence[Sink], deadline: float) -> None:
        self._opener = opener
        self._only = {sink.name for sink in only}
        self._sinks: dict[str, Sink] = {sink.name: sink for sink in only}
        self._given_up: dict[str, str] = {}
        self._deadline = deadline
        self.messages: list[str] = []
        self.counts: dict[str, Counter[str]] = {
            "delivered": Counter(),
            "waiting": Counter(),
            "other": Counter(),
        }

    async def deliver(self, files: Sequence[SpoolFile]) -> None:
        """One group of files; closes them."""
        try:
            await self._deliver(files)
        finally:
            for file in files:
                file.close()

    async def _deliver(self, files: Sequence[SpoolFile]) -> None:
        before = _by_sink(files)
        names = [name for name in before if self._is_wanted(name) and self._opened(name)]
        boxes = {name: Outbox(self._sinks[name], deadline=self._deadline) for name in names}
        for file in files:
            for name, parcel in leftover_parcels(file, names, own=True):
                boxes[name].put(parcel)
        async with anyio.create_task_group() as tasks:
            for box in boxes.values():
                box.close(deadline=self._deadline)
                tasks.start_soon(box.run)
        self._tell(boxes)
        after = _by_sink(files)
        for name, count in before.items():
            self.counts["delivered"][name] += count - after[name]
            self.counts["waiting" if self._is_wanted(name) else "other"][name] += after[name]

    def _tell(self, boxes: dict[str, Outbox]) -> None:
        for name, box in boxes.items():
            if box.error is None or not any(True for _ in box.untaken()):
                continue
            text = box.error.paragraph()
            self._say(text)
            if box.is_down:
                self._given_up[name] = text

    def _is_wanted(self, name: str) -> bool:
        return not self._only or name in self._only

    def _opened(self, name: str) -> bool:
        if name in self._given_up:
            return False
        try:
            if name not in self._sinks:
                self._sinks[name] = self._opener(name)
        except SandboxJudgeError as error:
            self._given_up[name] = error.paragraph()
            self._say(error.paragraph())
            return False
        return True

    def _say(self, text: str) -> None:
        if text not in self.messages:
            self.messages.append(text)


async def flush(
    spool: Spool, *, opener: Callable[[str], Sink], only: Sequence[Sink] = (), deadline: float
) -> FlushReport:
    """Delivers what waits, oldest first; with `only`, what waits for those sinks.

    `opener` makes a sink of an address found in the spool. Files of runs that still live are theirs to
    deliver. Raises TrustError for a spool that is not ours, DeliveryError for one that cannot be read.
    """
    work = _Flush(opener, only, deadline)
    group: list[SpoolFile] = []
    for file in spool.leftovers():
        group.append(file)
        if len(group) == _FILES_AT_ONCE:
            await work.deliver(group)
            group = []
    await work.deliver(group)
    return FlushReport(
        delivered=dict(+work.counts["delivered"]),
        waiting=dict(+work.counts["waiting"]),
        other=dict(+work.counts["other"]),
        messages=tuple(escaped(text) for text in [*work.messages, *spool.warnings]),
    )


def _by_sink(files: Sequence[SpoolFile]) -> Counter[str]:
    return Counter(name for file in files for _, sinks in file.waiting() for name in sinks)

"""The queue of one sink, and the task that empties it: in order, again after failures, within one deadline.

Events of this run go before those that earlier runs left behind. While the run still goes on, a sink that
fails is tried again and again (a collector may appear late); once no more is coming, twice in a row is all.
"""

from collections import deque
from collections.abc import Collection, Iterator
from typing import Final

import anyio
import msgspec

from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.base import Line, Sink, SinkBroken, SinkRefused
from sandbox_judge.sinks.spool_file import SpoolFile

LINGER_S: Final = 1.0  # what a run may add to its own time for the sake of earlier ones
_BATCH_LINES: Final = 64
_BATCH_BYTES: Final = 256 * 1024
_BACKOFF_S: Final = (0.0, 0.1, 0.2, 0.5, 1.0)
_LAST_BACKOFF_S: Final = 0.05
_LAST_ATTEMPTS: Final = 2
# A sink's own deadline comes this much earlier, so that its reason arrives and not only the fact.
_MARGIN_S: Final = 0.02
_GRACE_S: Final = 0.05
_CLOSE_S: Final = 0.2


class Parcel(msgspec.Struct, eq=False):
    """A line on its way to one sink. `file` is where it is struck off (None: it is not spooled); `own` tells
    this run's events from those of earlier runs."""

    line: Line
    file: SpoolFile | None
    own: bool = True


class Outbox:
    """Use from one event loop: `put` parcels, run `run` as a task, then `close` and wait for `done`."""

    def __init__(self, sink: Sink, *, deadline: float) -> None:
        self.sink = sink
        self.done = anyio.Event()
        self.error: DeliveryError | None = None
        self.taken_old: set[str] = set()
        self._own: deque[Parcel] = deque()
        self._old: deque[Parcel] = deque()
        self._sent: dict[str, list[Parcel]] = {}
        self._refused: list[Parcel] = []
        self._taken = 0
        self._closing = False
        self._wake = anyio.Event()
        self._deadline = deadline
        self._scope = anyio.CancelScope(shield=True)

    def put(self, parcel: Parcel) -> None:
        (self._own if parcel.own else self._old).append(parcel)
        self._wake.set()

    def close(self, *, deadline: float) -> None:
        """No more is coming; what is waiting must be done by `deadline` (anyio's clock)."""
        self._closing = True
        self._deadline = min(self._deadline, deadline)
        # However late it is, what can be written without waiting is written.
        self._scope.deadline = max(self._deadline, anyio.current_time() + _GRACE_S)
        self._hurry()
        self._wake.set()

    def untaken(self) -> Iterator[Parcel]:
        """What the sink has not taken."""
        yield from self._refused
        for parcels in self._sent.values():
            yield from parcels
        yield from self._own
        yield from self._old

    @property
    def is_down(self) -> bool:
        """Whether, at the end, the sink failed rather than refused."""
        return bool(self._sent or self._own or self._old)

    async def run(self) -> None:
        """Ends when all was taken or given up after `close`, or at the deadline. Never raises for a sink."""
        try:
            with self._scope:
                await self._emptied()
            if self._scope.cancelled_caught and self.error is None:
                self.error = DeliveryError("not taken before the deadline.", where=self.sink.name)
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self.sink.aclose()
        finally:
            self.done.set()

    async def _emptied(self) -> None:
        failures = 0
        while True:
            taken = self._taken
            try:
                if not await self._step():
                    return
            except SinkRefused as error:
                self._set_aside(error)
            except SinkBroken as error:
                self._requeue(error)
                return
            except DeliveryError as error:
                failures = 1 if self._taken > taken else failures + 1
                self._requeue(error)
                late = self._sinks_deadline() <= anyio.current_time()
                if self._closing and (late or failures >= _LAST_ATTEMPTS):
                    return
                await self._pause(failures)

    async def _step(self) -> bool:
        """One hand-over, or one wait for more. False when all is done."""
        batch = self._batch()
        try:
            if batch:
                await self.sink.send(batch, deadline=self._sinks_deadline(), taken=self._take)
            elif self._closing:
                await self.sink.finish(deadline=self._sinks_deadline(), taken=self._take)
                return bool(self._own or self._old)
            else:
                await self._wake.wait()
                self._wake = anyio.Event()
        except DeliveryError:
            raise
        except Exception as error:  # one sink's bug must not cost the others their events
            text = f"internal error, {type(error).__name__}: {error}"
            raise DeliveryError(text, where=self.sink.name) from error
        return True

    def _batch(self) -> list[Line]:
        queue = self._own or self._old
        lines: list[Line] = []
        size = 0
        while queue and len(lines) < _BATCH_LINES and (not lines or size < _BATCH_BYTES):
            parcel = queue.popleft()
            self._sent.setdefault(parcel.line.event_id, []).append(parcel)
            lines.append(parcel.line)
            size += len(parcel.line.data)
        return lines

    def _take(self, event_id: str) -> None:
        for parcel in self._sent.pop(event_id, ()):
            self._taken += 1
            if parcel.file is not None:
                parcel.file.strike(event_id, self.sink.name)
            if not parcel.own:
                self.taken_old.add(event_id)
        self._hurry()

    def _hurry(self) -> None:
        """Once only earlier runs' events are left, the rest gets a second and no more."""
        if not self._closing or self._own or any(p.own for sent in self._sent.values() for p in sent):
            return
        self._deadline = min(self._deadline, anyio.current_time() + LINGER_S)
        self._scope.deadline = min(self._scope.deadline, max(self._deadline, anyio.current_time() + _GRACE_S))

    def _requeue(self, error: DeliveryError) -> None:
        self.error = error
        back = [parcel for parcels in self._sent.values() for parcel in parcels]
        self._sent.clear()
        self._own.extendleft(reversed([parcel for parcel in back if parcel.own]))
        self._old.extendleft(reversed([parcel for parcel in back if not parcel.own]))

    def _set_aside(self, error: SinkRefused) -> None:
        self.error = error
        for parcels in self._sent.values():
            for parcel in parcels:
                self._refused.append(parcel)
                if parcel.file is not None:
                    parcel.file.note_refusal(parcel.line.event_id, self.sink.name, error.message)
        self._sent.clear()

    async def _pause(self, failures: int) -> None:
        delay = _BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1]
        if self._closing:
            await anyio.sleep(min(delay, _LAST_BACKOFF_S))
            return
        with anyio.move_on_after(delay):
            while not self._closing:
                await self._wake.wait()
                self._wake = anyio.Event()

    def _sinks_deadline(self) -> float:
        return self._deadline - _MARGIN_S


def leftover_parcels(file: SpoolFile, names: Collection[str], *, own: bool) -> list[tuple[str, Parcel]]:
    """(sink, parcel) for what waits in `file` for any of the sinks `names`."""
    parcels = []
    for event_id, sinks in file.waiting():
        wanted = sorted(sinks.intersection(names))
        if wanted and (line := file.line(event_id)) is not None:
            parcels += [(name, Parcel(line, file, own)) for name in wanted]
    return parcels

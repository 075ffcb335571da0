"""Batches of lines into the store, an outage waited out; and the one writer that a collector's connections
share.

Whatever waits while a commit is under way goes into the next one, so commits grow with the load and a single
event never waits for a timer.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from sqlalchemy.exc import SQLAlchemyError

from sandbox_judge.errors import DeliveryError
from sandbox_judge.store.conversations import Kept
from sandbox_judge.store.database import Database, first_line, passing
from sandbox_judge.store.ingest import Ingest, Taken, kept_conversations
from sandbox_judge.store.lines import Overlong
from sandbox_judge.store.records import Incoming, Quarantined, read_line

BATCH: Final = 2000
WAITING: Final = 64
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


def now_microseconds() -> int:
    return time.time_ns() // 1000


def read_lines(lines: Sequence[bytes | Overlong]) -> list[Incoming]:
    """What lines are, taken at the present moment."""
    received = now_microseconds()
    return [
        Quarantined(
            reason="too_long", detail="kept in part", ack="", received_at=received, line=line.beginning
        )
        if isinstance(line, Overlong)
        else read_line(line, received=received)
        for line in lines
    ]


class Storing:
    """Where lines go: the database, and the conversations that are kept beside it. Counts what became of
    them."""

    def __init__(self, database: Database, kept: Kept | None = None) -> None:
        self.taken = Taken()
        self.lost = 0
        self._database = database
        self._ingest = Ingest(database)
        self._kept = kept

    def store(self, lines: list[Incoming]) -> None:
        """Commits one batch, in the calling thread. Raises SQLAlchemyError, OSError."""
        conversations = kept_conversations(lines)
        kept = self._kept.keep(conversations) if self._kept and conversations else 0
        self.taken.add(self._ingest.store(lines))
        self.taken.conversations += kept

    def store_patiently(self, lines: list[Incoming], *, patience_s: float) -> None:
        """Commits one batch, waiting out an outage for `patience_s` seconds. Raises DeliveryError."""
        deadline, pause = time.monotonic() + patience_s, _FIRST_PAUSE
        while True:
            try:
                return self.store(lines)
            except (SQLAlchemyError, OSError) as err:
                if not outage(err) or time.monotonic() + pause > deadline:
                    raise DeliveryError(
                        f"the store takes nothing: {said(err)}.",
                        where=self._database.shown,
                        remedy="Give the same input again: what is stored is not stored twice.",
                    ) from err
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


def outage(err: SQLAlchemyError | OSError) -> bool:
    """Whether a write may succeed when tried again."""
    return isinstance(err, OSError) or passing(err)


def said(err: SQLAlchemyError | OSError) -> str:
    return first_line(err) if isinstance(err, SQLAlchemyError) else str(err)


class Submission:
    """Lines of one connection on their way. `stored` is True once they are committed."""

    def __init__(self, lines: list[Incoming]) -> None:
        self.lines = lines
        self.done = anyio.Event()
        self.stored = False


class Writer:
    """Stores what many connections submit. `complain` is told, once an outage, what is wrong."""

    def __init__(self, storing: Storing, complain: Callable[[str], None]) -> None:
        self._storing = storing
        self._complain = complain
        self._patience: float | None = None
        self._send: MemoryObjectSendStream[Submission]
        self._receive: MemoryObjectReceiveStream[Submission]
        self._send, self._receive = anyio.create_memory_object_stream[Submission](WAITING)

    async def submit(self, lines: list[Incoming]) -> bool:
        """Waits until the lines are committed; False where that will not be."""
        submission = Submission(lines)
        await self._send.send(submission)
        await submission.done.wait()
        return submission.stored

    def close(self, *, patience_s: float) -> None:
        """Nothing more comes; an outage is waited out for `patience_s` seconds more."""
        self._patience = anyio.current_time() + patience_s
        self._send.close()

    async def run(self) -> None:
        """Writes until closed and empty."""
        async with self._receive:
            async for first in self._receive:
                batch, size = [first], len(first.lines)
                while size < BATCH and self._receive.statistics().current_buffer_used:
                    batch.append(self._receive.receive_nowait())
                    size += len(batch[-1].lines)
                stored = await self._commit([line for one in batch for line in one.lines])
                for one in batch:
                    one.stored = stored
                    one.done.set()

    async def _commit(self, lines: list[Incoming]) -> bool:
        pause, complained = _FIRST_PAUSE, False
        while True:
            try:
                await anyio.to_thread.run_sync(self._storing.store, lines)
                if complained:
                    self._complain("the store takes events again")
                return True
            except (SQLAlchemyError, OSError) as err:
                if not outage(err):
                    raise
                if not complained:
                    self._complain(f"the store takes nothing ({said(err)}); trying again until it does")
                    complained = True
            if self._patience is not None and anyio.current_time() + pause > self._patience:
                self._storing.lost += len(lines)
                return False
            await anyio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

"""What became of each judge file in one run: the event where there is one, and its line of the ledger.

A judge is settled once: whatever comes later (a reply after its null) changes nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec

from sandbox_judge.admission import Candidate
from sandbox_judge.budget import Budget, reserve_for
from sandbox_judge.clock import utc_now, uuid7
from sandbox_judge.gate.gate import Match
from sandbox_judge.grading.grade import Graded, Grading
from sandbox_judge.grading.view import View
from sandbox_judge.judgement import Calibration, RunContext, Seen, event_line, judgement_event
from sandbox_judge.lanes.base import Endpoint
from sandbox_judge.ledger import LedgerLine, LedgerOutcome, MatchedAt, ledger_record
from sandbox_judge.nulls import ErrorType

# Takes an event's line and its id; on return the event is safe from a crash where a spool is kept.
Deliver = Callable[[bytes, str], Awaitable[None]]


class Settlement:
    """The account of one run. `waiting` are the paths of the judge files that have no outcome yet."""

    def __init__(self, context: RunContext, candidates: tuple[Candidate, ...], deliver: Deliver) -> None:
        self.context = context
        self.events: list[dict[str, Any]] = []
        self.waiting = {candidate.path: candidate for candidate in candidates}
        self.complete = anyio.Event()
        self._deliver = deliver
        self._order = [candidate.path for candidate in candidates]
        self._lines: dict[str, LedgerLine] = {}
        self._secrets: set[str] = set()

    def keep_secret(self, value: str | None) -> None:
        """A credential that is in use from now on: it is masked in every later event."""
        if value and value not in self._secrets:
            self._secrets.add(value)
            self.context = _with(self.context, secrets=tuple(sorted(self._secrets)))

    def note(
        self,
        candidate: Candidate,
        outcome: LedgerOutcome,
        *,
        error_type: ErrorType | None = None,
        nearest_miss: str | None = None,
        matched: Match | None = None,
    ) -> None:
        """An outcome without an event: only the ledger tells it."""
        self._close(
            candidate,
            _line(candidate, outcome, error_type=error_type, nearest_miss=nearest_miss, matched=matched),
        )

    async def settle(
        self,
        candidate: Candidate,
        grading: Grading,
        *,
        view: View | None,
        endpoint: Endpoint | None = None,
        matched: Match | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Emits the judgement of one judge, unless it has one already."""
        if candidate.path not in self.waiting or candidate.subject is None:
            return
        outcome = grading.outcome
        graded = isinstance(outcome, Graded)
        event = judgement_event(
            context=self.context,
            subject=_with(
                candidate.subject,
                endpoint=endpoint,
                calibration=(calibration or candidate.subject.calibration) if graded else None,
            ),
            grading=grading,
            seen=None
            if view is None
            else Seen(
                sequence_hash=view.sequence_hash, entries=view.entries, left_out_chars=view.left_out_chars
            ),
            event_id=uuid7(),
            null_id=uuid7(),
            timestamp=utc_now(),
        )
        line = _line(
            candidate,
            "verdict" if graded else candidate.outcome or "null",
            result=str(outcome.answer) if isinstance(outcome, Graded) else None,
            error_type=None if isinstance(outcome, Graded) else outcome.type,
            matched=matched,
            duration_ms=grading.duration_ms,
            calibration=event["payload"].get("calibration"),
        )
        self._close(candidate, line)
        self.events.append(event)
        await self._deliver(event_line(event), event["id"])

    def ledger(self, *, budget: Budget, used_s: float) -> dict[str, Any]:
        """The record of the run, once nothing is waiting."""
        return ledger_record(
            context=self.context,
            lines=[self._lines[path] for path in self._order if path in self._lines],
            ledger_id=uuid7(),
            timestamp=utc_now(),
            total_ms=round(max(0.0, budget.total_s) * 1000),
            reserve_ms=round(reserve_for(budget.total_s, budget.reserve_s) * 1000),
            used_ms=max(0, round(used_s * 1000)),
        )

    def _close(self, candidate: Candidate, line: LedgerLine) -> None:
        if self.waiting.pop(candidate.path, None) is not None:
            self._lines[candidate.path] = line
        if not self.waiting:
            self.complete.set()


def _line(candidate: Candidate, outcome: LedgerOutcome, **more: Any) -> LedgerLine:
    file, subject = candidate.loaded.file, candidate.subject
    matched: Match | None = more.pop("matched", None)
    return LedgerLine(
        path=candidate.path,
        outcome=outcome,
        name=file.name,
        judge_id=subject.judge_id if subject else None,
        definition_hash=file.definition_hash or None,
        matched=MatchedAt(entry=matched.entry, event=matched.event, field=matched.field) if matched else None,
        **more,
    )


def _with(struct: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(struct, **changes)

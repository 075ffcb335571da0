"""The ledger: one record a run that accounts for every judge file (`spec/events.md`). Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from sandbox_judge.canonical import sanitised
from sandbox_judge.judgement import Calibration, RunContext
from sandbox_judge.nulls import ErrorType

EVENT_NAME: Final = "sandbox_judge.ledger"

LedgerOutcome = Literal[
    "verdict",
    "null",
    "gate_miss",
    "not_sampled",
    "disabled",
    "definition_invalid",
    "not_online",
    "would_run",
]
OUTCOMES: Final[tuple[str, ...]] = get_args(LedgerOutcome)


class MatchedAt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which event opened the gate: its entry number, its kind, and the field (None: the kind alone)."""

    entry: int
    event: str
    field: str | None = None


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One judge file. `name` and `judge_id` are None where no name could be read.

    `error_type` stands for the null that was emitted, so a definition whose name is a duplicate has none.
    """

    path: str
    outcome: LedgerOutcome
    name: str | None = None
    judge_id: str | None = None
    definition_hash: str | None = None
    result: str | None = None
    error_type: ErrorType | None = None
    matched: MatchedAt | None = None
    nearest_miss: Any = None
    duration_ms: int | None = None
    calibration: Calibration | None = None


def ledger_record(
    *,
    context: RunContext,
    lines: Sequence[LedgerLine],
    ledger_id: str,
    timestamp: str,
    total_ms: int,
    reserve_ms: int,
    used_ms: int,
) -> dict[str, Any]:
    """The record of a run, as JSON built-ins. `lines` has one line a judge file; times in milliseconds."""
    record = {
        "event_name": EVENT_NAME,
        "id": ledger_id,
        "timestamp": timestamp,
        "conversation_id": context.conversation_id,
        "recipe_id": context.recipe_id,
        "recipe_git_commit_sha": context.recipe_git_commit_sha,
        "environment": context.environment,
        "judges": [msgspec.to_builtins(line) for line in lines],
        "counts": dict(Counter(line.outcome for line in lines)),
        "nulls": dict(Counter(line.error_type for line in lines if line.error_type is not None)),
        "budget": {"total_ms": total_ms, "reserve_ms": reserve_ms, "used_ms": used_ms},
    }
    result: dict[str, Any] = sanitised({k: v for k, v in record.items() if v is not None})
    return result

"""What a collector takes, as strict shapes of `spec/events.md`: judgements, ledgers, kept conversations.

Emitted events are additive, so unknown keys are let through (and kept: the line itself is stored). What the
store reads must have its type; a line that does not is quarantined with the reason.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec

JUDGEMENT: Final = "introspection.judgement"
LEDGER: Final = "sandbox_judge.ledger"
CONVERSATION: Final = "sandbox_judge.conversation"

# Names and ids that others chose: bounded, because they become columns and keys.
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
Hash = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
Commit = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
Contract = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Verdict = Literal["pass", "fail", "not_applicable"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    type: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z")]
    message: str | None = None
    retryable: bool | None = None


class Model(msgspec.Struct, frozen=True, kw_only=True):
    provider: Word | None = None
    model: Word | None = None
    response_model: Word | None = None
    lane: Word | None = None
    endpoint: Word | None = None
    output_mode: Word | None = None
    dropped: tuple[Word, ...] = ()


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    rate: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    duration_ms: float | None = None


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    judgement_id: UUID
    # A UUID unless settings give the judge an id of their own.
    judge_id: Word
    grading_key: UUID
    result: Verdict | None
    definition_hash: Hash
    contract_version: Contract
    judge_name: Word | None = None
    sequence_hash: Hash | None = None
    experiment_arm_id: UUID | None = None
    grading_hash: Hash | None = None
    recipe_id: Word | None = None
    reasoning: str | None = None
    evidence: tuple[dict[str, Any], ...] = ()
    error: Fault | None = None
    llm: Model = Model()
    timing: Timing = Timing()
    sampling: Sampling = Sampling()
    calibration: Word | None = None
    labels: dict[str, Any] = {}
    judge_git_commit_sha: Commit | None = None
    regrade: bool = False
    dry_run: bool = False


class JudgementEvent(msgspec.Struct, frozen=True, kw_only=True, tag=JUDGEMENT, tag_field="event_name"):
    id: UUID
    timestamp: Moment
    conversation_id: Word
    payload: Payload
    service_name: Word | None = None
    environment: Word | None = None
    experiment_id: UUID | None = None
    recipe_git_commit_sha: Commit | None = None


class LedgerEvent(msgspec.Struct, frozen=True, kw_only=True, tag=LEDGER, tag_field="event_name"):
    id: UUID
    timestamp: Moment
    judges: tuple[dict[str, Any], ...]
    counts: dict[str, Annotated[int, msgspec.Meta(ge=0)]]
    conversation_id: Word | None = None
    recipe_id: Word | None = None
    recipe_git_commit_sha: Commit | None = None
    environment: Word | None = None
    dry_run: bool = False


class ConversationRecord(msgspec.Struct, frozen=True, kw_only=True, tag=CONVERSATION, tag_field="event_name"):
    """A conversation to be kept for drill-down and re-grading: a line of its own, never part of an event."""

    sequence_hash: Hash
    conversation: msgspec.Raw
    id: UUID | None = None


Event = JudgementEvent | LedgerEvent | ConversationRecord


class Name(msgspec.Struct, frozen=True):
    """What can be told of a line that is not valid: the id to acknowledge, and what it calls itself."""

    id: Any = None
    event_name: Any = None

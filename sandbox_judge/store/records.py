"""A line on its way into the store: read, checked, and turned into the values that are stored. Pure.

Every line has an outcome: a judgement, a ledger or a conversation to keep, or a reason for the quarantine.
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.nulls import ERROR_TYPES
from sandbox_judge.store.event import (
    CONVERSATION,
    JUDGEMENT,
    LEDGER,
    ConversationRecord,
    Event,
    JudgementEvent,
    LedgerEvent,
    Name,
    Payload,
)

# Contract versions that this code understands; events of others are stored, and shown apart.
KNOWN_CONTRACTS: Final = frozenset({"1"})

# A sender's clock may be this far ahead of ours before its word is not taken, in microseconds.
CLOCK_TOLERANCE: Final = 300_000_000
# No judgement is older than the format: an earlier time is a clock that was never set.
_EARLIEST: Final = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


class Series(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What many judgements have in common: the dimensions that figures are grouped and filtered by."""

    judge_id: str
    definition_hash: str
    contract_version: str
    judge_name: str | None = None
    recipe_id: str | None = None
    grading_hash: str | None = None
    commit: str | None = None
    judge_commit: str | None = None
    service: str | None = None
    environment: str | None = None
    experiment_id: str | None = None
    experiment_label: str | None = None
    arm_id: str | None = None
    arm_label: str | None = None
    provider: str | None = None
    model: str | None = None
    response_model: str | None = None
    lane: str | None = None
    endpoint: str | None = None
    output_mode: str | None = None
    dropped: str | None = None
    sample_rate: float | None = None
    calibration: str | None = None

    def digest(self) -> str:
        """The hex SHA-256 of the dimensions: the series' identity on every machine."""
        return hashlib.sha256(canonical_json(self)).hexdigest()


def series_id(digest: str) -> int:
    """A series' number, 63 bits of its digest: collectors need not ask each other for one."""
    return int(digest[:16], 16) >> 1


class JudgementRow(msgspec.Struct, frozen=True, kw_only=True):
    """One judgement as stored. Times are microseconds since 1970, UTC; `digest` is of the line as it came,
    `judged` of what was found (result, reasoning, evidence, error): tells a repeat from an unstable one."""

    event_id: str
    ack: str
    judgement_id: str
    grading_key: str
    at: int
    said_at: int
    received_at: int
    result: str | None
    error_type: str | None
    regrade: bool
    conversation_id: str
    sequence_hash: str | None
    duration_ms: float | None
    series: Series
    digest: str
    judged: str
    body: str

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Of two judgements of one group the higher counts: a verdict before a null, then the later."""
        return (self.result is not None, self.at, self.event_id)


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True):
    event_id: str
    ack: str
    at: int
    received_at: int
    conversation_id: str | None
    recipe_id: str | None
    commit: str | None
    environment: str | None
    digest: str
    body: str


class KeptConversation(msgspec.Struct, frozen=True, kw_only=True):
    ack: str
    sequence_hash: str
    body: bytes


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is kept apart. `ack` is empty where it has no id to acknowledge."""

    reason: str
    detail: str
    ack: str
    received_at: int
    line: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.line).hexdigest()


Incoming = JudgementRow | LedgerRow | KeptConversation | Quarantined

_decoder: Final = msgspec.json.Decoder(Event)
_names: Final = msgspec.json.Decoder(Name)


def microseconds(moment: datetime) -> int:
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def settled_time(said: int, received: int) -> int:
    """When something happened: as its sender said, unless that lies in our future or before any judgement."""
    return said if _EARLIEST <= said <= received + CLOCK_TOLERANCE else received


def _clean(text: str | None) -> str | None:
    # PostgreSQL's text has no NUL; the line itself keeps the name as it came.
    return text.replace("\0", "�") if text else text


def _label(payload: Payload, key: str) -> str | None:
    value = payload.labels.get(key)
    return _clean(value[:1024]) if isinstance(value, str) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def series_of(event: JudgementEvent) -> Series:
    payload, llm = event.payload, event.payload.llm
    return Series(
        judge_id=_clean(payload.judge_id) or "",
        definition_hash=payload.definition_hash,
        contract_version=_clean(payload.contract_version) or "",
        judge_name=_clean(payload.judge_name),
        recipe_id=_clean(payload.recipe_id),
        grading_hash=payload.grading_hash,
        commit=event.recipe_git_commit_sha,
        judge_commit=payload.judge_git_commit_sha,
        service=_clean(event.service_name),
        environment=_clean(event.environment),
        experiment_id=_text(event.experiment_id),
        experiment_label=_label(payload, "experiment_id"),
        arm_id=_text(payload.experiment_arm_id),
        arm_label=_label(payload, "experiment_arm_id"),
        provider=_clean(llm.provider),
        model=_clean(llm.model),
        response_model=_clean(llm.response_model),
        lane=_clean(llm.lane),
        endpoint=_clean(llm.endpoint),
        output_mode=_clean(llm.output_mode),
        dropped=_clean(",".join(sorted(llm.dropped))[:1024]) or None,
        sample_rate=payload.sampling.rate,
        calibration=_clean(payload.calibration),
    )


def _fault(payload: Payload) -> str | None:
    """Why a judgement of the right shape is no judgement, or None."""
    known = payload.contract_version in KNOWN_CONTRACTS
    if payload.result is None and payload.error is None:
        return "a null without its error type"
    if not known:
        return None  # what else such a judgement must be is not ours to say
    if payload.result is not None:
        if payload.error is not None:
            return "a verdict with an error"
        return None if payload.sequence_hash else "a verdict without the hash of the view that it is on"
    if payload.error is not None and payload.error.type not in ERROR_TYPES:
        return f"error type {payload.error.type!r} is not in the closed list"
    return None


def _judgement(event: JudgementEvent, line: bytes, body: str, ack: str, received: int) -> JudgementRow:
    payload, said = event.payload, microseconds(event.timestamp)
    error_type = payload.error.type if payload.error and payload.result is None else None
    judged = msgspec.json.encode((payload.result, payload.reasoning, payload.evidence, error_type))
    return JudgementRow(
        event_id=str(event.id),
        ack=ack,
        judgement_id=str(payload.judgement_id),
        grading_key=str(payload.grading_key),
        at=settled_time(said, received),
        said_at=said,
        received_at=received,
        result=payload.result,
        error_type=error_type,
        regrade=payload.regrade,
        conversation_id=_clean(event.conversation_id) or "",
        sequence_hash=payload.sequence_hash,
        duration_ms=payload.timing.duration_ms,
        series=series_of(event),
        digest=hashlib.sha256(line).hexdigest(),
        judged=hashlib.sha256(judged).hexdigest(),
        body=body,
    )


def _ledger(event: LedgerEvent, line: bytes, body: str, ack: str, received: int) -> LedgerRow:
    return LedgerRow(
        event_id=str(event.id),
        ack=ack,
        at=settled_time(microseconds(event.timestamp), received),
        received_at=received,
        conversation_id=_clean(event.conversation_id),
        recipe_id=_clean(event.recipe_id),
        commit=event.recipe_git_commit_sha,
        environment=_clean(event.environment),
        digest=hashlib.sha256(line).hexdigest(),
        body=body,
    )


def _ack_of(line: bytes) -> tuple[str, Any]:
    """The id that a line gives itself (to be acknowledged as it stands there), and its event name."""
    try:
        name = _names.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return "", None
    known = name.id if isinstance(name.id, str) and len(name.id) <= 256 else ""
    return known, name.event_name


def read_line(line: bytes, *, received: int) -> Incoming:
    """What one line (without its newline) is. `received` is our clock, in microseconds. Never raises."""
    ack, name = _ack_of(line)

    def aside(reason: str, detail: str) -> Quarantined:
        return Quarantined(reason=reason, detail=detail[:500], ack=ack, received_at=received, line=line)

    try:
        body = line.decode("utf-8")
        event = _decoder.decode(line)
    except UnicodeDecodeError as err:
        return aside("not_utf8", str(err))
    except msgspec.ValidationError as err:
        known = name in (JUDGEMENT, LEDGER, CONVERSATION)
        return aside("invalid" if known else "unknown_event", str(err))
    except (msgspec.DecodeError, RecursionError) as err:
        return aside("not_json", str(err))
    return _outcome(event, line, body, ack, received, aside)


def _outcome(
    event: Event, line: bytes, body: str, ack: str, received: int, aside: Callable[[str, str], Quarantined]
) -> Incoming:
    if isinstance(event, ConversationRecord):
        try:
            msgspec.json.decode(event.conversation, type=Conversation)
        except (msgspec.DecodeError, RecursionError) as err:
            return aside("invalid", f"the conversation: {err}")
        return KeptConversation(ack=ack, sequence_hash=event.sequence_hash, body=bytes(event.conversation))
    if isinstance(event, LedgerEvent):
        if event.dry_run:
            return aside("dry_run", "the ledger of a dry run")
        return _ledger(event, line, body, ack, received)
    if event.payload.dry_run:
        return aside("dry_run", "a dry run's judgement is not evidence")
    fault = _fault(event.payload)
    return aside("invalid", fault) if fault else _judgement(event, line, body, ack, received)

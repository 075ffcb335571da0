"""One judge's result as an immutable event (`spec/events.md`): ids, hashes, caps, and what is left out.

Pure: event ids, random ids and timestamps are given. Text from models and servers is capped and freed of
secrets here, at the last place before it leaves.
"""

import math
import re
import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from sandbox_judge.canonical import canonical_json, sanitised, sha256, without_surrogates
from sandbox_judge.caps import ERROR_CHARS, REASONING_CHARS, cut
from sandbox_judge.contract import CONTRACT_VERSION
from sandbox_judge.grading.grade import Graded, Grading
from sandbox_judge.ids import grading_key_of, judge_id_of, uuid5_of, verdict_id_of
from sandbox_judge.lanes.base import Endpoint
from sandbox_judge.masking import mask, mask_values
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import Judge

EVENT_NAME: Final = "introspection.judgement"

ConversationIdSource = Literal["given", "format", "input_hash"]
Calibration = Literal["calibrated", "stale", "uncalibrated"]
Redactable = Literal["reasoning", "evidence"]

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-?)(?:[0-9a-fA-F]{4}\1){3}[0-9a-fA-F]{12}")
# Error messages of reading name what the model wrote; redacting its words means these too.
_SPEAKING: Final = frozenset({"out_of_vocabulary", "ambiguous_output"})
# A message this long says nothing more; masking the rest of it would only cost time.
_MASKED_CHARS: Final = 20 * ERROR_CHARS


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What all judgements of one run have in common.

    `recipe_git_commit_sha` is always the commit the agent ran from (None under `--worktree`); where the
    rubric came from another, `judge_git_commit_sha` names that. `secrets`: values of the credentials in use.
    """

    conversation_id: str
    conversation_id_source: ConversationIdSource
    recipe_id: str
    recipe_git_commit_sha: str | None = None
    judge_git_commit_sha: str | None = None
    regrade: bool = False
    environment: str | None = None
    service_name: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    runtime_id: str | None = None
    runtime_group_id: str | None = None
    experiment_id: str | None = None
    experiment_arm_id: str | None = None
    budget_ms: int | None = None
    dry_run: bool = False
    labels: dict[str, str] = {}
    redact: frozenset[Redactable] = frozenset()
    secrets: tuple[str, ...] = ()


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The judge of one judgement. Of an invalid definition only name, id and the hash of its bytes exist."""

    name: str
    judge_id: str
    definition_hash: str
    grading_hash: str | None = None
    provider: str | None = None
    model: str | None = None
    endpoint: Endpoint | None = None
    rate: float | None = None
    calibration: Calibration | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded of the view."""

    sequence_hash: str
    entries: int
    left_out_chars: int


def subject_of(
    judge: Judge,
    *,
    recipe_id: str,
    configured_id: str | None = None,
    endpoint: Endpoint | None = None,
    rate: float | None = None,
    calibration: Calibration | None = None,
) -> Subject:
    """The subject that a valid definition is. `endpoint` None: it never came to choosing one."""
    return Subject(
        name=judge.name,
        judge_id=judge_id_of(recipe_id, judge.name, configured=configured_id),
        definition_hash=judge.definition_hash,
        grading_hash=judge.grading_hash,
        provider=judge.llm.provider,
        model=judge.llm.model,
        endpoint=endpoint,
        rate=rate,
        calibration=calibration,
    )


def judgement_event(
    *,
    context: RunContext,
    subject: Subject,
    grading: Grading,
    seen: Seen | None,
    event_id: str,
    null_id: str,
    timestamp: str,
) -> dict[str, Any]:
    """The event of one judge's result, as JSON built-ins.

    `event_id` and `timestamp` are the event's own; `null_id` is a random id, used if there is no verdict.
    `seen` is None only where no view was made (an invalid definition before the conversation was read).
    """
    key = grading_key_of(
        conversation_id=context.conversation_id,
        judge_id=subject.judge_id,
        definition_hash=subject.definition_hash,
    )
    outcome = grading.outcome
    verdict = isinstance(outcome, Graded)
    if verdict and seen is None:
        raise ValueError("a verdict needs the view that it was given on")
    envelope, arm, labels = _platform_ids(context)
    payload = {
        "judgement_id": verdict_id_of(grading_key=key, sequence_hash=seen.sequence_hash)
        if verdict and seen
        else null_id,
        "judge_id": subject.judge_id,
        "judge_name": subject.name,
        "definition_hash": subject.definition_hash,
        "grading_hash": subject.grading_hash,
        "grading_key": key,
        "contract_version": CONTRACT_VERSION,
        "sequence_hash": seen.sequence_hash if seen else None,
        "recipe_id": context.recipe_id,
        "experiment_arm_id": arm,
        "conversation_id_source": context.conversation_id_source,
        "judge_git_commit_sha": context.judge_git_commit_sha,
        "regrade": context.regrade or None,
        "dry_run": context.dry_run or None,
        "labels": labels or None,
        "calibration": subject.calibration,
        "sampling": None if subject.rate is None else {"rate": subject.rate},
        "view": {"entries": seen.entries, "left_out_chars": seen.left_out_chars} if seen else None,
        "llm": _llm(subject, grading),
        "usage": msgspec.to_builtins(grading.usage) if grading.usage else None,
        "timing": _timing(context, grading),
        **(_said(outcome, context) if isinstance(outcome, Graded) else _error(outcome, context)),
    }
    event = {
        "id": event_id,
        "timestamp": timestamp,
        "event_name": EVENT_NAME,
        # A host's empty string is no id.
        "trace_id": context.trace_id or None,
        "span_id": context.span_id or None,
        "conversation_id": context.conversation_id,
        "service_name": context.service_name or None,
        "environment": context.environment or None,
        "recipe_git_commit_sha": context.recipe_git_commit_sha,
        **envelope,
        "payload": {**_present(payload), "result": outcome.answer if isinstance(outcome, Graded) else None},
    }
    result: dict[str, Any] = sanitised(_present(event))
    return result


def event_line(event: Mapping[str, Any]) -> bytes:
    """The event's one line of canonical JSON, without its line feed."""
    return canonical_json(event)


def _present(record: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys that have no value."""
    return {key: value for key, value in record.items() if value is not None}


def _platform_ids(context: RunContext) -> tuple[dict[str, str], str | None, dict[str, str]]:
    """The ids that the platform reads as UUIDs, and the labels: what a host gave in another form stands there
    as given, and the key itself carries a UUIDv5 of it."""
    labels = dict(context.labels)
    ids: dict[str, str | None] = {}
    for key in ("runtime_id", "runtime_group_id", "experiment_id", "experiment_arm_id"):
        given: str | None = getattr(context, key)
        ids[key] = None if not given else _as_uuid(given)
        if given and ids[key] is None:
            labels[key] = given
            ids[key] = uuid5_of(key, given)
    arm = ids.pop("experiment_arm_id")
    return {key: value for key, value in ids.items() if value is not None}, arm, labels


def _as_uuid(text: str) -> str | None:
    return str(uuid.UUID(text)) if _UUID.fullmatch(text) else None


def _said(outcome: Graded, context: RunContext) -> dict[str, Any]:
    """Reasoning and evidence. Credentials in use are masked here too: an agent may have got at one."""
    said: dict[str, Any] = {}
    if "reasoning" not in context.redact:
        said["reasoning"] = cut(mask_values(outcome.reasoning, context.secrets), REASONING_CHARS)
    if "evidence" not in context.redact and outcome.evidence:
        said["evidence"] = [
            _present(
                {
                    "entry": one.entry,
                    "quote": mask_values(one.quote, context.secrets),
                    "verified": one.verified,
                }
            )
            for one in outcome.evidence
        ]
        said["evidence_left_out"] = outcome.quotes - len(outcome.evidence) or None
    return said


def _error(outcome: Invalid, context: RunContext) -> dict[str, Any]:
    message = cut(mask(outcome.message[:_MASKED_CHARS], context.secrets), ERROR_CHARS)
    if outcome.type in _SPEAKING and "reasoning" in context.redact:
        message = "[redacted]"
    return {"error": {"type": outcome.type, "message": message, "retryable": outcome.may_pass_on_retry}}


def _llm(subject: Subject, grading: Grading) -> dict[str, Any] | None:
    if subject.provider is None:
        return None
    record: dict[str, Any] = {"provider": subject.provider, "model": subject.model}
    if subject.endpoint is not None:
        url = subject.endpoint.base_url
        record["endpoint"] = "default" if url is None else sha256(without_surrogates(url).encode())
    if (wire := grading.wire) is not None:
        record |= {
            "lane": wire.lane,
            "sent": _plain(wire.sent),
            "dropped": list(wire.dropped) or None,
            "output_mode": wire.output_mode,
        }
    if grading.attempts:
        record |= {"response_model": grading.response_model, "repaired": grading.repaired}
    return _present(record)


def _plain(value: Any) -> Any:
    """Parameters as JSON, whatever a lane recorded: an event that cannot be written loses a judgement."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def _timing(context: RunContext, grading: Grading) -> dict[str, Any]:
    return _present(
        {
            "started_ms": grading.started_ms,
            "duration_ms": grading.duration_ms,
            "attempts": grading.attempts,
            "budget_ms": context.budget_ms,
        }
    )

"""A judgement as OpenTelemetry's `gen_ai.evaluation.result` event (`spec/events.md`). Pure, no OpenTelemetry.

The event's attributes are of the GenAI semantic conventions (Development status); our own ids stand under
`introspection.*`. The JSON event stays the source of truth: this is a view of it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

EVENT_NAME: Final = "gen_ai.evaluation.result"

# attribute: where it stands in the event
_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "gen_ai.evaluation.name": ("payload", "judge_name"),
    "gen_ai.evaluation.score.label": ("payload", "result"),
    "gen_ai.evaluation.explanation": ("payload", "reasoning"),
    "gen_ai.conversation.id": ("conversation_id",),
    "gen_ai.request.model": ("payload", "llm", "model"),
    "gen_ai.response.model": ("payload", "llm", "response_model"),
    "gen_ai.usage.input_tokens": ("payload", "usage", "input_tokens"),
    "gen_ai.usage.output_tokens": ("payload", "usage", "output_tokens"),
    "error.type": ("payload", "error", "type"),
    "deployment.environment.name": ("environment",),
    "introspection.event.id": ("id",),
    "introspection.experiment.id": ("experiment_id",),
    "introspection.experiment.arm_id": ("payload", "experiment_arm_id"),
    "introspection.recipe.id": ("payload", "recipe_id"),
    "introspection.recipe.commit": ("recipe_git_commit_sha",),
    "introspection.runtime.id": ("runtime_id",),
    "introspection.runtime.group_id": ("runtime_group_id",),
    "introspection.judge.id": ("payload", "judge_id"),
    "introspection.judge.definition_hash": ("payload", "definition_hash"),
    "introspection.judge.grading_hash": ("payload", "grading_hash"),
    "introspection.judgement.id": ("payload", "judgement_id"),
    "introspection.judgement.grading_key": ("payload", "grading_key"),
    "introspection.judgement.contract_version": ("payload", "contract_version"),
    "introspection.judgement.sequence_hash": ("payload", "sequence_hash"),
    "introspection.judgement.regrade": ("payload", "regrade"),
    "introspection.judgement.dry_run": ("payload", "dry_run"),
    "introspection.judgement.calibration": ("payload", "calibration"),
    "introspection.judgement.sampling_rate": ("payload", "sampling", "rate"),
    "introspection.judgement.duration_ms": ("payload", "timing", "duration_ms"),
    "introspection.judgement.error_message": ("payload", "error", "message"),
}


class OtlpEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One log record. Ids are numbers, as OpenTelemetry keeps them; 0 where there is none."""

    attributes: dict[str, str | int | float | bool]
    timestamp_ns: int
    service_name: str | None = None
    trace_id: int = 0
    span_id: int = 0


def otlp_event(event: Mapping[str, Any]) -> OtlpEvent:
    """The record of one judgement event. What has no value is left out; trace ids that are none become
    attributes, so that nothing is lost."""
    attributes: dict[str, str | int | float | bool] = {}
    for name, path in _ATTRIBUTES.items():
        value = _at(event, path)
        if isinstance(value, str | int | float | bool):
            attributes[name] = value
    trace_id, span_id = _number(event.get("trace_id"), 32), _number(event.get("span_id"), 16)
    for name, number in (("trace_id", trace_id), ("span_id", span_id)):
        if event.get(name) and not number:
            attributes[f"introspection.{name}"] = str(event[name])
    service = event.get("service_name")
    return OtlpEvent(
        attributes=attributes,
        timestamp_ns=_nanoseconds(event.get("timestamp")),
        service_name=service if isinstance(service, str) else None,
        trace_id=trace_id,
        # A span without its trace has no parent to belong to.
        span_id=span_id if trace_id else 0,
    )


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _number(text: Any, digits: int) -> int:
    if not isinstance(text, str) or len(text) != digits:
        return 0
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _nanoseconds(text: Any) -> int:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return 0
    return int(moment.timestamp() * 1_000_000) * 1000

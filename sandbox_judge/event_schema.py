"""Strict JSON Schemas of what this project emits (`spec/events.md`): no key that is not named here."""

from typing import Any, Final, get_args

from sandbox_judge.caps import ERROR_CHARS, QUOTE_CHARS, QUOTES, REASONING_CHARS
from sandbox_judge.grading.instruments import VERDICT
from sandbox_judge.judgement import EVENT_NAME, Calibration, ConversationIdSource
from sandbox_judge.lanes.base import LaneName, OutputMode
from sandbox_judge.ledger import EVENT_NAME as LEDGER_EVENT_NAME
from sandbox_judge.ledger import OUTCOMES
from sandbox_judge.nulls import ERROR_TYPES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_UUID: Final = {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
_UUID7: Final = {
    "type": "string",
    "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
}
_SHA256: Final = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_COMMIT: Final = {"type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"}
_TIMESTAMP: Final = {
    "type": "string",
    "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$",
}
_TEXT: Final = {"type": "string"}
_WORD: Final = {"type": "string", "minLength": 1}
_COUNT: Final = {"type": "integer", "minimum": 0}
_ENVIRONMENT: Final = {"enum": ["development", "staging", "production"]}


def event_schema() -> dict[str, Any]:
    """The schema of a judgement event."""
    envelope = {
        "id": _UUID7,
        "timestamp": _TIMESTAMP,
        "event_name": {"const": EVENT_NAME},
        "trace_id": _WORD,
        "span_id": _WORD,
        "conversation_id": _WORD,
        "service_name": _WORD,
        "environment": _ENVIRONMENT,
        "runtime_group_id": _UUID,
        "runtime_id": _UUID,
        "experiment_id": _UUID,
        "recipe_git_commit_sha": _COMMIT,
        "payload": _payload(),
    }
    required = ("id", "timestamp", "event_name", "conversation_id", "payload")
    return {"$schema": DIALECT, "title": "Judgement event", **_closed(envelope, required)}


def ledger_schema() -> dict[str, Any]:
    """The schema of a run's ledger."""
    matched = _closed(
        {"entry": {"type": "integer", "minimum": 1}, "event": _WORD, "field": _WORD}, ("entry", "event")
    )
    line = {
        "name": _WORD,
        "judge_id": _WORD,
        "definition_hash": _SHA256,
        "path": _WORD,
        "outcome": {"enum": list(OUTCOMES)},
        "result": {"enum": list(VERDICT.answers)},
        "error_type": {"enum": list(ERROR_TYPES)},
        "matched": matched,
        "nearest_miss": {},
        "duration_ms": _COUNT,
        "calibration": {"enum": list(get_args(Calibration))},
    }
    record = {
        "event_name": {"const": LEDGER_EVENT_NAME},
        "id": _UUID7,
        "timestamp": _TIMESTAMP,
        "conversation_id": _WORD,
        "recipe_id": _WORD,
        "recipe_git_commit_sha": _COMMIT,
        "environment": _ENVIRONMENT,
        "judges": {
            "type": "array",
            "items": {
                **_closed(line, ("path", "outcome")),
                "if": {"properties": {"outcome": {"const": "verdict"}}},
                "then": {"required": ["result", "name", "judge_id"], "not": {"required": ["error_type"]}},
                "else": {"not": {"required": ["result"]}},
            },
        },
        "counts": _closed(dict.fromkeys(OUTCOMES, _COUNT), ()),
        "nulls": _closed(dict.fromkeys(ERROR_TYPES, _COUNT), ()),
        "budget": _closed(dict.fromkeys(("total_ms", "reserve_ms", "used_ms"), _COUNT)),
    }
    optional = {"recipe_git_commit_sha", "environment"}
    required = tuple(key for key in record if key not in optional)
    return {"$schema": DIALECT, "title": "Ledger of a run", **_closed(record, required)}


def _payload() -> dict[str, Any]:
    quote = _closed(
        {
            "entry": {"type": "integer", "minimum": 1},
            "quote": {"type": "string", "maxLength": QUOTE_CHARS},
            "verified": {"type": "boolean"},
        },
        ("quote", "verified"),
    )
    error = {
        "type": {"enum": list(ERROR_TYPES)},
        "message": {"type": "string", "maxLength": ERROR_CHARS},
        "retryable": {"type": "boolean"},
    }
    properties = {
        "judgement_id": _UUID,
        "judge_id": _WORD,
        "judge_name": _WORD,
        "result": {"enum": [*VERDICT.answers, None]},
        "definition_hash": _SHA256,
        "grading_hash": _SHA256,
        "grading_key": _UUID,
        "contract_version": _WORD,
        "sequence_hash": _SHA256,
        "recipe_id": _WORD,
        "experiment_arm_id": _UUID,
        "reasoning": {"type": "string", "minLength": 1, "maxLength": REASONING_CHARS},
        "evidence": {"type": "array", "items": quote, "minItems": 1, "maxItems": QUOTES},
        "evidence_left_out": {"type": "integer", "minimum": 1},
        "error": _closed(error),
        "llm": _llm(),
        "usage": _closed({"input_tokens": _COUNT, "output_tokens": _COUNT}, ()),
        "timing": _closed(
            {"started_ms": _COUNT, "duration_ms": _COUNT, "attempts": _COUNT, "budget_ms": _COUNT},
            ("attempts",),
        ),
        "view": _closed({"entries": _COUNT, "left_out_chars": _COUNT}),
        "sampling": _closed({"rate": {"type": "number", "minimum": 0, "maximum": 1}}),
        "calibration": {"enum": list(get_args(Calibration))},
        "conversation_id_source": {"enum": list(get_args(ConversationIdSource))},
        "labels": {"type": "object", "additionalProperties": _TEXT, "minProperties": 1},
        "judge_git_commit_sha": _COMMIT,
        "regrade": {"const": True},
        "dry_run": {"const": True},
    }
    required = (
        "judgement_id",
        "judge_id",
        "judge_name",
        "result",
        "definition_hash",
        "grading_key",
        "contract_version",
        "recipe_id",
        "conversation_id_source",
        "timing",
    )
    return {
        **_closed(properties, required),
        # A null says why; a verdict says on what view, and has no error.
        "if": {"properties": {"result": {"const": None}}},
        "then": {
            "required": ["error"],
            "not": {"anyOf": [{"required": ["reasoning"]}, {"required": ["evidence"]}]},
        },
        "else": {
            "required": ["sequence_hash", "view", "llm", "grading_hash"],
            "not": {"required": ["error"]},
        },
    }


def _llm() -> dict[str, Any]:
    properties = {
        "provider": _WORD,
        "model": _WORD,
        "response_model": _WORD,
        "lane": {"enum": list(get_args(LaneName))},
        "endpoint": {"anyOf": [{"const": "default"}, _SHA256]},
        "sent": {"type": "object"},
        "dropped": {"type": "array", "items": _WORD, "minItems": 1},
        "output_mode": {"enum": list(get_args(OutputMode))},
        "repaired": {"type": "boolean"},
    }
    return _closed(properties, ("provider", "model"))


def _closed(properties: dict[str, Any], required: tuple[str, ...] | None = None) -> dict[str, Any]:
    """An object with these keys and no others; all are required unless said otherwise."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }

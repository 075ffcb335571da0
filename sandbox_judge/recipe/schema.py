"""The JSON Schema (draft 2020-12) of a judge file, for editors: the file's form, with a text at each field.

What a schema cannot say (regex syntax, unique names, what a base URL may be in full) `check` says.
"""

from typing import Any, Final

from sandbox_judge.recipe.gate_fields import EVENTS, PLATFORM_FIELDS
from sandbox_judge.recipe.judge import DEFAULT_PROVIDER, Transport
from sandbox_judge.recipe.judge_file import MAX_DESCRIPTION, MAX_NAME, NAME
from sandbox_judge.recipe.llm_fields import (
    MAX_MODEL_BYTES,
    MAX_RETRIES,
    MAX_RETRY_DELAY_MS,
    MAX_TEMPERATURE,
    MAX_TIMEOUT_MS,
    MAX_TOKENS,
    PROVIDER,
    REASONING_EFFORT,
    VARIABLE_NAME,
)

# Where a pattern ends the text: `$` would let a last newline pass in some readers.
_END: Final = r"(?![\s\S])"
# Not a literal at all, a slash that never ends, or a pattern with flags, each at most once.
_TARGET: Final = rf"^(?:(?!/)|/[^/]*{_END}|/[\s\S]*/(?![imsu]*([imsu])[imsu]*\1)[imsu]*{_END})"
_TRANSPORT: Final = Transport()


def judge_file_schema() -> dict[str, Any]:
    """A new copy of the schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A judge of sandbox_judge",
        "description": "One judge: when it applies, what it looks for, and which model judges.",
        **_closed(
            {
                "name": _name("The judge's name, unique in the recipe: lower-case words joined by hyphens."),
                "judge": {**_name("The old spelling of `name`."), "deprecated": True},
                "type": {
                    "enum": ["online", "offline"],
                    "default": "online",
                    "description": "Leave it out: this hook runs online judges only.",
                },
                "description": {
                    "type": ["string", "null"],
                    "maxLength": MAX_DESCRIPTION,
                    "description": "For people; it does not reach the model.",
                },
                "instructions": {
                    "type": "string",
                    "pattern": r"\S",
                    "description": "The rubric: when to say pass, fail and not_applicable.",
                },
                "on": _on(),
                "llm": _llm(),
            },
            required=("instructions", "llm"),
        ),
        "oneOf": [{"required": ["name"]}, {"required": ["judge"]}],
        "$defs": {"target": _target()},
    }


def _closed(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**out, "required": list(required)} if required else out


def _whole(pattern: str) -> str:
    return f"^(?:{pattern}){_END}"


def _name(description: str) -> dict[str, Any]:
    return {
        "type": "string",
        "pattern": _whole(NAME.pattern),
        "maxLength": MAX_NAME,
        "description": description,
    }


def _on() -> dict[str, Any]:
    return {
        "description": "When the judge applies: any entry suffices. Left out: always.",
        "anyOf": [
            {"type": "null"},
            {"type": "object", "maxProperties": 0},
            {"type": "array", "items": _matcher()},
        ],
    }


def _matcher() -> dict[str, Any]:
    prohibited = "|".join(PLATFORM_FIELDS)
    return _closed(
        {
            "event": {
                "enum": list(EVENTS),
                "description": "message: what is said; tool: a call with its result; feedback: a rating.",
            },
            "match": {
                "type": "object",
                "description": "Fields that must all hold, such as role, text, args.<path>, status.",
                "propertyNames": {
                    "minLength": 1,
                    "not": {"pattern": rf"^(?:{prohibited}){_END}|(?:^|\.)pattern_id{_END}"},
                },
                "additionalProperties": {"$ref": "#/$defs/target"},
            },
        },
        required=("event",),
    )


def _target() -> dict[str, Any]:
    return {
        "description": "Text to equal, a regex /pattern/imsu to search for, other JSON, or a list of "
        "which any may hold.",
        "anyOf": [
            {"type": "string", "pattern": _TARGET},
            {"type": ["number", "boolean", "null", "object"]},
            {"type": "array", "items": {"$ref": "#/$defs/target"}},
        ],
    }


def _llm() -> dict[str, Any]:
    return {
        "description": "Which model judges, and how it is asked.",
        **_closed(
            {
                "provider": {
                    "type": "string",
                    "pattern": _whole(PROVIDER.pattern),
                    "default": DEFAULT_PROVIDER,
                    "description": "The provider's short name.",
                },
                "model": {
                    "type": "string",
                    "pattern": rf"^\S(?:[\s\S]*\S)?{_END}",
                    "maxLength": MAX_MODEL_BYTES,
                    "description": "The provider's name of the model.",
                },
                "request": _request(),
                "transport": _transport(),
                "local": _local(),
            },
            required=("model",),
        ),
    }


def _request() -> dict[str, Any]:
    return {
        "description": "Parameters of the call; only what is written here is insisted on.",
        **_closed(
            {
                "temperature": {"type": "number", "minimum": 0, "maximum": MAX_TEMPERATURE, "default": 0},
                "max_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_TOKENS},
                "reasoning_effort": {"type": ["string", "null"], "pattern": _whole(REASONING_EFFORT.pattern)},
            }
        ),
    }


def _transport() -> dict[str, Any]:
    def bounded(low: int, high: int, default: int, description: str) -> dict[str, Any]:
        bounds = {"type": "integer", "minimum": low, "maximum": high}
        return {**bounds, "default": default, "description": description}

    return {
        "description": "One call's limits. The run's budget is a live setting and comes first.",
        **_closed(
            {
                "timeout_ms": bounded(
                    1, MAX_TIMEOUT_MS, _TRANSPORT.timeout_ms, "Milliseconds for one attempt."
                ),
                "max_retries": bounded(0, MAX_RETRIES, _TRANSPORT.max_retries, "Attempts after the first."),
                "max_retry_delay_ms": bounded(
                    0,
                    MAX_RETRY_DELAY_MS,
                    _TRANSPORT.max_retry_delay_ms,
                    "The longest wait between two attempts.",
                ),
            }
        ),
    }


def _local() -> dict[str, Any]:
    endpoint = _closed(
        {
            "base_url": {
                "type": "string",
                "description": "https, or http on this machine; no credentials, query or fragment.",
            },
            "api_key_env": {
                "type": "string",
                "pattern": _whole(VARIABLE_NAME.pattern),
                "description": "The NAME of the environment variable that holds the key.",
            },
        },
        required=("base_url", "api_key_env"),
    )
    return {
        "description": "An OpenAI-compatible endpoint of your own; live settings must allow it.",
        "anyOf": [{"type": "null"}, endpoint],
    }

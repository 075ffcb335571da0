"""The JSON Schema of `validation_report.json`, version 2, as `rubric report --schema` prints it."""

from typing import Any, Final

from sandbox_judge.rubric.criteria import HIGHEST, LOWEST
from sandbox_judge.rubric.report import STATUSES

_TEXT: Final = {"type": "string"}
_EVIDENCE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["quote", "verified"],
    "properties": {
        "quote": _TEXT,
        "verified": {"type": "boolean"},
        "file": _TEXT,
        "line": {"type": "integer", "minimum": 1},
    },
}
_JUDGE: Final[dict[str, Any]] = {
    "required": ["max_score", "threshold", "source"],
    "properties": {
        "score": {"type": "integer", "minimum": LOWEST, "maximum": HIGHEST},
        "max_score": {"type": "number"},
        "threshold": {"type": "number"},
        "source": {"enum": ["self", "judge", "grader"]},
        "evidence": {"type": "array", "items": _EVIDENCE},
        "samples": {"type": "array", "items": {"type": "integer"}},
        "self_scores": {"type": "array", "items": {"type": "object"}},
    },
    # An entry has a score, or says that there is none.
    "if": {"properties": {"status": {"enum": ["pass", "fail"]}}},
    "then": {"required": ["score"]},
    "else": {"not": {"required": ["score"]}},
}


def report_schema() -> dict[str, Any]:
    """Entries of kinds that it does not know are allowed, as are further keys: reports are additive."""
    kinds = {"enum": ["step", "code_check", "checklist", "judge"]}
    check = {
        "type": "object",
        "required": ["kind", "id", "status"],
        "properties": {"kind": _TEXT, "id": _TEXT, "name": _TEXT, "message": _TEXT},
        "allOf": [
            {
                "if": {"properties": {"kind": kinds}},
                "then": {"properties": {"status": {"enum": list(STATUSES)}}},
            },
            {"if": {"properties": {"kind": {"const": "judge"}}}, "then": _JUDGE},
        ],
    }
    scores = {"type": "object", "required": ["score"], "properties": {"score": {"type": "integer"}}}
    properties: dict[str, Any] = {
        "version": {"const": 2},
        "run_date": _TEXT,
        "parameters": {"type": "object"},
        "verdict": {"enum": ["pass", "fail"]},
        "overall_passed": {"type": "boolean"},
        "iterations": {"type": "integer", "minimum": 0},
        "checks": {"type": "array", "items": check},
        "overall_score": {"type": ["number", "null"], "minimum": LOWEST, "maximum": HIGHEST},
        "pass_threshold": {"type": "number", "minimum": LOWEST, "maximum": HIGHEST},
        "output_files": {"type": "array", "items": _TEXT},
        "stages": {"type": "array", "items": {"type": "object", "required": ["name", "passed"]}},
        "results": {"type": "object"},
        "rubric_scores": {"type": "object", "additionalProperties": scores},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "validation_report.json, version 2",
        "type": "object",
        "required": ["version", "verdict", "overall_passed", "checks", "stages", "rubric_scores"],
        "properties": properties,
    }

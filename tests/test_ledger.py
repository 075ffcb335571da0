"""The ledger accounts for every judge file."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.canonical import canonical_json
from sandbox_judge.clock import utc_now, uuid7
from sandbox_judge.event_schema import ledger_schema
from sandbox_judge.judgement import RunContext
from sandbox_judge.ledger import OUTCOMES, LedgerLine, MatchedAt, ledger_record
from sandbox_judge.nulls import ERROR_TYPES

STRICT = jsonschema.Draft202012Validator(ledger_schema())
CONTEXT = RunContext(
    conversation_id="c-1",
    conversation_id_source="given",
    recipe_id="support",
    recipe_git_commit_sha="a" * 40,
    environment="staging",
)
SHA = "sha256:" + "b" * 64


def record(lines: list[LedgerLine], context: RunContext = CONTEXT) -> dict[str, Any]:
    made = ledger_record(
        context=context,
        lines=lines,
        ledger_id=uuid7(),
        timestamp=utc_now(),
        total_ms=30_000,
        reserve_ms=500,
        used_ms=1_200,
    )
    again: dict[str, Any] = json.loads(canonical_json(made))
    assert again == made
    STRICT.validate(again)
    return again


def test_a_run_of_several() -> None:
    made = record(
        [
            LedgerLine(
                path="judges/a.yaml",
                name="a",
                judge_id="j-a",
                definition_hash=SHA,
                outcome="verdict",
                result="pass",
                matched=MatchedAt(entry=2, event="message", field="text"),
                duration_ms=400,
            ),
            LedgerLine(path="judges/b.yaml", name="b", judge_id="j-b", outcome="null", error_type="timeout"),
            LedgerLine(
                path="judges/c.yaml", name="c", judge_id="j-c", outcome="gate_miss", nearest_miss="role"
            ),
            LedgerLine(
                path="judges/d.yaml", name="d", outcome="definition_invalid", error_type="definition_invalid"
            ),
            LedgerLine(path="judges/e.yaml", outcome="definition_invalid", definition_hash=SHA),
        ]
    )
    assert made["counts"] == {"verdict": 1, "null": 1, "gate_miss": 1, "definition_invalid": 2}
    assert made["nulls"] == {"timeout": 1, "definition_invalid": 1}
    assert made["budget"] == {"total_ms": 30_000, "reserve_ms": 500, "used_ms": 1_200}
    assert made["judges"][0] == {
        "path": "judges/a.yaml",
        "name": "a",
        "judge_id": "j-a",
        "definition_hash": SHA,
        "outcome": "verdict",
        "result": "pass",
        "matched": {"entry": 2, "event": "message", "field": "text"},
        "duration_ms": 400,
    }
    assert made["judges"][4] == {
        "path": "judges/e.yaml",
        "outcome": "definition_invalid",
        "definition_hash": SHA,
    }


def test_a_recipe_without_judges() -> None:
    made = record([])
    assert (made["judges"], made["counts"], made["nulls"]) == ([], {}, {})


def test_keys_without_a_value_are_left_out() -> None:
    bare = RunContext(conversation_id="c", conversation_id_source="format", recipe_id="r")
    assert not {"environment", "recipe_git_commit_sha"} & record([], bare).keys()


@pytest.mark.parametrize(
    "line",
    [
        {"path": "p", "outcome": "verdict", "name": "n", "judge_id": "j"},
        {"path": "p", "outcome": "null", "result": "pass"},
        {"path": "p", "outcome": "lost"},
        {"path": "p", "outcome": "gate_miss", "note": "x"},
    ],
)
def test_the_strict_schema_is_strict(line: dict[str, Any]) -> None:
    assert not STRICT.is_valid({**record([]), "judges": [line]})


LINES = st.lists(
    st.builds(
        lambda outcome, type, path: LedgerLine(
            path=path,
            outcome=outcome,
            name="n",
            judge_id="j",
            result="fail" if outcome == "verdict" else None,
            error_type=type if outcome == "null" else None,
        ),
        st.sampled_from(OUTCOMES),
        st.sampled_from(ERROR_TYPES),
        st.text(st.characters(codec=None), min_size=1, max_size=10),
    ),
    max_size=12,
)


@given(lines=LINES)
def test_counts_add_up_to_the_number_of_files(lines: list[LedgerLine]) -> None:
    made = record(lines)
    assert sum(made["counts"].values()) == len(made["judges"]) == len(lines)
    assert sum(made["nulls"].values()) == made["counts"].get("null", 0)

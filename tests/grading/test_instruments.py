"""Closed answer sets: what is read as an answer, and schemas that OpenAI's strict mode takes."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.grading.instruments import VERDICT, YES_NO, Instrument, categories, criterion, scale

CRITERION = criterion(name="Sources", five="all cited", three="some", one="none")
ALL = [VERDICT, YES_NO, CRITERION, scale(low=0, high=100), categories(["Very Good", "bad"])]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("pass", "pass"),
        (" Fail\n", "fail"),
        ("NOT APPLICABLE", "not_applicable"),
        ("not-applicable", "not_applicable"),
        ("not  applicable", None),
        ("not_applicable_", None),
        ("passed", None),
        ("pass.", None),
        ("p\u0430ss", None),
        ("\uff50ass", None),
        ("pa\u00dfs", None),
        ("", None),
        (True, None),
        (1, None),
        (None, None),
        (["pass"], None),
        ({"pass": 1}, None),
    ],
)
def test_verdicts(value: Any, answer: str | None) -> None:
    assert VERDICT.read(value) == answer


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (1, 1), (5, 5), (4.0, 4), (0, None), (6, None), (-3, None), (4.5, None), (True, None), ("4", None),
        ("4/5", None), (None, None), ([4], None), (float("nan"), None), (float("inf"), None), (10**400, None),
    ],
)  # fmt: skip
def test_scores(value: Any, answer: int | None) -> None:
    got = CRITERION.read(value)
    assert got == answer and type(got) is type(answer)


def test_categories_keep_their_own_spelling() -> None:
    labels = categories(["Very Good", "bad"], passing=["Very Good"])
    assert labels.read("very-good") == "Very Good"
    assert labels.read("good") is None
    assert labels.passes("Very Good") is True and labels.passes("bad") is False
    assert categories(["a", "b"]).passes("a") is None


@pytest.mark.parametrize("labels", [[], ["one"], ["a", " "], ["a b", "A-B"]])
def test_categories_that_cannot_be_told_apart_are_refused(labels: list[str]) -> None:
    with pytest.raises(ValueError, match="at least two labels"):
        categories(labels)


def test_a_passing_category_must_exist() -> None:
    with pytest.raises(ValueError, match="passing"):
        categories(["a", "b"], passing=["c"])


@pytest.mark.parametrize(("low", "high"), [(1, 1), (5, 1), (0, 5000)])
def test_scales_that_are_none_are_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="scale"):
        scale(low=low, high=high)


def test_thresholds() -> None:
    assert [CRITERION.passes(score) for score in (1, 2, 3, 4, 5)] == [False, False, True, True, True]
    assert scale().passes(1) is None
    assert scale(threshold=4).passes(4) is True
    assert [VERDICT.passes(word) for word in VERDICT.answers] == [True, False, None]
    assert [YES_NO.passes(word) for word in YES_NO.answers] == [True, False]


@pytest.mark.parametrize("instrument", ALL, ids=lambda i: i.key)
def test_schemas_are_strict_and_ask_for_reasons_first(instrument: Instrument) -> None:
    schema = instrument.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == ["reasoning", "evidence", instrument.key]

    def closed(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            for inner in node.values():
                closed(inner)

    closed(schema)
    good = {"reasoning": "r", "evidence": [{"entry": 1, "quote": "q"}], instrument.key: instrument.answers[0]}
    jsonschema.validate(good, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, instrument.key: "none of them"}, schema)


@pytest.mark.parametrize("instrument", ALL, ids=lambda i: i.key)
@given(value=JSON)
def test_what_is_read_is_in_the_set(instrument: Instrument, value: Any) -> None:
    assert instrument.read(value) in (None, *instrument.answers)

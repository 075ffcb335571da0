"""The leaves: budget arithmetic, durations, clock, canonical JSON, terminal escapes, errors, nulls."""

import json
import time
import unicodedata
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge import errors
from sandbox_judge.budget import Budget, grading_ends, judge_ends, reserve_for
from sandbox_judge.canonical import canonical_json, sanitised, without_surrogates
from sandbox_judge.clock import process_age_s, utc_now, uuid7
from sandbox_judge.durations import parse_duration, shown
from sandbox_judge.errors import SandboxJudgeError, UsageError
from sandbox_judge.nulls import ERROR_TYPES, RETRYABLE, Invalid
from sandbox_judge.terminal import escaped

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
any_text = st.text(st.characters(codec=None, categories=None), max_size=40)


@given(json_values)
def test_canonical_json_round_trips_and_is_one_ascii_line(value):
    encoded = canonical_json(value)
    assert canonical_json(json.loads(encoded)) == encoded
    assert encoded.isascii()
    assert len(encoded.splitlines()) == 1


@given(any_text)
def test_no_lone_surrogate_survives(text):
    clean = without_surrogates(text)
    clean.encode("utf-8")
    assert without_surrogates(clean) == clean
    assert canonical_json({text: text}) == canonical_json(sanitised({text: text}))


def test_a_split_pair_is_one_character():
    assert without_surrogates("\ud83d\ude00") == "\U0001f600"
    assert without_surrogates("\ud83d") == "�"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_nan_is_refused(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)


@given(any_text)
def test_nothing_that_acts_on_a_terminal_survives(text):
    for multiline in (False, True):
        shown_text = escaped(text, multiline=multiline)
        left = {c for c in shown_text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
        assert left <= ({"\n"} if multiline else set())
        assert not any(
            unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI")
            for c in shown_text
        )


def test_plain_text_is_shown_as_it_is():
    assert escaped("Grüße, 你好 👋 שלום") == "Grüße, 你好 👋 שלום"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1500ms", 1.5), ("40s", 40), ("2m", 120), ("7", 7), ("0", 0), ("-1s", -1), (".5", 0.5), ("1h", 3600)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e3", "5 days", "٣s", "1,5s", "s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError):
        parse_duration(text, name="--budget")


def test_durations_for_a_person():
    assert [shown(0.0123), shown(12.34), shown(250)] == ["12 ms", "12.3 s", "4 min 10 s"]


@given(st.floats(-10, 1e4), st.floats(0, 1e4))
def test_the_reserve_is_at_most_a_fifth_and_never_negative(total, wished):
    reserve = reserve_for(total, wished)
    assert 0 <= reserve <= max(0, total / 5)
    assert reserve <= wished


def test_a_judge_never_ends_after_grading():
    budget = Budget(total_s=10, reserve_s=0.5, per_judge_s=4)
    end = grading_ends(budget, started=100.0)
    assert end == 109.5
    assert judge_ends(budget, now=100.0, grading_end=end) == 104
    assert judge_ends(budget, now=108.0, grading_end=end) == end
    assert grading_ends(Budget(total_s=-3), started=100.0) == 100.0


def test_the_process_is_older_than_its_imports():
    first = process_age_s()
    assert 0 < first < 3600
    time.sleep(0.02)
    assert process_age_s() > first


def test_uuid7_is_a_version_7_uuid_that_sorts_by_time():
    ids = [uuid7()]
    time.sleep(0.002)
    ids.append(uuid7())
    assert ids == sorted(ids)
    assert all(uuid.UUID(i).version == 7 and uuid.UUID(i).variant == uuid.RFC_4122 for i in ids)
    assert utc_now().endswith("Z")


def test_every_error_has_an_exit_code_and_a_paragraph():
    for name in dir(errors):
        error = getattr(errors, name)
        if isinstance(error, type) and issubclass(error, SandboxJudgeError):
            told = error("it broke.", where="file.yaml", remedy="Mend it.").paragraph()
            assert told == "file.yaml: it broke. Mend it."
            assert error.exit_code in (1, 2, 3, 70)


def test_retryable_types_are_of_the_closed_list():
    assert set(ERROR_TYPES) >= RETRYABLE
    assert Invalid(type="timeout", message="").may_pass_on_retry
    assert not Invalid(type="rate_limited", message="", retryable=False).may_pass_on_retry
    assert not Invalid(type="auth", message="").may_pass_on_retry

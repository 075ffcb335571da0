"""Figures of agreement: the cases, scikit-learn on the same rows, and no NaN anywhere."""

import json
import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from sandbox_judge.calibration.agreement import FIGURES, Tally, agreement_of, pass_rate
from sandbox_judge.calibration.row import VERDICTS

words = st.sampled_from(VERDICTS)


@pytest.mark.parametrize("id", ["K01", "K03", "K04", "K05", "K07", "K08", "K09", "K13"])
def test_cases(shared, id):
    cases = {case["id"]: case for case in json.loads((shared / "cases" / "calibration.json").read_text())}
    case, found = cases[id], None
    found = agreement_of(zip(case["human"], case["judge"], strict=True))
    rate, applicable = pass_rate(case["judge"])
    said = {
        "n": found.n, "excluded": sum(found.invalid.values()), "pass_rate_judge": rate,
        "applicable_judge": applicable, **found.figures,
    }  # fmt: skip
    for key, value in case["expected"].items():
        assert said[key] == (value if value is None else pytest.approx(value, abs=1e-4)), key


def test_every_case_is_tried(shared):
    cases = json.loads((shared / "cases" / "calibration.json").read_text())
    # K10 is about loading labels: tests/calibration/test_row.py.
    assert {case["id"] for case in cases} == {
        "K01", "K03", "K04", "K05", "K07", "K08", "K09", "K10", "K13",
    }  # fmt: skip


@settings(max_examples=30)
@given(st.lists(st.tuples(words, words | st.none()), max_size=60))
def test_figures_are_scikit_learns(pairs):
    found = agreement_of(pairs)
    valid = [(label, said) for label, said in pairs if said is not None]
    assert found.n == len(valid) and sum(found.invalid.values()) == len(pairs) - len(valid)
    assert set(found.undefined) == {name for name in FIGURES if found.figures[name] is None}
    for name in FIGURES:
        value, interval = found.figures[name], found.intervals[name]
        assert value is None or math.isfinite(value)
        assert (value is None) == (interval is None)
        if value is not None and name != "kappa":
            assert interval.low <= value + 1e-12 and value <= interval.high + 1e-12
            k, n = found.counts[name]
            assert value == pytest.approx(k / n)
    if not valid:
        return
    labels, said = zip(*valid, strict=True)
    one = {"average": None, "zero_division": math.nan}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "fail_recall": metrics.recall_score(labels, said, labels=["fail"], **one)[0],
            "pass_recall": metrics.recall_score(labels, said, labels=["pass"], **one)[0],
            "fail_precision": metrics.precision_score(labels, said, labels=["fail"], **one)[0],
            "agreement": metrics.accuracy_score(labels, said),
            "kappa": metrics.cohen_kappa_score(labels, said),
        }
    for name, value in expected.items():
        if math.isnan(value):
            assert found.figures[name] is None
        else:
            assert found.figures[name] == pytest.approx(value)
    table = metrics.confusion_matrix(labels, said, labels=list(VERDICTS))
    for row, label in enumerate(VERDICTS):
        for column, word in enumerate(VERDICTS):
            assert found.confusion.get(label, {}).get(word, 0) == table[row][column]


def test_the_interval_of_kappa_repeats_and_holds_the_value():
    pairs = (
        [("pass", "pass")] * 40 + [("fail", "fail")] * 25 + [("fail", "pass")] * 9 + [("pass", "fail")] * 6
    )
    first, second = agreement_of(pairs), agreement_of(pairs)
    assert first.intervals["kappa"] == second.intervals["kappa"]
    low, high = first.intervals["kappa"]
    assert low < first.figures["kappa"] < high
    # A normal approximation of the standard error (Fleiss, Cohen and Everitt) is near.
    assert high - low == pytest.approx(2 * 1.96 * 0.1, rel=0.15)


def test_figures_are_withheld_above_the_share_of_invalid_trials():
    tally = Tally()
    for _ in range(94):
        tally.add("pass", "pass")
    for _ in range(6):
        tally.add("fail", None, "timeout")
    found = tally.agreement(max_invalid=0.05)
    assert found.withheld and found.n == 94 and found.invalid == {"timeout": 6}
    assert set(found.figures.values()) == {None} and set(found.undefined) == set(FIGURES)
    assert tally.agreement(max_invalid=0.06).withheld is None

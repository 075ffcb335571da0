"""The corrected pass rate."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.calibration.correct import corrected_pass_rate


def confusion(pp, pf, fp, ff):
    return {"pass": {"pass": pp, "fail": pf}, "fail": {"pass": fp, "fail": ff}}


def test_a_worked_example():
    # Sensitivity 0.9, specificity 0.8: of 1,000 with 600 true passes 540 + 80 = 620 pass.
    found = corrected_pass_rate(620, 1000, confusion(180, 20, 40, 160))
    assert found.rate == pytest.approx(0.6)
    assert found.interval.low < 0.6 < found.interval.high


def test_a_perfect_judge_leaves_the_rate():
    found = corrected_pass_rate(30, 100, confusion(500, 0, 0, 500))
    assert found.rate == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((0, 0, confusion(9, 1, 1, 9)), "no live verdict"),
        ((5, 9, confusion(0, 0, 1, 9)), "no rows of both labels"),
        ((5, 9, {}), "no rows of both labels"),
        ((5, 9, confusion(5, 5, 5, 5)), "no better than chance"),
        ((5, 9, confusion(1, 9, 9, 1)), "no better than chance"),
    ],
)
def test_nothing_is_said_where_nothing_can_be(arguments, why):
    found = corrected_pass_rate(*arguments)
    assert found.rate is None and found.interval is None and why in found.why


counts = st.integers(0, 60)


@given(counts, counts, counts, counts, counts, counts)
def test_rate_and_interval_lie_within_what_is_possible(passes, more, pp, pf, fp, ff):
    found = corrected_pass_rate(passes, passes + more, confusion(pp, pf, fp, ff))
    if found.rate is not None:
        assert 0 <= found.rate <= 1
        if found.interval is not None:
            assert 0 <= found.interval.low <= found.interval.high <= 1


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    dice, held = random.Random(7), 0

    def draw(n, p):
        return sum(dice.random() < p for _ in range(n))

    for _ in range(400):
        true = draw(200, 0.7)
        passes = draw(true, 0.85) + draw(200 - true, 0.1)
        pp, fp = draw(60, 0.85), draw(60, 0.1)
        found = corrected_pass_rate(passes, 200, confusion(pp, 60 - pp, fp, 60 - fp))
        held += found.interval.low <= 0.7 <= found.interval.high
    assert held / 400 > 0.91

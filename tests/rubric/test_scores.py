"""The arithmetic of thresholds, as properties."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.nulls import Invalid
from sandbox_judge.rubric.criteria import Bar, Criterion
from sandbox_judge.rubric.scores import (
    Score,
    combined,
    mean_of,
    shown_mean,
    standing_of,
    to_rework,
    whole_score,
)

NULL = Invalid(type="timeout", message="late")


def criteria(count):
    return [Criterion(id=f"c{n}", name=f"C {n}", anchors={}) for n in range(count)]


def scores(values):
    return [
        Score(id=f"c{n}", name=f"C {n}", source="judge", score=value, error=NULL if value is None else None)
        for n, value in enumerate(values)
    ]


value = st.integers(1, 5)
bars = st.builds(
    Bar,
    average=st.integers(100, 500).map(lambda n: n / 100),
    floor=st.integers(1, 5).map(float),
)


@given(st.lists(value, min_size=1, max_size=40), bars)
def test_passed_is_exactly_the_mean_and_every_floor(values, bar):
    standing = standing_of(scores(values), criteria(len(values)), bar)
    hundredths = round(bar.average * 100)
    reached = sum(values) * 100 >= hundredths * len(values)
    assert standing.reached == reached
    assert standing.passed == (reached and min(values) >= bar.floor)
    assert standing.mean == Fraction(sum(values), len(values))


@given(st.lists(value, min_size=1, max_size=30), st.integers(1, 5))
def test_one_below_the_floor_fails_whatever_the_mean(values, floor):
    bar = Bar(average=1.0, floor=float(floor))
    standing = standing_of(scores([*values, floor - 1 or 1]), criteria(len(values) + 1), bar)
    assert standing.passed == (floor == 1)


@given(st.lists(st.none(), max_size=10))
def test_nothing_scored_is_no_pass(values):
    standing = standing_of(scores(values), criteria(len(values)), Bar(average=1.0, floor=1.0))
    assert not standing.passed
    assert standing.mean is None


@given(st.lists(value | st.none(), min_size=1, max_size=20))
def test_what_is_unscored_is_not_averaged_and_no_pass(values):
    standing = standing_of(scores(values), criteria(len(values)), Bar(average=1.0, floor=1.0))
    known = [v for v in values if v is not None]
    assert standing.mean == mean_of(known)
    assert standing.passed == (None not in values)
    assert len(standing.unscored) == values.count(None)


def test_the_mean_is_never_rounded_up():
    values = [4] * 19 + [3]  # 3.95
    standing = standing_of(scores(values), criteria(20), Bar())
    assert standing.mean == Fraction(395, 100)
    assert not standing.passed
    assert shown_mean(Fraction(3999, 1000)) == "3.99"
    assert shown_mean(Fraction(4)) == "4"
    assert shown_mean(None) == "none"


def test_a_bar_is_the_decimal_that_was_written():
    for tenths in range(10, 51):
        bar = Bar(average=tenths / 10)
        assert bar.reached_by(Fraction(tenths, 10))
        assert not bar.reached_by(Fraction(tenths * 1000 - 1, 10_000))
    assert not Bar(average=4.0, strictly_above=True).reached_by(Fraction(4))


@given(st.lists(value | st.none(), min_size=1, max_size=12), bars)
def test_rework_is_unscored_first_then_below_the_floor_then_below_the_bar(values, bar):
    kinds = criteria(len(values))
    order = [int(one.id[1:]) for one in to_rework(scores(values), kinds, bar)]
    groups = []
    for at in order:
        score = values[at]
        assert score is None or score < max(bar.average, bar.floor)
        groups.append((0, 0) if score is None else (1 if score < bar.floor else 2, score))
    assert groups == sorted(groups)


def test_only_whole_numbers_of_the_scale_are_scores():
    assert [whole_score(n) for n in (1, 5, 4.0)] == [1, 5, 4]
    for wrong in (0, 6, 4.5, "4", "4/5", True, None, float("nan"), float("inf"), 10**400, [4], {}):
        assert whole_score(wrong) is None


@given(st.lists(value | st.none(), min_size=1, max_size=9))
def test_repeats_are_one_score_that_was_given(values):
    one = combined(
        [Score(id="a", name="A", source="judge", score=v, error=NULL if v is None else None) for v in values]
    )
    known = sorted(v for v in values if v is not None)
    if not known:
        assert one.error == NULL
    else:
        assert one.score == known[(len(known) - 1) // 2]

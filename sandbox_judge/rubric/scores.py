"""Scores of criteria, and what follows from them: the arithmetic of thresholds (`spec/rubric.md`). Pure.

The mean is never rounded before it is compared; what was not scored is not averaged; nothing scored is no
pass.
"""

import statistics
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final, Literal

import msgspec

from sandbox_judge.nulls import Invalid
from sandbox_judge.rubric.criteria import HIGHEST, LOWEST, Bar, Criterion, number

Source = Literal["self", "judge", "grader"]
SOURCES: Final = ("self", "judge", "grader")
INDEPENDENT: Final = ("judge", "grader")


class Located(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A quote, and where it stands: `line` counts from 1. Unverified quotes name no line."""

    quote: str
    verified: bool
    file: str | None = None
    line: int | None = None


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one criterion. `score` None: `error` says why. `samples`: every score, where it was asked
    for more than once."""

    id: str
    name: str
    source: Source
    score: int | None = None
    message: str = ""
    evidence: tuple[Located, ...] = ()
    samples: tuple[int, ...] = ()
    error: Invalid | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How scores stand against a bar. `below_floor` and `unscored` are ids, in the rubric's order."""

    mean: Fraction | None
    passed: bool
    reached: bool
    below_floor: tuple[str, ...]
    unscored: tuple[str, ...]


def whole_score(value: Any) -> int | None:
    """`value` as a score, if it is a whole number from 1 to 5. No strings, booleans or fractions."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value in range(LOWEST, HIGHEST + 1) else None


def mean_of(scores: Iterable[int]) -> Fraction | None:
    """The exact mean; None of nothing."""
    kept = list(scores)
    return Fraction(sum(kept), len(kept)) if kept else None


def standing_of(scores: Sequence[Score], criteria: Sequence[Criterion], bar: Bar) -> Standing:
    """Passed: every criterion is scored, none is below its floor, and the mean reaches the bar."""
    by_id = {score.id: score.score for score in scores if score.score is not None}
    known = {criterion.id: by_id.get(criterion.id) for criterion in criteria}
    mean = mean_of(score for score in known.values() if score is not None)
    below = tuple(id for id, score in known.items() if score is not None and score < bar.floor_of(id))
    unscored = tuple(id for id, score in known.items() if score is None)
    reached = mean is not None and bar.reached_by(mean)
    return Standing(
        mean=mean,
        passed=reached and not below and not unscored,
        reached=reached,
        below_floor=below,
        unscored=unscored,
    )


def to_rework(scores: Sequence[Score], criteria: Sequence[Criterion], bar: Bar) -> tuple[Criterion, ...]:
    """The criteria to work on again: unscored ones, then those below their floor, then those below the
    average bar; the lowest first."""
    by_id = {score.id: score.score for score in scores if score.score is not None}

    def rank(criterion: Criterion) -> tuple[int, int]:
        score = by_id.get(criterion.id)
        if score is None:
            return (0, 0)
        return (1 if score < bar.floor_of(criterion.id) else 2, score)

    weak = [c for c in criteria if c.id not in by_id or by_id[c.id] < max(bar.average, bar.floor_of(c.id))]
    return tuple(sorted(weak, key=rank))


def combined(samples: Sequence[Score]) -> Score:
    """Several scorings of one criterion as one: the median, the lower one of an even number; the reasons are
    those of the first sample that has this score. Where none is usable, the first error stands."""
    scored = [one for one in samples if one.score is not None]
    if not scored or len(samples) == 1:
        return samples[0]
    values = [one.score for one in scored if one.score is not None]
    median = statistics.median_low(values)
    chosen = next(one for one in scored if one.score == median)
    return msgspec.structs.replace(chosen, samples=tuple(values))


def shown_mean(mean: Fraction | None) -> str:
    """For people, never rounded up to a number that it is below: 3.95 stays 3.95, 3.9999 is not 4."""
    if mean is None:
        return "none"
    return str(number(float(mean))) if mean.denominator == 1 else f"{int(mean * 100) / 100:.2f}"

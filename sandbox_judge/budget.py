"""The arithmetic of one time budget (design, section 9). Pure: seconds in, seconds out."""

import math
from typing import Final

import msgspec

DEFAULT_BUDGET_S: Final = 30.0
DEFAULT_RESERVE_S: Final = 0.5
DEFAULT_CONCURRENCY: Final = 8
DEFAULT_MAX_JUDGES: Final = 200
# Time without which a model call cannot come back with anything: such a call is not started.
LEAST_USEFUL_CALL_S: Final = 0.05


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may use. `reserve_s` of `total_s` is kept for emitting; `per_judge_s` bounds one judge.

    `max_calls` None: as many as there are judges, retries and repairs.
    """

    total_s: float = DEFAULT_BUDGET_S
    reserve_s: float = DEFAULT_RESERVE_S
    per_judge_s: float | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    max_judges: int = DEFAULT_MAX_JUDGES
    max_calls: int | None = None


def reserve_for(total_s: float, wished_s: float = DEFAULT_RESERVE_S) -> float:
    """The reserve in force: as wished, but at most a fifth of the total and never negative."""
    return max(0.0, min(wished_s, total_s / 5))


def grading_ends(budget: Budget, *, started: float) -> float:
    """When the last call must have ended, on the clock that `started` was read from."""
    return started + max(0.0, budget.total_s) - reserve_for(budget.total_s, budget.reserve_s)


def judge_ends(budget: Budget, *, now: float, grading_end: float) -> float:
    """When a judge that starts now must have ended."""
    if budget.per_judge_s is None or math.isinf(budget.per_judge_s):
        return grading_end
    return min(grading_end, now + budget.per_judge_s)

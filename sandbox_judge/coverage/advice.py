"""What budget a recipe needs for a wished coverage, from what its judges took so far. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sandbox_judge.budget import reserve_for
from sandbox_judge.coverage.observed import Observation
from sandbox_judge.coverage.schedule import Arrivals, replays, with_reserve
from sandbox_judge.coverage.survival import Survival, survival_of

QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)
_MOST_AT_ONCE: Final = 32
# More calls at once are worth it while they shorten the budget by more than this.
_WORTH: Final = 0.9
_TRY: Final = 2.0
_LEAST_S: Final = 0.5
_POINTS: Final = 60


class JudgeTimes(msgspec.Struct, frozen=True, kw_only=True):
    """One judge: its curve, its quantiles (None: not known from these runs), its nulls by cause."""

    name: str
    curve: Survival
    quantiles: dict[str, float | None]
    nulls: dict[str, int]
    not_started: int
    runs: int


class At(msgspec.Struct, frozen=True, kw_only=True):
    """What a total budget gets: coverage, verdicts lost in a thousand, seconds used on average."""

    total_s: float
    coverage: float
    lost_per_thousand: float
    mean_used_s: float


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """For one recipe. `total_s` None: the wished coverage is not known from these runs; it takes at least
    `at_least_s`, and `try_s` is a budget to learn more with. `options` says what other concurrencies need."""

    recipe_id: str
    wished: float
    conversations: int
    judges: tuple[JudgeTimes, ...]
    concurrency: int
    total_s: float | None
    per_judge_s: float | None
    at_least_s: float | None = None
    try_s: float | None = None
    costs: tuple[At, ...] = ()
    options: tuple[tuple[int, float | None], ...] = ()
    curve: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def budget_s(self) -> float | None:
        """What would be written to settings: the recommendation, else the budget to try."""
        return self.try_s if self.total_s is None else self.total_s


def advise(observations: Sequence[Observation], *, recipe_id: str, wished: float) -> Advice:
    """The advice for one recipe's observations. Raises MissingExtra."""
    judges = tuple(_times(name, ones) for name, ones in sorted(_by_judge(observations).items()))
    curves = {judge.name: judge.curve for judge in judges}
    conversations = replays(observations, curves)
    most = max((len(one.jobs) for one in conversations), default=1)
    steps = _concurrencies(most)
    arrivals = {slots: Arrivals(conversations, concurrency=slots) for slots in steps}
    options = tuple((slots, _rounded(arrivals[slots].total_for(wished))) for slots in steps)
    concurrency, total_s = _chosen(options)
    per_judge_s = _per_judge(judges, wished) if total_s is not None else None
    if per_judge_s is not None and total_s is not None and per_judge_s >= total_s - reserve_for(total_s):
        per_judge_s = None  # the budget itself is the bound
    if per_judge_s is not None:
        capped = Arrivals(conversations, concurrency=concurrency, per_judge_s=per_judge_s)
        if total_s is not None and capped.share_by(total_s) < wished:
            per_judge_s = None  # a bound for each judge would cost verdicts that the budget has time for
    at_least_s = try_s = None
    if total_s is None:
        at_least_s = _rounded(_watched(conversations=arrivals[concurrency], judges=judges))
        try_s = _rounded(_TRY * (at_least_s or _LEAST_S))
    middle = total_s or try_s or _LEAST_S
    at = arrivals[concurrency]
    return Advice(
        recipe_id=recipe_id,
        wished=wished,
        conversations=len({one.conversation_id for one in observations}),
        judges=judges,
        concurrency=concurrency,
        total_s=total_s,
        per_judge_s=per_judge_s,
        at_least_s=at_least_s,
        try_s=try_s,
        costs=tuple(_at(at, total) for total in (middle / 2, middle, 2 * middle)) if at.times else (),
        options=options,
        curve=tuple(
            (2 * middle * n / _POINTS, at.share_by(2 * middle * n / _POINTS)) for n in range(_POINTS + 1)
        ),
        notes=_notes(judges, wished),
    )


def _by_judge(observations: Sequence[Observation]) -> Mapping[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for one in observations:
        found.setdefault(one.judge, []).append(one)
    return found


def _times(name: str, ones: Sequence[Observation]) -> JudgeTimes:
    curve = survival_of(
        [one.seconds for one in ones if one.kind == "verdict" and one.seconds is not None],
        [one.seconds for one in ones if one.kind == "cut_off" and one.seconds is not None],
    )
    return JudgeTimes(
        name=name,
        curve=curve,
        quantiles={f"p{100 * share:g}": curve.quantile(share) for share in QUANTILES},
        nulls=dict(Counter(one.error for one in ones if one.error is not None)),
        not_started=sum(one.kind == "not_started" for one in ones),
        runs=len(ones),
    )


def _concurrencies(most: int) -> list[int]:
    steps = [slots for slots in (1, 2, 4, 8, 16) if slots < most]
    return [*steps, min(most, _MOST_AT_ONCE)]


def _chosen(options: Sequence[tuple[int, float | None]]) -> tuple[int, float | None]:
    """The fewest calls at once of which more would not shorten the budget much."""
    known = [(slots, total) for slots, total in options if total is not None]
    if not known:
        return options[-1][0], None
    best = min(total for _, total in known)
    return next((slots, total) for slots, total in known if best >= _WORTH * total)


def _per_judge(judges: Sequence[JudgeTimes], wished: float) -> float | None:
    """A bound for one judge that costs at most half of what the wish leaves."""
    quantiles = [judge.curve.quantile(1 - (1 - wished) / 2) for judge in judges if judge.curve.times]
    known = [seconds for seconds in quantiles if seconds is not None]
    return _rounded(max(known)) if known and len(known) == len(quantiles) else None


def _watched(*, conversations: Arrivals, judges: Sequence[JudgeTimes]) -> float:
    """The longest that anything was watched: the wished coverage lies beyond."""
    arrived = [time for time in conversations.times if not math.isinf(time)]
    longest = max((judge.curve.last_s for judge in judges), default=0.0)
    return with_reserve(max(longest, arrived[-1] if arrived else 0.0))


def _at(arrivals: Arrivals, total_s: float) -> At:
    coverage = arrivals.share_by(total_s)
    return At(
        total_s=total_s,
        coverage=coverage,
        lost_per_thousand=1000 * (1 - coverage),
        mean_used_s=arrivals.mean_used_s(total_s),
    )


def _notes(judges: Sequence[JudgeTimes], wished: float) -> tuple[str, ...]:
    notes = []
    needed = math.ceil(1 / (1 - wished)) if wished < 1 else 0
    few = [judge.name for judge in judges if judge.curve.verdicts < needed]
    if few or wished >= 1:
        asked = f"fewer than {needed}" if wished < 1 else "however many"
        names = ", ".join(few[:5]) + (" ..." if len(few) > 5 else "") if few else "every judge"
        notes.append(f"{names}: {asked} verdicts say little about a coverage of {wished:g}")
    never = sum(judge.not_started for judge in judges)
    if never:
        notes.append(f"{never} judges were never started: no latency, but time is reckoned for them")
    return tuple(notes)


def _rounded(seconds: float | None) -> float | None:
    """Up to a tenth of a second, above ten seconds to half a second."""
    if seconds is None:
        return None
    step = 0.1 if seconds <= 10 else 0.5
    return max(_LEAST_S, round(math.ceil(seconds / step - 1e-6) * step, 1))

"""Advice as lines for a person and as JSON for a program. Pure."""

from collections.abc import Iterable
from typing import Any

from sandbox_judge.coverage.advice import Advice, JudgeTimes
from sandbox_judge.coverage.plot import text_plot
from sandbox_judge.durations import shown
from sandbox_judge.terminal import escaped


def settings_of_advice(advice: Advice) -> dict[str, int]:
    """The keys of a recipe's settings that the advice (or what it would try) sets."""
    if advice.budget_s is None:
        return {}
    found = {"budget_ms": round(1000 * advice.budget_s), "concurrency": advice.concurrency}
    if advice.per_judge_s is not None:
        found["per_judge_ms"] = round(1000 * advice.per_judge_s)
    return found


def text_of(advice: Advice) -> Iterable[str]:
    """The whole story of one recipe."""
    runs = sum(judge.runs for judge in advice.judges)
    name = escaped(advice.recipe_id) or "(without an id)"
    yield f"Recipe {name}: {runs} judgements of {advice.conversations} conversations"
    yield from _table(advice.judges)
    yield ""
    yield f"Coverage by total budget, {_at_once(advice.concurrency)}"
    yield from text_plot(advice)
    yield ""
    yield from _recommendation(advice)
    for note in advice.notes:
        yield f"Note: {escaped(note)}"


def _table(judges: Iterable[JudgeTimes]) -> Iterable[str]:
    head = ["judge", "verdicts", "cut off", "p50", "p90", "p95", "p99", "nulls"]
    rows = [
        [
            escaped(judge.name),
            str(judge.curve.verdicts),
            str(judge.curve.cut_off),
            *(f"> {shown(judge.curve.last_s)}" if s is None else shown(s) for s in judge.quantiles.values()),
            ", ".join(
                f"{100 * count / judge.runs:.1f}% {escaped(cause)}"
                for cause, count in sorted(judge.nulls.items())
            ),
        ]
        for judge in judges
    ]
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    for row in [head, *rows]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _recommendation(advice: Advice) -> Iterable[str]:
    if advice.total_s is None:
        yield (
            f"Coverage {advice.wished:g} is not known from these runs; it takes at least "
            f"{shown(advice.at_least_s or 0)}. A budget to try: {shown(advice.try_s or 0)}."
        )
    else:
        bound = "" if advice.per_judge_s is None else f", at most {shown(advice.per_judge_s)} a judge"
        yield (
            f"For a coverage of {advice.wished:g}: {shown(advice.total_s)} in all{bound}, "
            f"{_at_once(advice.concurrency)}."
        )
    # What lies beyond the longest run is not known: there the curve says the least that it can be.
    least = "at least " if advice.total_s is None else ""
    words = ("half", "as said", "double")
    for word, at in zip(words, advice.costs, strict=False):
        yield (
            f"  {word:8} {shown(at.total_s):>10}  coverage {least}{at.coverage:.3f}  "
            f"{at.lost_per_thousand:.0f} verdicts in 1,000 lost  {shown(at.mean_used_s)} used on average"
        )
    yield "  " + ", ".join(
        f"{slots} at once: {'not known' if total is None else shown(total)}"
        for slots, total in advice.options
    )


def json_of(advice: Advice) -> dict[str, Any]:
    """The same as one JSON object; times in milliseconds, null where they are not known."""
    return {
        "recipe_id": advice.recipe_id,
        "coverage": advice.wished,
        "conversations": advice.conversations,
        "known": advice.total_s is not None,
        "coverage_is": "estimate" if advice.total_s is not None else "lower bound",
        "recommended": settings_of_advice(advice) if advice.total_s is not None else None,
        "at_least_ms": _ms(advice.at_least_s),
        "try": settings_of_advice(advice) if advice.total_s is None else None,
        "costs": [
            {
                "budget_ms": _ms(at.total_s),
                "coverage": at.coverage,
                "lost_per_thousand": at.lost_per_thousand,
                "mean_used_ms": _ms(at.mean_used_s),
            }
            for at in advice.costs
        ],
        "concurrency": [{"calls": slots, "budget_ms": _ms(total)} for slots, total in advice.options],
        "curve": [{"budget_ms": _ms(time), "coverage": share} for time, share in advice.curve],
        "judges": [
            {
                "name": judge.name,
                "runs": judge.runs,
                "verdicts": judge.curve.verdicts,
                "cut_off": judge.curve.cut_off,
                "not_started": judge.not_started,
                "nulls": judge.nulls,
                "longest_watched_ms": _ms(judge.curve.last_s),
                "quantiles_ms": {name: _ms(seconds) for name, seconds in judge.quantiles.items()},
            }
            for judge in advice.judges
        ],
        "notes": list(advice.notes),
    }


def _at_once(calls: int) -> str:
    return "one call at a time" if calls == 1 else f"{calls} calls at once"


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(1000 * seconds)

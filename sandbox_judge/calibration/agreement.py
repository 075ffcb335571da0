"""How far verdicts agree with labels: figures that can be defended, each with its n and interval.

`fail` is the positive class. Invalid trials are neither right nor wrong: they are counted apart. Undefined is
null with the reason. scikit-learn gives the figures (it is an extra), Wilson and the bootstrap the intervals.
"""

import importlib.util
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from sandbox_judge.calibration.row import VERDICTS
from sandbox_judge.errors import MissingExtra
from sandbox_judge.figures import Interval, wilson

FIGURES: Final = ("fail_recall", "pass_recall", "fail_precision", "agreement", "kappa", "majority_baseline")
INVALID: Final = "invalid"
_RESAMPLES: Final = 10_000
_WHY: Final = {
    "fail_recall": "no row is labelled fail",
    "pass_recall": "no row is labelled pass",
    "fail_precision": "the judge never said fail",
    "agreement": "there is no row with a verdict",
    "majority_baseline": "there is no row with a verdict",
    "kappa": "labels and verdicts are all one same word, so that chance alone agrees",
}


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """`n` rows have a verdict; `counts` are the numerator and denominator of each rate. Where figures are
    withheld all are null, and `undefined` says why."""

    n: int
    invalid: dict[str, int]
    confusion: dict[str, dict[str, int]]
    figures: dict[str, float | None]
    counts: dict[str, tuple[int, int]]
    intervals: dict[str, Interval | None]
    undefined: dict[str, str]
    withheld: str | None = None


class Tally:
    """Labels and outcomes as they come, in constant memory."""

    def __init__(self) -> None:
        self.cells: Counter[tuple[str, str]] = Counter()
        self.invalid: Counter[str] = Counter()
        self._invalid_of: Counter[str] = Counter()

    def add(self, expected: str, verdict: str | None, error_type: str | None = None) -> None:
        """One trial: a verdict, or the type of its null."""
        if verdict is None:
            self.invalid[error_type or "internal"] += 1
            self._invalid_of[expected] += 1
        else:
            self.cells[expected, verdict] += 1

    def agreement(self, *, max_invalid: float = 1.0) -> Agreement:
        """The figures; withheld where more than the share `max_invalid` of the trials are invalid. Raises
        MissingExtra."""
        n, bad = self.cells.total(), self.invalid.total()
        invalid = dict(sorted(self.invalid.items()))
        if n + bad and bad / (n + bad) > max_invalid:
            why = f"{bad} of {n + bad} trials gave no verdict, more than {max_invalid:.3g} of them may"
            return _withheld(n, invalid, why)
        confusion: dict[str, dict[str, int]] = {}
        for expected in VERDICTS:
            line: dict[str, int] = {verdict: self.cells[expected, verdict] for verdict in VERDICTS}
            line[INVALID] = self._invalid_of[expected]
            if any(line.values()):
                confusion[expected] = line
        counts = self._counts(n)
        figures = _figures(self.cells)
        intervals = {name: wilson(*counts[name]) if name in counts else None for name in FIGURES}
        intervals["kappa"] = _kappa_interval(self.cells) if figures["kappa"] is not None else None
        undefined = {name: _WHY[name] for name in FIGURES if figures[name] is None}
        if "kappa" in undefined and not n:
            undefined["kappa"] = _WHY["agreement"]
        return Agreement(
            n=n,
            invalid=invalid,
            confusion=confusion,
            figures=figures,
            counts=counts,
            intervals=intervals,
            undefined=undefined,
        )

    def _counts(self, n: int) -> dict[str, tuple[int, int]]:
        def total(*, expected: str | None = None, verdict: str | None = None) -> int:
            return sum(
                number
                for (own, said), number in self.cells.items()
                if expected in (None, own) and verdict in (None, said)
            )

        right = {word: self.cells[word, word] for word in VERDICTS}
        return {
            "fail_recall": (right["fail"], total(expected="fail")),
            "pass_recall": (right["pass"], total(expected="pass")),
            "fail_precision": (right["fail"], total(verdict="fail")),
            "agreement": (sum(right.values()), n),
            "majority_baseline": (max(total(expected=word) for word in VERDICTS), n),
        }


def agreement_of(pairs: Iterable[tuple[str, str | None]], *, max_invalid: float = 1.0) -> Agreement:
    """The figures of (label, verdict or None) pairs."""
    tally = Tally()
    for expected, verdict in pairs:
        tally.add(expected, verdict)
    return tally.agreement(max_invalid=max_invalid)


def pass_rate(verdicts: Iterable[str | None]) -> tuple[float | None, int]:
    """pass / (pass + fail), and how many that are (`spec/events.md`)."""
    counts = Counter(verdicts)
    n = counts["pass"] + counts["fail"]
    return (counts["pass"] / n if n else None), n


def require_science() -> None:
    """Raises MissingExtra where the extra `calibration` is not installed; imports nothing yet."""
    for name in ("numpy", "scipy", "sklearn"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(
                f"figures of agreement need {name}, which is not installed.",
                remedy="pip install 'sandbox-judge[calibration]'",
            )


def _withheld(n: int, invalid: dict[str, int], why: str) -> Agreement:
    nothing: dict[str, Any] = dict.fromkeys(FIGURES)
    return Agreement(
        n=n,
        invalid=invalid,
        confusion={},
        figures=nothing,
        counts={},
        intervals=dict(nothing),
        undefined=dict.fromkeys(FIGURES, why),
        withheld=why,
    )


def _figures(cells: Mapping[tuple[str, str], int]) -> dict[str, float | None]:
    present = [(own, said, number) for (own, said), number in cells.items() if number]
    if not present:
        return dict.fromkeys(FIGURES)
    require_science()
    # The whole library takes seconds to import, and only those who ask for figures need it.
    from sklearn import metrics

    labels, said, weight = (list(column) for column in zip(*present, strict=True))
    nan = float("nan")
    precision, recall, _, _ = metrics.precision_recall_fscore_support(
        labels, said, labels=list(VERDICTS), sample_weight=weight, zero_division=nan
    )
    by_word = {word: number for number, word in enumerate(VERDICTS)}
    majority = max(sum(w for own, _, w in present if own == word) for word in VERDICTS)
    found = {
        "fail_recall": recall[by_word["fail"]],
        "pass_recall": recall[by_word["pass"]],
        "fail_precision": precision[by_word["fail"]],
        "agreement": metrics.accuracy_score(labels, said, sample_weight=weight),
        "majority_baseline": majority / sum(weight),
        # One word on both sides has no kappa; scikit-learn would warn and give NaN.
        "kappa": nan
        if len({*labels, *said}) == 1
        else metrics.cohen_kappa_score(labels, said, sample_weight=weight),
    }
    return {name: None if found[name] != found[name] else float(found[name]) for name in FIGURES}


def _kappa_interval(cells: Mapping[tuple[str, str], int]) -> Interval | None:
    """The percentile bootstrap over rows: to draw n rows anew is to draw the table's cells. Draws without a
    kappa (one word everywhere) are left out; the dice are the same each time."""
    import numpy as np

    table = np.array([[cells.get((own, said), 0) for said in VERDICTS] for own in VERDICTS], dtype=float)
    n = int(table.sum())
    draws = np.random.default_rng(20261130).multinomial(n, table.ravel() / n, size=_RESAMPLES)
    shares = draws.reshape(_RESAMPLES, len(VERDICTS), len(VERDICTS)) / n
    agreed = shares.trace(axis1=1, axis2=2)
    chance = (shares.sum(axis=2) * shares.sum(axis=1)).sum(axis=1)
    defined = chance < 1 - 1e-12
    if not defined.any():
        return None
    kappas = (agreed[defined] - chance[defined]) / (1 - chance[defined])
    low, high = np.quantile(kappas, [0.025, 0.975])
    return Interval(float(low), float(high))

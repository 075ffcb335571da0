"""How long a judge takes, estimated from runs of which some were cut off: Kaplan and Meier's estimator.

scipy's `ecdf` makes it from censored data (it is an extra). Where the last runs were cut off, the curve ends
below one: what lies beyond is not known, and is never filled in.
"""

import bisect
import importlib
import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from sandbox_judge.errors import MissingExtra


class Survival(msgspec.Struct, frozen=True, kw_only=True):
    """A step function: of verdicts, the share `shares[i]` has arrived by `times[i]` seconds. `last_s` is the
    longest time that any run was watched, cut off or not."""

    times: tuple[float, ...]
    shares: tuple[float, ...]
    last_s: float
    verdicts: int
    cut_off: int

    @property
    def known_share(self) -> float:
        """The share up to which the curve is known."""
        return self.shares[-1] if self.shares else 0.0

    def share_by(self, seconds: float) -> float:
        """The share of verdicts that has arrived after so many seconds."""
        at = bisect.bisect_right(self.times, seconds)
        return self.shares[at - 1] if at else 0.0

    def quantile(self, share: float) -> float | None:
        """After how many seconds the share has arrived; None where that is not known from these runs."""
        # Sums of many small steps: a share of one is reached a rounding error below one.
        at = bisect.bisect_left(self.shares, share - 1e-9)
        return self.times[at] if at < len(self.times) else None

    def beyond(self, seconds: float, rank: float) -> float:
        """A latency among those above `seconds`, at `rank` from 0 to 1; infinite where it is not known."""
        known = self.share_by(seconds)
        found = self.quantile(known + max(rank, 1e-9) * (1 - known))
        return math.inf if found is None else found


def survival_of(latencies: Sequence[float], cut_off: Sequence[float]) -> Survival:
    """The estimate from whole latencies and from those that were cut off. Raises MissingExtra."""
    last_s = max((*latencies, *cut_off), default=0.0)
    times: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    if latencies:
        stats = _stats()
        data = stats.CensoredData(uncensored=list(latencies), right=list(cut_off))
        cdf = stats.ecdf(data).cdf
        steps = [(float(t), float(p)) for t, p in zip(cdf.quantiles, cdf.probabilities, strict=True)]
        # A step only where a verdict arrived: elsewhere the curve is flat.
        rising = [
            step for before, step in zip([(0.0, 0.0), *steps[:-1]], steps, strict=True) if step[1] > before[1]
        ]
        times, shares = tuple(t for t, _ in rising), tuple(p for _, p in rising)
    return Survival(times=times, shares=shares, last_s=last_s, verdicts=len(latencies), cut_off=len(cut_off))


def _stats() -> Any:
    if importlib.util.find_spec("scipy") is None:
        raise MissingExtra(
            "scipy, which estimates from runs that were cut off, is not installed.",
            where="budget",
            remedy="Install it: pip install 'sandbox-judge[calibration]'.",
        )
    return importlib.import_module("scipy.stats")

"""The live pass rate, corrected for the judge's own errors (Rogan and Gladen 1978).

Sensitivity is the share of true passes that the judge passes, specificity that of true fails that it fails,
both among rows where label and verdict are pass or fail, as the live rate counts them. The interval is Lang
and Reiczigel's (2014), which knows that both were measured on few rows.
"""

import math
from collections.abc import Mapping

import msgspec

from sandbox_judge.figures import Z95, Interval


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """`rate` and `interval` are None where nothing can be said, and `why` says so."""

    observed: float | None
    n: int
    rate: float | None = None
    interval: Interval | None = None
    why: str | None = None


def corrected_pass_rate(
    passes: int, n: int, confusion: Mapping[str, Mapping[str, int]], *, z: float = Z95
) -> Corrected:
    """The corrected rate of `passes` of `n` live verdicts, by a calibration's confusion."""
    if not 0 <= passes <= n:
        raise ValueError(f"{passes} of {n} is no count")
    if not n:
        return Corrected(observed=None, n=0, why="there is no live verdict of this definition and model")
    observed = passes / n
    true_pass, true_fail = confusion.get("pass", {}), confusion.get("fail", {})
    n_pass = true_pass.get("pass", 0) + true_pass.get("fail", 0)
    n_fail = true_fail.get("pass", 0) + true_fail.get("fail", 0)
    if not n_pass or not n_fail:
        return Corrected(observed=observed, n=n, why="the calibration has no rows of both labels")
    sensitivity, specificity = true_pass.get("pass", 0) / n_pass, true_fail.get("fail", 0) / n_fail
    if sensitivity + specificity <= 1:
        return Corrected(observed=observed, n=n, why="the judge tells pass from fail no better than chance")
    rate = (observed + specificity - 1) / (sensitivity + specificity - 1)
    interval = _lang_reiczigel(observed, n, sensitivity, n_pass, specificity, n_fail, z)
    return Corrected(observed=observed, n=n, rate=min(1.0, max(0.0, rate)), interval=interval)


def _lang_reiczigel(
    observed: float, n: int, se: float, n_se: int, sp: float, n_sp: int, z: float
) -> Interval | None:
    zz = z * z
    n_, se_n, sp_n = n + zz, n_se + 2, n_sp + 2
    q, se_, sp_ = (n * observed + zz / 2) / n_, (n_se * se + 1) / se_n, (n_sp * sp + 1) / sp_n
    whole = se_ + sp_ - 1
    if whole <= 0:
        return None
    p = (q + sp_ - 1) / whole
    spread_se, spread_sp = se_ * (1 - se_) / se_n, sp_ * (1 - sp_) / sp_n
    shift = 2 * zz * (p * spread_se - (1 - p) * spread_sp)
    half = z * math.sqrt(q * (1 - q) / n_ + p * p * spread_se + (1 - p) ** 2 * spread_sp) / whole
    return Interval(min(1.0, max(0.0, p + shift - half)), min(1.0, max(0.0, p + shift + half)))

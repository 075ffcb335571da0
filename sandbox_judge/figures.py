"""Rates and how sure one may be of them: intervals, tests, agreement. Pure arithmetic, a leaf.

Undefined is None, never NaN: a rate of nothing, an agreement that chance alone fixes. Intervals are two-sided
and lie within what is possible. Nothing here needs scipy; a test compares with it.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

# The standard normal's 97.5 % point: 95 % intervals.
Z95: Final = 1.959963984540054


class Interval(NamedTuple):
    low: float
    high: float


class Test(NamedTuple):
    """A two-sided test of no difference, and which one it was."""

    name: Literal["fisher", "z", "mcnemar"]
    p: float


def z_of(confidence: float) -> float:
    """The normal point of a two-sided interval, for a confidence such as 0.95 (exclusive 0..1, else
    ValueError)."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not {confidence}")
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def _checked(k: int, n: int) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no count")


def rate(k: int, n: int) -> float | None:
    """k/n, None where n is 0."""
    _checked(k, n)
    return k / n if n else None


def wilson(k: int, n: int, z: float = Z95) -> Interval | None:
    """Wilson's score interval of a rate (Wilson 1927); None where n is 0."""
    _checked(k, n)
    if not n:
        return None
    p, zz = k / n, z * z
    centre = (p + zz / (2 * n)) / (1 + zz / n)
    half = z * math.sqrt(p * (1 - p) / n + zz / (4 * n * n)) / (1 + zz / n)
    # The ends are exact at 0 and 1, where rounding would leave a stray 1e-17.
    return Interval(0.0 if k == 0 else max(0.0, centre - half), 1.0 if k == n else min(1.0, centre + half))


def newcombe(k1: int, n1: int, k2: int, n2: int, z: float = Z95) -> Interval | None:
    """The interval of k1/n1 - k2/n2 by Newcombe's method 10 (1998); None where either n is 0."""
    one, two = wilson(k1, n1, z), wilson(k2, n2, z)
    if one is None or two is None:
        return None
    p1, p2 = k1 / n1, k2 / n2
    low = p1 - p2 - math.hypot(p1 - one.low, two.high - p2)
    high = p1 - p2 + math.hypot(one.high - p1, p2 - two.low)
    return Interval(max(-1.0, low), min(1.0, high))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def fisher_exact(k1: int, n1: int, k2: int, n2: int) -> float:
    """Two-sided p of Fisher's exact test: the chance of a table no likelier than this one."""
    _checked(k1, n1)
    _checked(k2, n2)
    hits, total = k1 + k2, n1 + n2
    whole = _log_choose(total, hits)

    def log_chance(k: int) -> float:
        return _log_choose(n1, k) + _log_choose(n2, hits - k) - whole

    # Tables as likely as ours count; the slack is for rounding in lgamma alone.
    limit = log_chance(k1) + 1e-7
    possible = range(max(0, hits - n2), min(hits, n1) + 1)
    return min(1.0, math.fsum(math.exp(c) for c in map(log_chance, possible) if c <= limit))


def two_proportion_z(k1: int, n1: int, k2: int, n2: int) -> float | None:
    """Two-sided p of the pooled z test; None where either n is 0. Rates that are both 0 or both 1: 1.0."""
    _checked(k1, n1)
    _checked(k2, n2)
    if not n1 or not n2:
        return None
    pooled = (k1 + k2) / (n1 + n2)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
    if not spread:
        return 1.0
    return math.erfc(abs(k1 / n1 - k2 / n2) / spread / math.sqrt(2))


def two_proportion(k1: int, n1: int, k2: int, n2: int) -> Test | None:
    """Fisher's exact test where a cell of the table is expected below 5, else the z test; None where either n
    is 0."""
    p = two_proportion_z(k1, n1, k2, n2)
    if p is None:
        return None
    total, hits = n1 + n2, k1 + k2
    if min(n1, n2) * min(hits, total - hits) < 5 * total:
        return Test("fisher", fisher_exact(k1, n1, k2, n2))
    return Test("z", p)


def mcnemar_exact(b: int, c: int) -> float:
    """Two-sided exact p for pairs that changed one way (b) and the other (c); 1.0 where none changed."""
    if b < 0 or c < 0:
        raise ValueError("counts are not negative")
    n, few = b + c, min(b, c)
    if b == c:
        return 1.0
    tail = math.fsum(math.exp(_log_choose(n, i) - n * math.log(2)) for i in range(few + 1))
    return min(1.0, 2 * tail)


def cohen_kappa(table: Mapping[str, Mapping[str, int]]) -> float | None:
    """Cohen's kappa of a table {one rater's word: {the other's: count}}; None where there are no counts or
    where both raters use one same word only (chance alone would agree always)."""
    n = sum(sum(row.values()) for row in table.values())
    if not n:
        return None
    words = set(table) | {word for row in table.values() for word in row}
    rows = {word: sum(table.get(word, {}).values()) for word in words}
    columns = {word: sum(row.get(word, 0) for row in table.values()) for word in words}
    agreed = sum(table.get(word, {}).get(word, 0) for word in words)
    # In whole numbers, so that "undefined" does not hang on rounding.
    chance = sum(rows[word] * columns[word] for word in words)
    return None if chance == n * n else (agreed * n - chance) / (n * n - chance)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method (Numerical Recipes 6.4)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 2000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + term / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return value


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), for a, b > 0."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return min(1.0, math.exp(log_front) * _beta_fraction(x, a, b) / a)
    return max(0.0, 1.0 - math.exp(log_front) * _beta_fraction(1 - x, b, a) / b)


class Beta(NamedTuple):
    """A Beta distribution: what is believed of a rate."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    @property
    def deviation(self) -> float:
        total = self.a + self.b
        return math.sqrt(self.a * self.b / (total * total * (total + 1)))

    def quantile(self, q: float) -> float:
        """The point below which the rate lies with probability q, to 1e-12."""
        low, high = 0.0, 1.0
        for _ in range(42):
            middle = (low + high) / 2
            low, high = (middle, high) if beta_cdf(middle, self.a, self.b) < q else (low, middle)
        return (low + high) / 2

    def interval(self, confidence: float = 0.95) -> Interval:
        """The equal-tailed credible interval."""
        tail = (1 - confidence) / 2
        return Interval(self.quantile(tail), self.quantile(1 - tail))


def beta_posterior(k: int, n: int) -> Beta:
    """What k passes of n leave of a uniform prior."""
    _checked(k, n)
    return Beta(k + 1.0, n - k + 1.0)


_STEPS: Final = 2000


def _chance_of_best(own: Beta, others: Sequence[Beta]) -> float:
    low, high = max(0.0, own.mean - 9 * own.deviation), min(1.0, own.mean + 9 * own.deviation)
    log_norm = math.lgamma(own.a + own.b) - math.lgamma(own.a) - math.lgamma(own.b)
    weights, values = [], []
    for step in range(_STEPS):
        # Midpoints: neither 0 nor 1 is ever touched, where a logarithm would fail.
        x = low + (high - low) * (step + 0.5) / _STEPS
        weights.append(math.exp(log_norm + (own.a - 1) * math.log(x) + (own.b - 1) * math.log1p(-x)))
        values.append(math.prod(beta_cdf(x, other.a, other.b) for other in others))
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


def chance_of_best(arms: Sequence[Beta]) -> list[float]:
    """For each arm the probability that its rate is the highest, by quadrature (to about 0.001; no dice, so
    the same evidence gives the same figure). They sum to 1."""
    raw = [_chance_of_best(arm, [o for j, o in enumerate(arms) if j != i]) for i, arm in enumerate(arms)]
    whole = math.fsum(raw)
    return [chance / whole for chance in raw]

"""Intervals, tests and agreement, against scipy and scikit-learn where those are installed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge import figures

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")


@st.composite
def counts(draw: st.DrawFn, most: int = 400) -> tuple[int, int]:
    n = draw(st.integers(1, most))
    return draw(st.integers(0, n)), n


@given(counts())
@settings(max_examples=100, deadline=None)
def test_wilson_is_scipys(count: tuple[int, int]) -> None:
    k, n = count
    ours = figures.wilson(k, n)
    theirs = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert ours is not None
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= ours.low <= k / n <= ours.high <= 1


@pytest.mark.parametrize("k,n", [(0, 0)])
def test_nothing_counted_is_undefined(k: int, n: int) -> None:
    assert figures.rate(k, n) is None
    assert figures.wilson(k, n) is None
    assert figures.newcombe(k, n, 3, 4) is None
    assert figures.newcombe(3, 4, k, n) is None
    assert figures.two_proportion(k, n, 3, 4) is None


@pytest.mark.parametrize("k,n", [(3, 2), (-1, 4), (1, -1)])
def test_impossible_counts_are_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="is no count"):
        figures.wilson(k, n)


def test_newcombe_gives_the_published_figures() -> None:
    # Newcombe 1998, table II, method 10.
    published = {
        (56, 70, 48, 80): (0.0524, 0.3339),
        (9, 10, 3, 10): (0.1705, 0.8090),
        (10, 10, 0, 10): (0.6075, 1.0000),
        (0, 10, 0, 20): (-0.1611, 0.2775),
    }
    for table, interval in published.items():
        assert figures.newcombe(*table) == pytest.approx(interval, abs=6e-5)


@given(counts(60), counts(60))
@settings(max_examples=100, deadline=None)
def test_fisher_is_scipys(one: tuple[int, int], two: tuple[int, int]) -> None:
    (k1, n1), (k2, n2) = one, two
    theirs = stats.fisher_exact([[k1, n1 - k1], [k2, n2 - k2]])[1]
    assert figures.fisher_exact(k1, n1, k2, n2) == pytest.approx(theirs, rel=1e-6)


@given(counts(), counts())
@settings(max_examples=60, deadline=None)
def test_differences_turn_with_their_sides(one: tuple[int, int], two: tuple[int, int]) -> None:
    there, back = figures.newcombe(*one, *two), figures.newcombe(*two, *one)
    assert there is not None and back is not None
    assert there.low == pytest.approx(-back.high, abs=1e-12)
    forth, reverse = figures.two_proportion(*one, *two), figures.two_proportion(*two, *one)
    assert forth is not None and reverse is not None
    assert forth.name == reverse.name and forth.p == pytest.approx(reverse.p, rel=1e-6)
    assert 0 <= forth.p <= 1


def test_the_test_fits_the_size_of_the_table() -> None:
    assert figures.two_proportion(9, 10, 3, 10).name == "fisher"
    large = figures.two_proportion(900, 1000, 850, 1000)
    assert large.name == "z"
    chi = stats.chi2_contingency([[900, 100], [850, 150]], correction=False)[1]
    assert large.p == pytest.approx(chi, rel=1e-9)
    assert figures.two_proportion_z(10, 10, 20, 20) == 1.0


@given(st.integers(0, 300), st.integers(0, 300))
@settings(max_examples=80, deadline=None)
def test_mcnemar_is_the_binomial_test(b: int, c: int) -> None:
    theirs = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert figures.mcnemar_exact(b, c) == pytest.approx(theirs, rel=1e-8)


def test_kappa() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    table = {"pass": {"pass": 20, "fail": 5}, "fail": {"pass": 10, "fail": 15}, "not_applicable": {"fail": 2}}
    pairs = [(a, b) for a, row in table.items() for b, n in row.items() for _ in range(n)]
    theirs = sklearn.cohen_kappa_score(*zip(*pairs, strict=True))
    assert figures.cohen_kappa(table) == pytest.approx(theirs)


@pytest.mark.parametrize(
    "table,kappa",
    [
        ({}, None),
        ({"pass": {}}, None),
        ({"pass": {"pass": 7}}, None),
        ({"pass": {"pass": 7}, "fail": {"pass": 3}}, 0.0),
        ({"pass": {"fail": 5}, "fail": {"pass": 5}}, -1.0),
        ({"pass": {"pass": 1}, "fail": {"fail": 1}}, 1.0),
    ],
)
def test_kappa_at_the_edges(table: dict[str, dict[str, int]], kappa: float | None) -> None:
    assert figures.cohen_kappa(table) == kappa


@given(st.floats(0, 1), st.floats(1, 5000), st.floats(1, 5000))
@settings(max_examples=150, deadline=None)
def test_beta_is_scipys(x: float, a: float, b: float) -> None:
    assert figures.beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-9)


def test_posterior() -> None:
    belief = figures.beta_posterior(18, 20)
    low, high = belief.interval()
    assert (low, high) == pytest.approx(stats.beta(19, 3).interval(0.95), abs=1e-9)
    assert belief.mean == pytest.approx(19 / 22)


def test_the_best_arm() -> None:
    assert figures.chance_of_best([figures.beta_posterior(0, 0)]) == [1.0]
    assert figures.chance_of_best([figures.beta_posterior(5, 10)] * 2) == pytest.approx([0.5, 0.5])
    numpy = pytest.importorskip("numpy")
    rng = numpy.random.default_rng(7)
    a, b, c = rng.beta(9, 3, 100_000), rng.beta(6, 6, 100_000), rng.beta(40, 25, 100_000)
    by_dice = [float(x.mean()) for x in ((a > b) & (a > c), (b > a) & (b > c), (c > a) & (c > b))]
    ours = figures.chance_of_best([figures.Beta(9, 3), figures.Beta(6, 6), figures.Beta(40, 25)])
    assert ours == pytest.approx(by_dice, abs=0.006)
    assert sum(ours) == pytest.approx(1)
    wide_and_narrow = figures.chance_of_best(
        [figures.beta_posterior(8, 10), figures.beta_posterior(700_000, 1_000_000)]
    )
    assert wide_and_narrow[0] == pytest.approx(1 - stats.beta(9, 3).cdf(0.7), abs=0.002)


@pytest.mark.parametrize("confidence", [0, 1, -1, 95])
def test_a_confidence_lies_between_nothing_and_all(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        figures.z_of(confidence)
    assert figures.z_of(0.95) == pytest.approx(figures.Z95)

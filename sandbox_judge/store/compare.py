"""Two sides of one judge, or its newest version against what was: what may be said, or why nothing. Pure."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from sandbox_judge.figures import Interval, Test, newcombe, two_proportion, wilson
from sandbox_judge.store.commit_order import CommitOrder, first_seen, in_order
from sandbox_judge.store.tally import Cell, Comparable, Drift, Tally, comparable, drift, facets, tally
from sandbox_judge.store.trend import grouped


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """No comparison, and every reason."""

    reasons: tuple[str, ...]

    def shown(self) -> dict[str, Any]:
        return {"comparable": False, "reasons": list(self.reasons)}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The rate of one side less that of another; None where a side decided nothing."""

    value: float | None
    interval: Interval | None
    test: Test | None

    def shown(self) -> dict[str, Any]:
        test = {"name": self.test.name, "p": self.test.p} if self.test else None
        return {"value": self.value, "interval": self.interval, "test": test}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One comparable set on two sides; `difference` is B less A."""

    set: Comparable
    a: Tally
    b: Tally
    difference: Difference
    drift: tuple[Drift, ...]

    def shown(self, z: float) -> dict[str, Any]:
        return {
            "comparable": True,
            **msgspec.structs.asdict(self.set),
            "known_contract": self.set.known,
            "a": self.a.shown(z),
            "b": self.b.shown(z),
            "difference": self.difference.shown(),
            "drift": msgspec.to_builtins(self.drift),
        }


def difference(one: Tally, other: Tally, z: float) -> Difference:
    """`one` less `other`."""
    counts = (one.passes, one.decided, other.passes, other.decided)
    value = None if one.rate is None or other.rate is None else one.rate - other.rate
    return Difference(value=value, interval=newcombe(*counts, z), test=two_proportion(*counts))


def compare(a: Sequence[Cell], b: Sequence[Cell], *, z: float) -> list[Comparison] | Refusal:
    """A comparison for each set that both sides have; what only one of them has is left out."""
    for name, side in (("A", a), ("B", b)):
        if not side:
            return Refusal(reasons=(f"{name} has no judgement of this judge",))
    on_a, on_b = (grouped(side, lambda cell: comparable(cell.series)) for side in (a, b))
    common = sorted(set(on_a) & set(on_b))
    if not common:
        return Refusal(reasons=_differences(a, b))
    return [
        Comparison(
            set=one,
            a=tally(on_a[one]),
            b=tally(on_b[one]),
            difference=difference(tally(on_b[one]), tally(on_a[one]), z),
            drift=drift(facets(on_a[one]), facets(on_b[one])),
        )
        for one in common
    ]


def _differences(a: Sequence[Cell], b: Sequence[Cell]) -> tuple[str, ...]:
    """What keeps two sides apart, in words."""
    reasons = []
    for field, name in (("definition_hash", "definition"), ("contract_version", "contract version")):
        on_a, on_b = ({getattr(cell.series, field) for cell in side} for side in (a, b))
        if on_a != on_b:
            reasons.append(f"the {name} differs: {_words(on_a)} in A, {_words(on_b)} in B")
    gradings = [{cell.series.grading_hash for cell in side} for side in (a, b)]
    if reasons and reasons[0].startswith("the definition"):
        same = gradings[0] == gradings[1] and None not in gradings[0]
        reasons.append(
            "the edit is cosmetic: what reaches the model is the same (trend --join-cosmetic)"
            if same
            else "the edit changes what reaches the model"
            if not gradings[0] & gradings[1]
            else "some of the definitions differ in what reaches the model"
        )
    return tuple(reasons) or ("no definition and contract version occur on both sides",)


def _words(values: set[str]) -> str:
    return ", ".join(sorted(values))


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version against a baseline. `below` None: the evidence gives no answer, and `reason` says
    why."""

    version: str | None
    set: Comparable
    newest: Tally
    baseline: Literal["floor", "version", "earlier"]
    floor: float | None = None
    against: Tally | None = None
    difference: Difference | None = None
    below: bool | None = None
    reason: str = ""

    def shown(self, z: float) -> dict[str, Any]:
        return {
            "version": self.version,
            **msgspec.structs.asdict(self.set),
            "newest": self.newest.shown(z),
            "baseline": {
                "kind": self.baseline,
                "floor": self.floor,
                **({"figures": self.against.shown(z)} if self.against else {}),
            },
            "difference": self.difference.shown() if self.difference else None,
            "credibly_below": self.below,
            "reason": self.reason or None,
        }


def guard(
    cells: Sequence[Cell],
    order: CommitOrder,
    *,
    z: float,
    floor: float | None = None,
    baseline: str | None = None,
    version: str | None = None,
) -> Guarded:
    """Whether the newest version (or the one named) is credibly below a floor, a version, or all earlier
    versions of its comparable set: the whole interval of its rate, or of the difference, lies below.
    `cells` must not be empty."""
    versions = in_order(first_seen((cell.series.commit, cell.first) for cell in cells), order)
    newest = version if version is not None else versions[-1]
    own = [cell for cell in cells if cell.series.commit == newest]
    # Where a version has two definitions, the one that was seen last is the one in force.
    one = max(grouped(own, lambda c: comparable(c.series)).items(), key=lambda p: max(c.last for c in p[1]))[
        0
    ]
    inside = [cell for cell in cells if comparable(cell.series) == one]
    now = tally(cell for cell in inside if cell.series.commit == newest)
    if floor is not None:
        high = wilson(now.passes, now.decided, z)
        return Guarded(
            version=newest,
            set=one,
            newest=now,
            baseline="floor",
            floor=floor,
            below=None if high is None else high.high < floor,
            reason="" if high else "the newest version has no pass or fail yet",
        )
    earlier: set[str | None] = set(versions[: versions.index(newest)]) if baseline is None else {baseline}
    kind: Literal["version", "earlier"] = "earlier" if baseline is None else "version"
    then = tally(cell for cell in inside if cell.series.commit in earlier)
    apart = difference(now, then, z)
    below = None if apart.interval is None else apart.interval.high < 0
    return Guarded(
        version=newest,
        set=one,
        newest=now,
        baseline=kind,
        against=then,
        difference=apart,
        below=below,
        reason="" if below is not None else _no_answer(now, then, cells, earlier, one),
    )


def _no_answer(
    now: Tally, then: Tally, cells: Sequence[Cell], earlier: set[str | None], one: Comparable
) -> str:
    if not now.decided:
        return "the newest version has no pass or fail yet"
    others = {comparable(cell.series) for cell in cells if cell.series.commit in earlier} - {one}
    if not then.groups and others:
        return "no baseline is comparable: the definition or the contract version changed with this version"
    return "the baseline has no pass or fail"


def one_environment(cells: Sequence[Cell]) -> tuple[list[Cell], str | None]:
    """The cells of one environment, and a note where others were left out: sampled and unsampled traffic do
    not mix. Production before others, then the one with the most groups."""
    parts = grouped(cells, lambda cell: cell.series.environment or "")
    if len(parts) < 2:
        return list(cells), None
    chosen = max(parts, key=lambda name: (name == "production", sum(c.n for c in parts[name]), name))
    left = ", ".join(sorted(name or "(none)" for name in parts if name != chosen))
    return parts[chosen], f"only {chosen or '(none)'} is looked at; left out: {left} (--environment chooses)"

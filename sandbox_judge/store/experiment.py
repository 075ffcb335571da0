"""Arms of an experiment under one pinned judge, definition and contract; refused where they are not. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sandbox_judge.errors import UsageError
from sandbox_judge.figures import Interval, beta_posterior, chance_of_best
from sandbox_judge.store.compare import Difference, Refusal, difference
from sandbox_judge.store.tally import Cell, Comparable, Drift, Tally, comparable, drift, facets, tally
from sandbox_judge.store.trend import grouped

_GUARD: Final = re.compile(r"(.+?)\s*(>=|<=)\s*(0|1|0?\.\d+|[01]\.\d*)", re.ASCII)


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm must keep besides: another judge's pass rate within bounds."""

    judge: str
    least: float | None = None
    most: float | None = None

    def holds(self, rate: float | None) -> bool | None:
        if rate is None:
            return None
        return (self.least is None or rate >= self.least) and (self.most is None or rate <= self.most)


def bound(text: str) -> Bound:
    """`JUDGE>=0.9` or `JUDGE<=0.2`. Raises UsageError."""
    match = _GUARD.fullmatch(text.strip())
    if match is None or not 0 <= float(match[3]) <= 1:
        raise UsageError(f"{text[:80]!r} is no guard.", remedy="Write JUDGE>=0.9 or JUDGE<=0.2.")
    value = float(match[3])
    return Bound(judge=match[1], **({"least": value} if match[2] == ">=" else {"most": value}))


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A bound in one arm. `holds` None: there is no evidence, or, by `reason`, none that may be counted."""

    bound: Bound
    tally: Tally
    holds: bool | None
    reason: str = ""


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """`difference` is against the control arm, which has none; `best` the probability that this arm's rate is
    the highest, `credible` the 95 % interval of the same posterior."""

    name: str
    arm_id: str | None
    tally: Tally
    credible: Interval
    best: float
    difference: Difference | None
    drift: tuple[Drift, ...]
    guards: tuple[Kept, ...]


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    set: Comparable
    control: str
    arms: tuple[Arm, ...]

    def shown(self, z: float) -> dict[str, Any]:
        return {
            "comparable": True,
            **msgspec.structs.asdict(self.set),
            "known_contract": self.set.known,
            "control": self.control,
            "arms": [_arm_json(arm, z) for arm in self.arms],
        }


def _arm_json(arm: Arm, z: float) -> dict[str, Any]:
    return {
        "arm": arm.name,
        "arm_id": arm.arm_id,
        **arm.tally.shown(z),
        "credible_interval": arm.credible,
        "probability_best": arm.best,
        "difference": arm.difference.shown() if arm.difference else None,
        "drift": msgspec.to_builtins(arm.drift),
        "guards": [
            {
                "judge": kept.bound.judge,
                "min": kept.bound.least,
                "max": kept.bound.most,
                **kept.tally.shown(z),
                "holds": kept.holds,
                "reason": kept.reason or None,
            }
            for kept in arm.guards
        ],
    }


def arm_name(cell: Cell) -> str:
    """What the host calls the arm, else its id."""
    return cell.series.arm_label or cell.series.arm_id or "(no arm)"


def experiment(
    cells: Sequence[Cell],
    *,
    arms: Sequence[str],
    z: float,
    control: str | None = None,
    definition_hash: str | None = None,
    guards: Mapping[Bound, Sequence[Cell]] | None = None,
) -> Experiment | Refusal:
    """The arms under one judge (whose cells these are). `arms` are those that must have evidence: all that
    the experiment is known to have, under any judge."""
    parts = grouped(cells, arm_name)
    names = sorted({*arms, *parts})
    if len(names) < 2:
        return Refusal(reasons=(f"an experiment has two arms or more, this one has {len(names)}",))
    if control is not None and control not in names:
        return Refusal(reasons=(f"there is no arm {control!r}; the arms are {', '.join(names)}",))
    pinned = {cell.series.definition_hash for cell in cells} if definition_hash is None else {definition_hash}
    matching = {
        name: [cell for cell in parts.get(name, ()) if cell.series.definition_hash in pinned]
        for name in names
    }
    reasons = _reasons(matching, pinned)
    if reasons:
        return Refusal(reasons=reasons)
    return _result(matching, control or names[0], guards or {}, z)


def _reasons(matching: Mapping[str, Sequence[Cell]], pinned: set[str]) -> tuple[str, ...]:
    reasons = []
    if len(pinned) > 1:
        for name, own in matching.items():
            hashes = sorted({cell.series.definition_hash for cell in own})
            reasons.append(f"arm {name} was graded under {', '.join(hashes) or 'no definition'}")
        reasons.append("pin one definition with --definition")
    for name, own in matching.items():
        if not tally(own).decided:
            reasons.append(f"arm {name} has no pass or fail under the pinned judge and definition")
    contracts = sorted({cell.series.contract_version for own in matching.values() for cell in own})
    if len(contracts) > 1:
        reasons.append(f"the evidence is of {len(contracts)} contract versions: {', '.join(contracts)}")
    return tuple(reasons)


def _result(
    matching: Mapping[str, Sequence[Cell]], control: str, guards: Mapping[Bound, Sequence[Cell]], z: float
) -> Experiment:
    tallies = {name: tally(own) for name, own in matching.items()}
    beliefs = {name: beta_posterior(one.passes, one.decided) for name, one in tallies.items()}
    chances = dict(zip(beliefs, chance_of_best(list(beliefs.values())), strict=True))
    there = facets(matching[control])
    result = tuple(
        Arm(
            name=name,
            arm_id=next((cell.series.arm_id for cell in own), None),
            tally=tallies[name],
            credible=beliefs[name].interval(),
            best=chances[name],
            difference=None if name == control else difference(tallies[name], tallies[control], z),
            drift=() if name == control else drift(there, facets(own)),
            guards=tuple(_kept(one, name, theirs) for one, theirs in guards.items()),
        )
        for name, own in matching.items()
    )
    first = next(cell for own in matching.values() for cell in own)
    return Experiment(set=comparable(first.series), control=control, arms=result)


def _kept(one: Bound, arm: str, cells: Sequence[Cell]) -> Kept:
    sets = {comparable(cell.series) for cell in cells}
    if len(sets) > 1:
        # No rate is counted across what may not be compared.
        return Kept(
            bound=one,
            tally=Tally(),
            holds=None,
            reason=f"graded under {len(sets)} definitions or contract versions",
        )
    counted = tally(cell for cell in cells if arm_name(cell) == arm)
    return Kept(bound=one, tally=counted, holds=one.holds(counted.rate))

"""What counts: groups by result, and the figures of `spec/events.md` that follow. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sandbox_judge.figures import Z95, Interval, rate, wilson
from sandbox_judge.store.records import KNOWN_CONTRACTS, Series


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of one series with one outcome: their number, and the time of the first and the last
    (microseconds since 1970). `day` counts days since 1970, where the question was by time."""

    series_id: int
    series: Series
    result: str | None
    error_type: str | None
    n: int
    first: int
    last: int
    day: int = 0


class Comparable(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What must be equal for judgements to be compared."""

    judge_id: str
    definition_hash: str
    contract_version: str

    @property
    def known(self) -> bool:
        """Whether this code knows what a judgement of that contract version means."""
        return self.contract_version in KNOWN_CONTRACTS


def comparable(series: Series) -> Comparable:
    return Comparable(
        judge_id=series.judge_id,
        definition_hash=series.definition_hash,
        contract_version=series.contract_version,
    )


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Groups by what stands in them. A group is one conversation under one judge's definition."""

    passes: int = 0
    fails: int = 0
    not_applicable: int = 0
    nulls: Mapping[str, int] = {}

    @property
    def decided(self) -> int:
        """Passes and fails: what the pass rate is of."""
        return self.passes + self.fails

    @property
    def verdicts(self) -> int:
        return self.decided + self.not_applicable

    @property
    def groups(self) -> int:
        return self.verdicts + sum(self.nulls.values())

    @property
    def rate(self) -> float | None:
        return rate(self.passes, self.decided)

    @property
    def coverage(self) -> float | None:
        """Groups with a verdict / groups."""
        return rate(self.verdicts, self.groups)

    def interval(self, z: float = Z95) -> Interval | None:
        return wilson(self.passes, self.decided, z)

    def shown(self, z: float = Z95) -> dict[str, Any]:
        """The figures as JSON; undefined ones are null."""
        return {
            "pass": self.passes,
            "fail": self.fails,
            "not_applicable": self.not_applicable,
            "nulls": dict(self.nulls),
            "n": self.decided,
            "groups": self.groups,
            "rate": self.rate,
            "interval": self.interval(z),
            "coverage": self.coverage,
        }


def tally(cells: Iterable[Cell]) -> Tally:
    results: Counter[str] = Counter()
    nulls: Counter[str] = Counter()
    for cell in cells:
        if cell.result is None:
            nulls[cell.error_type or "unknown"] += cell.n
        else:
            results[cell.result] += cell.n
    return Tally(
        passes=results["pass"],
        fails=results["fail"],
        not_applicable=results["not_applicable"],
        nulls=dict(sorted(nulls.items())),
    )


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Who answered, and where, as calibration records tell models apart."""

    endpoint: str
    response_model: str | None


def by_model(cells: Iterable[Cell]) -> dict[Model, Tally]:
    """The verdicts of each model that answered."""
    found: dict[Model, list[Cell]] = {}
    for cell in cells:
        if cell.result is not None:
            one = Model(endpoint=cell.series.endpoint or "default", response_model=cell.series.response_model)
            found.setdefault(one, []).append(cell)
    return {one: tally(own) for one, own in found.items()}


# Dimensions whose change within a comparable set is drift: shown, never hidden (`spec/events.md`).
DRIFTING = ("response_model", "endpoint", "output_mode", "dropped", "lane", "sample_rate")


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    field: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def facets(cells: Iterable[Cell]) -> dict[str, tuple[str, ...]]:
    """The values that each drifting dimension has among verdicts; nulls never reached a model."""
    given = [cell.series for cell in cells if cell.result is not None]
    found = {}
    for name in DRIFTING:
        values = {getattr(one, name) for one in given}
        # No dropped parameter is a value ("none"); an absent model name is not.
        words = {"none" if value is None else str(value) for value in values if value or name == "dropped"}
        found[name] = tuple(sorted(words))
    return found


def drift(before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]) -> tuple[Drift, ...]:
    """What changed between two sets of facets; a side without verdicts changes nothing."""
    return tuple(
        Drift(field=name, before=before[name], after=after[name])
        for name in DRIFTING
        if before[name] and after[name] and before[name] != after[name]
    )

"""A judge's pass rate over versions or time, cut into segments of what may be compared. Pure."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeVar

import msgspec

from sandbox_judge.figures import Z95
from sandbox_judge.store.commit_order import CommitOrder, first_seen, in_order
from sandbox_judge.store.tally import (
    Cell,
    Comparable,
    Drift,
    Model,
    Tally,
    by_model,
    comparable,
    drift,
    facets,
    tally,
)

By = Literal["version", "day", "week", "month"]
K = TypeVar("K", bound=Hashable)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One version or span of time. `drift` is what changed against the point before, in the same segment."""

    key: str | None
    tally: Tally
    first: int
    last: int
    facets: dict[str, tuple[str, ...]]
    by_model: Mapping[Model, Tally] = {}
    unknown_commit: bool = False
    drift: tuple[Drift, ...] = ()


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one comparable set in a row. `cosmetic` tells that the definition before it differs only in
    what does not reach the model; with `joined` the two may be read as one, drawn apart."""

    set: Comparable
    grading_hash: str | None
    points: tuple[Point, ...]
    cosmetic: bool = False
    joined: bool = False


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A trend of one environment (and service, when split): sampled and unsampled traffic never mix."""

    environment: str | None
    service: str | None
    segments: tuple[Segment, ...]


def grouped(items: Iterable[Cell], key: Callable[[Cell], K]) -> dict[K, list[Cell]]:
    found: dict[K, list[Cell]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return dict(found)


def trend(
    cells: Sequence[Cell],
    order: CommitOrder,
    *,
    by: By = "version",
    split_services: bool = False,
    join_cosmetic: bool = False,
) -> list[Line]:
    """The lines of one judge's cells, by environment and service name."""

    def line_of(cell: Cell) -> tuple[str, str]:
        return (cell.series.environment or "", cell.series.service or "" if split_services else "")

    return [
        Line(
            environment=environment or None,
            service=service or None,
            segments=_segments(own, order, by, join_cosmetic),
        )
        for (environment, service), own in sorted(grouped(cells, line_of).items())
    ]


def _segments(cells: Sequence[Cell], order: CommitOrder, by: By, join: bool) -> tuple[Segment, ...]:
    parts = grouped(cells, lambda cell: (_key(cell, by), comparable(cell.series)))
    keys = in_order(
        first_seen((_key(cell, by), cell.first) for cell in cells),
        order if by == "version" else CommitOrder(),
    )
    if by != "version":
        keys = sorted(keys, key=lambda key: key or "")
    runs: list[tuple[Comparable, list[tuple[str | None, list[Cell]]]]] = []
    for key in keys:
        here = [(one, own) for (at, one), own in parts.items() if at == key]
        # A version that has two definitions goes on with the one that it came in with, then changes.
        now = runs[-1][0] if runs else None
        for one, own in sorted(here, key=lambda p: (p[0] != now, min(c.first for c in p[1]), p[0])):
            if not runs or runs[-1][0] != one:
                runs.append((one, []))
            runs[-1][1].append((key, own))
    segments: list[Segment] = []
    for one, points in runs:
        segments.append(_segment(one, points, order, segments[-1] if segments else None, join))
    return tuple(segments)


def _segment(
    one: Comparable,
    parts: Sequence[tuple[str | None, list[Cell]]],
    order: CommitOrder,
    before: Segment | None,
    join: bool,
) -> Segment:
    points: list[Point] = []
    for key, own in parts:
        found = facets(own)
        points.append(
            Point(
                key=key,
                tally=tally(own),
                first=min(cell.first for cell in own),
                last=max(cell.last for cell in own),
                facets=found,
                by_model=by_model(own),
                unknown_commit=order.unknown(key),
                drift=drift(points[-1].facets, found) if points else (),
            )
        )
    hashes = {cell.series.grading_hash for _, own in parts for cell in own}
    grading_hash = hashes.pop() if len(hashes) == 1 else None
    cosmetic = (
        before is not None
        and grading_hash is not None
        and before.grading_hash == grading_hash
        and before.set.contract_version == one.contract_version
    )
    return Segment(
        set=one,
        grading_hash=grading_hash,
        points=tuple(points),
        cosmetic=cosmetic,
        joined=cosmetic and join,
    )


def _key(cell: Cell, by: By) -> str | None:
    if by == "version":
        return cell.series.commit
    day = date(1970, 1, 1) + timedelta(days=cell.day)
    if by == "week":
        day -= timedelta(days=day.weekday())
    return f"{day:%Y-%m}" if by == "month" else day.isoformat()


def moment_text(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json(
    lines: Sequence[Line], z: float = Z95, *, more: Callable[[Segment, Point], dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Lines for a program: figures computed, undefined ones null, times in RFC 3339. `more` gives further
    keys of a point."""
    return [
        {
            "environment": line.environment,
            "service": line.service,
            "segments": [_segment_json(segment, z, more) for segment in line.segments],
        }
        for line in lines
    ]


def _segment_json(
    segment: Segment, z: float, more: Callable[[Segment, Point], dict[str, Any]] | None
) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(segment.set),
        "known_contract": segment.set.known,
        "grading_hash": segment.grading_hash,
        "cosmetic_edit": segment.cosmetic,
        "joined": segment.joined,
        "points": [
            {
                "key": point.key,
                **point.tally.shown(z),
                "first": moment_text(point.first),
                "last": moment_text(point.last),
                "unknown_commit": point.unknown_commit,
                "seen": point.facets,
                "drift": msgspec.to_builtins(point.drift),
                **(more(segment, point) if more else {}),
            }
            for point in segment.points
        ],
    }

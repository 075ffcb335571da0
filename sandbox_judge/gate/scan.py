"""Find the first event that meets a gate, in small steps, and set aside what would take too long here.

Gives what `CompiledGate.holds` defines. A step is bounded by text length times pattern size, because the
engine holds the interpreter while it searches; a single search beyond the bound is left to `gate.worker`.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from itertools import compress
from typing import Final

import msgspec

from sandbox_judge.gate.match import Cell, CompiledField, CompiledGate, CompiledMatcher, texts_of
from sandbox_judge.gate.regex import Regex
from sandbox_judge.gate.table import Column, Table
from sandbox_judge.recipe.judge import EventKind

# Characters times weight of one step: at most about 30 ms on hostile input (10 ns a character and position),
# and well under 1 ms on any other.
STEP: Final = 3_000_000.0
_EVENTS_AT_ONCE: Final = 1_000
# What one gate may set aside; a gate of many entries over many events would fill the memory.
_MOST_ASIDE: Final = 200_000

Narrow = Callable[[Sequence[int]], list[int]]
Steps = Generator[None, bool | None, "Scanned"]


class Hit(msgspec.Struct, frozen=True, eq=False):
    """An event, by its place among those of its kind, and the entry of `on` that it meets."""

    matcher: CompiledMatcher
    position: int


class Clause(msgspec.Struct, frozen=True, eq=False):
    """Any of the regexes must occur in any of the texts."""

    regexes: tuple[Regex, ...]
    texts: tuple[str, ...]


class Aside(msgspec.Struct, frozen=True, eq=False):
    """A hit if all clauses hold; everything else about it does."""

    hit: Hit
    clauses: tuple[Clause, ...]


class Scanned(msgspec.Struct, frozen=True, eq=False):
    """`hit`, or what is still to be searched elsewhere; neither: the gate misses. `too_many`: no answer."""

    hit: Hit | None = None
    aside: tuple[Aside, ...] = ()
    too_many: bool = False


class Shared:
    """Answers of fields that several gates ask about: 0 not asked yet, 1 no, 2 yes, an event each."""

    def __init__(self, gates: Sequence[CompiledGate]) -> None:
        asked: set[tuple[EventKind, str]] = set()
        self._known: dict[tuple[EventKind, str], bytearray] = {}
        for gate in gates:
            for key in {(m.event, f.key) for m in gate.matchers for f in m.fields}:
                if key in asked:
                    self._known[key] = bytearray()
                asked.add(key)

    def known(self, kind: EventKind, field: CompiledField, count: int) -> bytearray | None:
        known = self._known.get((kind, field.key))
        if known is not None and len(known) < count:
            known.extend(bytes(count - len(known)))
        return known


def scan(gate: CompiledGate, table: Table, shared: Shared, *, hurried: bool = False) -> Steps:
    """Steps towards the answer; send True to have what is left set aside instead, as from the first with
    `hurried`. Raises GateSyntaxError."""
    aside: list[Aside] = []
    for matcher in gate.matchers:
        count = len(table.events(matcher.event))
        if count and not matcher.fields:
            return Scanned(hit=Hit(matcher, 0))
        columns: list[Column] = []
        for field in matcher.fields:
            columns.append((yield from table.column(matcher.event, field.path)))
        rows = _Rows(matcher, columns, shared)
        start = 0
        while start < count:
            stop = min(count, start + _EVENTS_AT_ONCE) if hurried else rows.step_from(start)
            found = rows.set_aside(range(start, stop), aside) if hurried else rows.search(start, stop, aside)
            if found is not None:
                return Scanned(hit=found)
            if len(aside) > _MOST_ASIDE:
                return Scanned(too_many=True)
            start = stop
            hurried = bool((yield)) or hurried
    return Scanned(aside=tuple(aside))


class _Rows:
    """The events of one kind against one entry of `on`."""

    def __init__(self, matcher: CompiledMatcher, columns: list[Column], shared: Shared) -> None:
        self._matcher = matcher
        self._lines = list(zip(matcher.fields, columns, strict=True))
        self._shared = shared
        self._narrows: dict[str, Narrow] = {}
        self._weight = sum(f.weight for f in matcher.fields)
        self._long = {
            position
            for field, column in self._lines
            if column.largest * field.weight > STEP
            for position, cost in enumerate(column.costs)
            if cost * field.weight > STEP
        }

    def step_from(self, start: int) -> int:
        """Where the step that begins at `start` ends."""
        stop = start + _EVENTS_AT_ONCE
        for field, column in self._lines:
            if field.weight:
                before = column.ends[start - 1] if start else 0
                stop = min(stop, bisect_right(column.ends, before + STEP / self._weight))
            else:
                stop = min(stop, len(column.ends))
        return max(stop, start + 1)

    def search(self, start: int, stop: int, aside: list[Aside]) -> Hit | None:
        """The first hit among short texts; what has a long one goes to `aside`."""
        left: Sequence[int] = range(start, stop)
        if self._long:
            long = [i for i in left if i in self._long]
            found = self.set_aside(long, aside)
            if found is not None:
                return found
            left = [i for i in left if i not in self._long]
        for field, column in self._lines:
            if not left:
                return None
            left = self._narrow(field, column)(left)
        return Hit(self._matcher, left[0]) if left else None

    def set_aside(self, positions: Sequence[int], aside: list[Aside]) -> Hit | None:
        """Decide all but the regexes. A hit where those turn out not to matter."""
        left = positions
        for field, column in self._lines:
            if not field.weight and left:
                left = self._narrow(field, column)(left)
        for position in left:
            clauses = [_clause(f, c.cells[position]) for f, c in self._lines if f.weight]
            hit = Hit(self._matcher, position)
            if all(clause is None for clause in clauses):
                return hit
            needed = tuple(clause for clause in clauses if clause is not None)
            if all(clause.texts for clause in needed):
                aside.append(Aside(hit, needed))
        return None

    def _narrow(self, field: CompiledField, column: Column) -> Narrow:
        narrow = self._narrows.get(field.key)
        if narrow is None:
            known = self._shared.known(self._matcher.event, field, len(column.cells))
            narrow = _narrower(field, column)
            narrow = narrow if known is None else _remembering(narrow, known)
            self._narrows[field.key] = narrow
        return narrow


def _clause(field: CompiledField, cell: Cell) -> Clause | None:
    """What a regex field still asks of `cell`; None where a plain target is met."""
    return None if field.plainly(cell) else Clause(field.regexes, texts_of(cell))


def _narrower(field: CompiledField, column: Column) -> Narrow:
    cells = column.cells
    if len(field.regexes) == 1 and not field.strings and not field.others and column.strings_only:
        # No frame of ours between two searches: most searches are shorter than one.
        search: Callable[[Cell], bool] = field.regexes[0].compiled()  # type: ignore[assignment]
        return lambda positions: list(compress(positions, map(search, map(cells.__getitem__, positions))))
    test = field.test()
    return lambda positions: [i for i in positions if test(cells[i])]


def _remembering(narrow: Narrow, known: bytearray) -> Narrow:
    def remembered(positions: Sequence[int]) -> list[int]:
        new = [i for i in positions if not known[i]]
        if new:
            for i in new:
                known[i] = 1
            for i in narrow(new):
                known[i] = 2
        return [i for i in positions if known[i] == 2]

    return remembered

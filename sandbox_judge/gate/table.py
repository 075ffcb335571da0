"""The events of a conversation by kind and field, read once and shared by all gates."""

from collections.abc import Generator, Iterable
from itertools import accumulate
from typing import Final

from sandbox_judge.gate.match import Cell, Event, cell_of, texts_of
from sandbox_judge.recipe.judge import EventKind

# Work between two looks at the clock, in cells.
_CELLS_AT_ONCE: Final = 1_000
# What a search costs at least, in characters.
_LEAST: Final = 32


class Column:
    """One field of all events of a kind. `costs` are characters to search, more for text beyond ASCII, and
    `ends` their running sums; `strings_only`: each cell is a string or `()`, which is a missing field."""

    __slots__ = ("cells", "costs", "ends", "largest", "strings_only")

    def __init__(self, cells: list[Cell]) -> None:
        self.cells = cells
        self.costs = [_LEAST + sum(_cost(t) for t in texts_of(cell)) for cell in cells]
        self.ends = list(accumulate(self.costs))
        self.largest = max(self.costs, default=0)
        self.strings_only = all(isinstance(cell, str) or not cell for cell in cells)


class Table:
    """All events of a conversation, in order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events: dict[EventKind, list[Event]] = {}
        self._columns: dict[tuple[EventKind, str], Column] = {}
        for event in events:
            self._events.setdefault(event.kind, []).append(event)

    def events(self, kind: EventKind) -> list[Event]:
        return self._events.get(kind, [])

    def column(self, kind: EventKind, path: str) -> Generator[None, object, Column]:
        """The column, made at first use; yields now and then so that the caller can look at the clock."""
        known = self._columns.get((kind, path))
        if known is not None:
            return known
        cells: list[Cell] = []
        for event in self.events(kind):
            cells.append(cell_of(event.values(path)))
            if len(cells) % _CELLS_AT_ONCE == 0:
                yield
        return self._columns.setdefault((kind, path), Column(cells))


def _cost(text: str) -> int:
    return len(text) if text.isascii() else 2 * len(text)

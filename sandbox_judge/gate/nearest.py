"""Why a gate missed: the event that came closest, for `run --explain` (design 6)."""

import json
import time
from typing import Any, Final

from sandbox_judge.gate.match import Cell, CompiledField, CompiledGate, CompiledMatcher
from sandbox_judge.gate.scan import STEP
from sandbox_judge.gate.table import Column, Table
from sandbox_judge.terminal import escaped

_SHOWN: Final = 80


def nearest_miss(gate: CompiledGate, table: Table, *, within_s: float = 0.1) -> str:
    """One line about the entry of `on` and the event of which most fields held, escaped and short.

    Stops looking after `within_s`, with one event seen at least, and does not search long texts again: the
    gate's own answer said that they do not match.
    """
    ends = time.monotonic() + within_s
    best: tuple[int, str] | None = None
    for matcher in gate.matchers:
        events = table.events(matcher.event)
        if not events:
            best = best or (-1, f"the conversation has no {matcher.event} event")
            continue
        lines = [(field, _column(table, matcher, field)) for field in matcher.fields]
        tests = [field.test() for field, _ in lines]
        for position, event in enumerate(events):
            held = [
                column.costs[position] * field.weight <= STEP and test(column.cells[position])
                for (field, column), test in zip(lines, tests, strict=True)
            ]
            if best is None or sum(held) > best[0]:
                failed, column = lines[held.index(False)] if False in held else lines[-1]
                told = _told(failed, column.cells[position], sum(held), len(held))
                best = sum(held), f"{matcher.event} event at entry {event.entry}: {told}"
            if time.monotonic() >= ends:
                return best[1]
    return best[1] if best else "the gate has no entries"


def _column(table: Table, matcher: CompiledMatcher, field: CompiledField) -> Column:
    steps = table.column(matcher.event, field.path)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            column: Column = stop.value
            return column


def _told(field: CompiledField, cell: Cell, held: int, count: int) -> str:
    others = f" ({held} of {count} fields held)" if count > 1 else ""
    path = _short(field.path)
    if not cell and not isinstance(cell, str):
        return f"it has no {path}{others}"
    value = cell if isinstance(cell, str) else cell[0] if len(cell) == 1 else list(cell)
    return f"{path} is {_short(_json(value))}, which does not meet {_short(_wanted(field))}{others}"


def _wanted(field: CompiledField) -> str:
    targets = [str(regex.literal) for regex in field.regexes]
    targets += [_json(target) for target in (*sorted(field.strings), *field.others)]
    return " or ".join(targets) or "an empty list of targets"


def _json(value: Any) -> str:
    if isinstance(value, str):
        value = value[: 2 * _SHOWN]
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):
        return "a value too large to be shown"


def _short(text: str) -> str:
    return escaped(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}...")

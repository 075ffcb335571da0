"""What a gate means, as values: compiled matchers and whether an event meets them (`spec/judge-file.md`).

This is the definition; `gate.scan` finds the same answer fast over many events.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from sandbox_judge.canonical import without_surrogates
from sandbox_judge.gate.language import literal_of
from sandbox_judge.gate.regex import Regex
from sandbox_judge.recipe.judge import EventKind, Matcher


class Event(Protocol):
    """One event that a gate sees (`conversation.events.GateEvent`): `entry` is its number in the
    conversation, `values` what stands at a dotted path: nothing where the field is missing, and after a list
    its elements, any of which may match."""

    @property
    def kind(self) -> EventKind: ...
    @property
    def entry(self) -> int: ...
    def values(self, path: str, /) -> Sequence[Any]: ...


# What a field of an event holds: one string (the common case), or all its values.
Cell = str | tuple[Any, ...]


class CompiledField(msgspec.Struct, frozen=True, eq=False):
    """One line of `match`: the field at `path` must meet any of the targets.

    `key` is equal for equal lines; `weight` is that of all its regexes, 0 without any.
    """

    path: str
    key: str
    regexes: tuple[Regex, ...]
    strings: frozenset[str]
    others: tuple[Any, ...]
    weight: float

    def plainly(self, cell: Cell) -> bool:
        """Whether a target that is no regex is met."""
        if isinstance(cell, str):
            return cell in self.strings
        return any(
            v in self.strings if isinstance(v, str) else any(json_equal(v, o) for o in self.others)
            for v in cell
        )

    def test(self) -> Callable[[Cell], bool]:
        """Whether a cell meets any target, ready for many cells. Raises GateSyntaxError."""
        searches = [regex.compiled() for regex in self.regexes]
        if not searches:
            return self.plainly

        def met(cell: Cell) -> bool:
            return self.plainly(cell) or any(search(t) for t in texts_of(cell) for search in searches)

        return met


class CompiledMatcher(msgspec.Struct, frozen=True, eq=False):
    """One entry of `on`; every field must hold on one event. Cheap fields stand first."""

    event: EventKind
    fields: tuple[CompiledField, ...]

    def holds(self, event: Event) -> bool:
        """Whether `event` meets this entry. Raises GateSyntaxError."""
        return event.kind == self.event and all(f.test()(cell_of(event.values(f.path))) for f in self.fields)


class CompiledGate(msgspec.Struct, frozen=True, eq=False):
    """A gate. No matchers: it always applies. `key` is equal for gates that mean the same."""

    matchers: tuple[CompiledMatcher, ...]
    key: str

    def holds(self, events: Iterable[Event]) -> bool:
        """Whether the gate applies to `events`: the definition. Raises GateSyntaxError."""
        return not self.matchers or any(m.holds(e) for e in events for m in self.matchers)


def compile_gate(on: tuple[Matcher, ...]) -> CompiledGate:
    """The gate of a judge. Raises GateSyntaxError for a literal with wrong flags; a pattern that the engine
    refuses (which no judge file that was read has) raises at first use."""
    matchers = tuple(_compiled_matcher(matcher) for matcher in on)
    return CompiledGate(matchers, _key([[m.event, sorted(f.key for f in m.fields)] for m in matchers]))


def _compiled_matcher(matcher: Matcher) -> CompiledMatcher:
    fields = [_compiled_field(path, target) for path, target in (matcher.match or {}).items()]
    return CompiledMatcher(matcher.event, tuple(sorted(fields, key=lambda f: f.weight)))


def _compiled_field(path: str, target: Any) -> CompiledField:
    regexes, strings, others = [], set(), []
    for element in target if isinstance(target, list | tuple) else [target]:
        if not isinstance(element, str):
            others.append(element)
        elif (literal := literal_of(element)) is not None:
            regexes.append(Regex(literal))
        else:
            strings.add(without_surrogates(element))
    return CompiledField(
        path=path,
        key=_key([path, target]),
        regexes=tuple(regexes),
        strings=frozenset(strings),
        others=tuple(others),
        weight=sum(r.weight for r in regexes),
    )


def _key(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, default=repr)
    except (ValueError, RecursionError):
        # Numbers or nesting beyond what can be written: equal to itself alone.
        return f"unwritable {id(value)}"


def cell_of(values: Sequence[Any]) -> Cell:
    """The values of a field as targets see them, with lone surrogates replaced."""
    if len(values) == 1 and isinstance(values[0], str):
        return without_surrogates(values[0])
    return tuple(without_surrogates(v) if isinstance(v, str) else v for v in values)


def texts_of(cell: Cell) -> tuple[str, ...]:
    """What regexes see of a field: strings, and numbers and booleans as their JSON text."""
    if isinstance(cell, str):
        return (cell,)
    return tuple(text for value in cell if (text := _text_of(value)) is not None)


def _text_of(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        try:
            return json.dumps(value)
        except ValueError:
            return None  # an integer beyond the interpreter's limit of digits
    return None


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: numbers by value (1 is 1.0), true is no number, keys in any order."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            pairs.extend((one[k], other[k]) for k in one)
        elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
            if len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif isinstance(one, bool) or isinstance(other, bool):
            if one is not other:
                return False
        elif one != other:
            return False
    return True

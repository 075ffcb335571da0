"""The complete JSON objects that stand in a text, found in one pass (design, section 7).

Tolerated beyond JSON: raw control characters in strings, and a trailing comma. Nothing else: no single
quotes, comments, bare keys, NaN. Linear in the text: after a fault reading goes on behind it, never before.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 100

# A key as other notations write it: what follows was meant as an object, and is none.
_FOREIGN_KEY: Final = r"\{\s{0,99}(?:'[^'\n]{0,200}'|[^\W\d][\w-]{0,200})\s{0,99}:"
_FOREIGN: Final = re.compile(_FOREIGN_KEY)
# Braces that open nothing, as in code and prose, are passed over without a reader of their own.
_BRACE: Final = re.compile(r'\{(?=[ \t\n\r]*+["}])')
_OPENING: Final = re.compile(rf"\[|{_BRACE.pattern}|{_FOREIGN_KEY}")
_BRACKETS: Final = re.compile(r"[\[\]{}]")
_SPACE: Final = re.compile(r"[ \t\n\r]*+")
# Possessive, so that a string without an end fails in one pass.
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_STRINGS: Final = json.JSONDecoder(strict=False)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_WORD: Final = re.compile(r"true|false|null")
_WORDS: Final = {"true": True, "false": False, "null": None}
# More digits than these are not worth exactness, and Python refuses int() of very many.
_EXACT_DIGITS: Final = 18


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An object at `start:end` of the text. `repeated`: a top-level key stands twice with unlike values."""

    start: int
    end: int
    value: dict[str, Any]
    repeated: bool


def top_level_objects(text: str, start: int = 0, end: int | None = None) -> Iterator[Found]:
    """The complete objects of `text[start:end]` that stand in no array and in no other object.

    What stands inside a broken object is not top-level: a cut or badly escaped reply may quote an answer.
    """
    at, end = start, len(text) if end is None else end
    while (opening := _OPENING.search(text, at, end)) is not None:
        begins = opening.start()
        try:
            container, at = _Reader(text, begins, end).read()
        except _Fault as fault:
            at = _behind(text, begins, end, fault)
            continue
        if isinstance(container.items, dict):
            yield Found(start=begins, end=at, value=container.items, repeated=container.repeated)


def objects_anywhere(text: str, *, effort: int) -> Iterator[dict[str, Any] | None]:
    """Every object of `text` at any depth, in broken surroundings too. None, once, when faults have cost
    more than `effort` characters and reading stops: whoever asks must then assume the worst."""
    at = 0
    while (brace := _BRACE.search(text, at)) is not None:
        begins = brace.start()
        try:
            container, at = _Reader(text, begins, len(text)).read()
        except _Fault as fault:
            # An object may be whole inside one that is not, so that reading goes on right behind the brace.
            effort -= fault.at - begins
            at = begins + 1
            if effort < 0:
                yield None
                return
            continue
        yield from _dicts(container.items)


def canonical(value: Any) -> str:
    """A text that is equal for equal JSON values; 1, 1.0 and 1e0 are equal, 1 and true are not."""
    return json.dumps(value, sort_keys=True)


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _dicts(inner)


def _behind(text: str, begins: int, end: int, fault: "_Fault") -> int:
    """Where reading goes on after the bracket at `begins` turned out to open nothing whole.

    A bracket of prose is passed over. An object that broke (a key had been read, or stands there in another
    notation) is passed over to where its brackets balance, or to the end where they never do.
    """
    depth, at = fault.depth, fault.at
    if not fault.keyed:
        if not _FOREIGN.match(text, begins, end):
            return max(at, begins + 1)
        depth, at = 0, begins
    for bracket in _BRACKETS.finditer(text, at, end):
        depth += 1 if bracket.group() in "[{" else -1
        if depth <= 0:
            return bracket.end()
    return end


class _Fault(Exception):
    """Reading stopped at `at` with `depth` containers open. `keyed`: a key and its colon had been read."""

    def __init__(self, at: int, depth: int, keyed: bool) -> None:
        super().__init__(at)
        self.at = at
        self.depth = depth
        self.keyed = keyed


class _Container:
    __slots__ = ("closes", "items", "key", "repeated")

    def __init__(self, opening: str) -> None:
        self.items: Any = {} if opening == "{" else []
        self.closes = "}" if opening == "{" else "]"
        self.key: str | None = None
        self.repeated = False

    def add(self, value: Any) -> None:
        if self.key is None:
            self.items.append(value)
            return
        if self.key in self.items:
            self.repeated = self.repeated or canonical(self.items[self.key]) != canonical(value)
        self.items[self.key] = value


class _Reader:
    """Reads the one container that starts at `at`, with a stack of its own: depth costs no recursion."""

    def __init__(self, text: str, at: int, end: int) -> None:
        self.text = text
        self.at = at
        self.end = end
        self.stack: list[_Container] = []
        self.keyed = False

    def read(self) -> tuple[_Container, int]:
        """The container and the position behind it. Raises _Fault where it is not whole."""
        self._open()
        while True:
            top = self.stack[-1]
            char = self._char()
            if char != top.closes:
                if top.closes == "}":
                    top.key = self._key()
                    char = self._char()
                if char in ("[", "{"):
                    self._open()
                    continue
                top.add(self._scalar(char))
                if self._comma():
                    continue
            while True:
                closed = self._close()
                if not self.stack:
                    return closed, self.at
                self.stack[-1].add(closed.items)
                if self._comma():
                    break

    def _fault(self) -> _Fault:
        return _Fault(self.at, len(self.stack), self.keyed)

    def _char(self) -> str:
        """The next character behind white space, not yet taken; empty at the end."""
        space = _SPACE.match(self.text, self.at, self.end)
        self.at = space.end() if space else self.at
        return self.text[self.at] if self.at < self.end else ""

    def _open(self) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise self._fault()
        self.stack.append(_Container(self.text[self.at]))
        self.at += 1

    def _close(self) -> _Container:
        if self._char() != self.stack[-1].closes:
            raise self._fault()
        self.at += 1
        return self.stack.pop()

    def _comma(self) -> bool:
        if self._char() != ",":
            return False
        self.at += 1
        return True

    def _key(self) -> str:
        key = self._string()
        if self._char() != ":":
            raise self._fault()
        self.at += 1
        self.keyed = True
        return key

    def _string(self) -> str:
        begins = self.at
        string = _STRING.match(self.text, begins, self.end)
        if string is None:
            raise self._fault()
        self.at = string.end()
        if self.at >= self.end or self.text[self.at] != '"':
            raise self._fault()
        self.at += 1
        return str(_STRINGS.raw_decode(self.text, begins)[0])

    def _scalar(self, char: str) -> Any:
        if char == '"':
            return self._string()
        number = _NUMBER.match(self.text, self.at, self.end)
        word = number or _WORD.match(self.text, self.at, self.end)
        if word is None:
            raise self._fault()
        self.at = word.end()
        return _number(number) if number else _WORDS[word.group()]


def _number(match: re.Match[str]) -> int | float:
    written = match.group()
    if match[1] is None and match[2] is None and len(written) <= _EXACT_DIGITS:
        return int(written)
    value = float(written)
    return int(value) if abs(value) < 10**_EXACT_DIGITS and value.is_integer() else value

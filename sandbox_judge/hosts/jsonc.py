"""JSON and JSONC with positions, and edits of the text by them: comments, order and others' entries stay as
they are. Pure.

No library that is kept up edits JSON with comments in place; a reader that knows where each value stands is
all that it takes. Comments, trailing commas and a byte order mark are taken as hosts take them.
"""

import json
import re
from typing import Any, Final

import msgspec

_DEEPEST: Final = 200
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN: Final = re.compile(r"[-+0-9.eE]+|true|false|null")


class Refused(ValueError):
    """A configuration cannot take our entry; the text says why, and what to do."""


class JsoncError(ValueError):
    """The text is no JSON, and where."""

    def __init__(self, message: str, text: str, at: int) -> None:
        line = text.count("\n", 0, at) + 1
        super().__init__(f"line {line}, column {at - (text.rfind(chr(10), 0, at) + 1) + 1}: {message}")


class Node(msgspec.Struct, kw_only=True, eq=False):
    """A value: `value` for scalars, `names` and `items` for objects (in step), `items` for arrays.
    `text[start:end]` is the value itself; `commas[i]` is where the comma after item i stands."""

    kind: str
    start: int
    end: int = 0
    value: Any = None
    names: list[str] = []
    name_starts: list[int] = []
    items: list["Node"] = []
    commas: list[int] = []

    def get(self, name: str) -> "Node | None":
        """A member of an object: the last of that name, as JSON readers have it."""
        found = [item for key, item in zip(self.names, self.items, strict=True) if key == name]
        return found[-1] if found else None

    def plain(self) -> Any:
        """The value as Python has it."""
        if self.kind == "object":
            return {name: item.plain() for name, item in zip(self.names, self.items, strict=True)}
        return [item.plain() for item in self.items] if self.kind == "array" else self.value


def parse(text: str) -> Node:
    """The document's value. Raises JsoncError."""
    reader = _Reader(text)
    reader.at = 1 if text.startswith("\ufeff") else 0
    reader.skip()
    node = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        raise JsoncError("something stands behind the document", text, reader.at)
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def skip(self) -> None:
        """White space and comments."""
        while True:
            found = _SPACE.match(self.text, self.at)
            assert found is not None, "it matches nothing, too"
            self.at = found.end()
            if self.text.startswith("//", self.at):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text.startswith("/*", self.at):
                end = self.text.find("*/", self.at + 2)
                if end < 0:
                    raise JsoncError("a comment does not end", self.text, self.at)
                self.at = end + 2
            else:
                return

    def value(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise JsoncError("it is nested too deeply", self.text, self.at)
        here = self.text[self.at : self.at + 1]
        if here == "{":
            return self.container("object", "}", depth)
        if here == "[":
            return self.container("array", "]", depth)
        start = self.at
        if here == '"':
            return Node(kind="scalar", start=start, value=self.string(), end=self.at)
        found = _PLAIN.match(self.text, start)
        try:
            value = json.loads(found[0]) if found else None
        except ValueError:
            found = None
        if found is None:
            raise JsoncError("a value is missing or is none of JSON's", self.text, start)
        self.at = found.end()
        return Node(kind="scalar", start=start, value=value, end=self.at)

    def string(self) -> str:
        found = _STRING.match(self.text, self.at)
        try:
            value = json.loads(found[0]) if found else None
        except ValueError:
            value = None
        if found is None or not isinstance(value, str):
            raise JsoncError("a string is not well formed", self.text, self.at)
        self.at = found.end()
        return value

    def container(self, kind: str, close: str, depth: int) -> Node:
        node = Node(kind=kind, start=self.at, names=[], name_starts=[], items=[], commas=[])
        self.at += 1
        self.skip()
        while not self.text.startswith(close, self.at):
            if len(node.commas) < len(node.items):
                raise JsoncError("a comma is missing", self.text, self.at)
            if kind == "object":
                node.name_starts.append(self.at)
                node.names.append(self.string())
                self.skip()
                if not self.text.startswith(":", self.at):
                    raise JsoncError("a colon is missing", self.text, self.at)
                self.at += 1
                self.skip()
            node.items.append(self.value(depth + 1))
            self.skip()
            if self.text.startswith(",", self.at):
                node.commas.append(self.at)
                self.at += 1
                self.skip()
        self.at += 1
        node.end = self.at
        return node


def with_item(text: str, parent: Node, value: Any, *, name: str | None = None) -> str:
    """The text with one more item at the end of a container; in an object under `name`."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit, outer = _unit(text), _indent(text, parent.start)
    last = parent.items[-1] if parent.items else None
    one_line = last is not None and "\n" not in text[parent.start : parent.end]
    label = "" if name is None else json.dumps(name, ensure_ascii=False) + ": "
    if one_line:
        assert last is not None, "only a container with items is one line"
        comma = ", " if len(parent.commas) < len(parent.items) else " "
        at = last.end if comma == ", " else parent.commas[-1] + 1
        return text[:at] + comma + label + json.dumps(value, ensure_ascii=False) + text[at:]
    inner = _indent(text, _item_start(parent, 0)) if last is not None else outer + unit
    shown = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + inner)
    added = (newline + inner + label + shown).replace("\r\n", "\n").replace("\n", newline)
    if last is None:
        close = parent.end - 1
        before = text[:close].rstrip()
        return before + added + newline + outer + text[close:]
    # Behind the comments that follow the last item, for they belong to it.
    tail = len(text[: parent.end - 1].rstrip())
    if len(parent.commas) == len(parent.items):
        return text[:tail] + added + text[tail:]
    return text[: last.end] + "," + text[last.end : tail] + added + text[tail:]


def without_item(text: str, parent: Node, index: int) -> str:
    """The text without one item of a container, its comma and the line that they leave empty."""
    start, end = _item_start(parent, index), parent.items[index].end
    if index < len(parent.commas):
        text = text[: parent.commas[index]] + text[parent.commas[index] + 1 :]
    elif index > 0:
        comma = parent.commas[index - 1]
        text = text[:comma] + text[comma + 1 :]
        start, end = start - 1, end - 1
    before, after = text[:start], text[end:]
    line_start = before.rstrip(" \t")
    rest = after.lstrip(" \t")
    if line_start.endswith("\n") and rest[:1] in ("\n", "\r"):
        return line_start[:-1].removesuffix("\r") + rest
    return before + after


def _item_start(parent: Node, index: int) -> int:
    return parent.name_starts[index] if parent.kind == "object" else parent.items[index].start


def _indent(text: str, at: int) -> str:
    """The white space at the start of the line in which `at` stands."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """How the document indents: by its first indented line."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "

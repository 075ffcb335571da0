"""A YAML file as a tree of positioned nodes, and as JSON built-ins. Values only; `yaml_core` makes them."""

from typing import Any, Final

import msgspec


class YamlError(ValueError):
    """Text that is not the YAML (or JSON) that we read. `line` and `column` count from 1, in characters."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is read: `size` in bytes; `nodes` counts what aliases stand for, so that a bomb ends early."""

    size: int = 1 << 20
    nodes: int = 50_000
    depth: int = 64
    aliases: int = 64


DEFAULT_BOUNDS: Final = Bounds()


class Unresolved(msgspec.Struct, frozen=True):
    """The value of a scalar that has none; a fault says why."""


UNRESOLVED: Final = Unresolved()


class Scalar(msgspec.Struct, frozen=True, gc=False):
    """`tag` is the name of a core tag, `!`, or None where none was written."""

    text: str
    value: Any
    plain: bool
    tag: str | None
    line: int
    column: int


class SequenceNode(msgspec.Struct, frozen=True):
    items: "list[Node]"
    line: int
    column: int


class MappingNode(msgspec.Struct, frozen=True):
    """Key and value nodes by the key's text, in order; of a key in `repeated` the first. What is no key, as a
    fault says, is left out."""

    pairs: "dict[str, tuple[Scalar, Node]]"
    line: int
    column: int
    repeated: list[str] = []

    def get(self, name: str) -> "Node | None":
        pair = self.pairs.get(name)
        return None if pair is None else pair[1]


Node = Scalar | SequenceNode | MappingNode


class Fault(msgspec.Struct, frozen=True):
    message: str
    line: int
    column: int


class Document(msgspec.Struct, frozen=True):
    """A file's tree and what is wrong with it; `root` is None for an empty document.

    Where a fault ended the reading, `root` holds what was whole before it.
    """

    root: Node | None
    faults: tuple[Fault, ...] = ()
    ended_early: bool = False


def value_of(node: Node | None) -> Any:
    """A node as JSON built-ins: dicts, lists and what the resolver gave."""
    if node is None:
        return None
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, SequenceNode):
        return [value_of(item) for item in node.items]
    return {name: value_of(value) for name, (_, value) in node.pairs.items()}

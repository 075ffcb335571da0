"""Strict YAML with positions, for what people write: judge files, settings, frontmatter.

The only module that imports PyYAML, and of it only the event parser (the C one where it is built): the tree
and the values are made here. One document, UTF-8, no duplicate keys, no merge keys, no tags beyond the core
ones, and no alias, depth or size that could make a small file cost much.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import msgspec
import yaml

from sandbox_judge.yaml_scalars import is_recipe_null, resolve_core, resolve_recipe
from sandbox_judge.yaml_strict import (
    LINE_BREAK,
    check_anchor,
    check_end,
    check_gap,
    check_scalar,
    text_of,
    with_joined_escapes,
)
from sandbox_judge.yaml_tree import (
    DEFAULT_BOUNDS,
    UNRESOLVED,
    Bounds,
    Document,
    Fault,
    MappingNode,
    Node,
    Scalar,
    SequenceNode,
    YamlError,
    value_of,
)

__all__ = ["Bounds", "YamlError", "load_plain", "read_document"]

_EventLoader: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
Resolver = Callable[[str, bool, str | None], Any]


class _Frame(msgspec.Struct):
    """A collection that is being read. `started` is the node count before it, `deepest` its lowest level."""

    node: SequenceNode | MappingNode
    anchor: str | None
    started: int
    deepest: int
    in_flow: bool
    key: Scalar | None = None
    key_is_sound: bool = True


class _Anchored(msgspec.Struct, frozen=True):
    """What an alias stands for, and what it costs. `node` is None while it is still open."""

    node: Node | None
    nodes: int = 0
    levels: int = 0


# Each costs one more reading.
_MAX_REWRITES: Final = 50
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
# Not printable by YAML 1.2 (5.1), and four that are refused although printable: U+0085, U+2028 and U+2029
# break lines for YAML 1.1 only, and a byte order mark is none inside a file.
_FORBIDDEN: Final = re.compile(
    # Four classes, not one: Python takes ten milliseconds to compile a scattered class of wide characters.
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|[\u2028\u2029]|\ufeff|[\ufffe\uffff]"
)
_CORE_TAGS: Final = {
    "!": "!",
    **{f"tag:yaml.org,2002:{name}": name for name in ("str", "null", "bool", "int", "float", "seq", "map")},
}
_UNKNOWN_TAG: Final = "unknown"


def _position(text: str, index: int) -> tuple[int, int]:
    line, start = 1, 0
    for found in LINE_BREAK.finditer(text, 0, index):
        line, start = line + 1, found.end()
    return line, index - start + 1


def _decoded(data: bytes, bounds: Bounds) -> str:
    """The text of `data` without a leading byte order mark. Raises YamlError."""
    if len(data) > bounds.size:
        raise YamlError(f"the file has {len(data):,} bytes; at most {bounds.size:,} are read", 1, 1)
    if data.startswith(_UTF16):
        raise YamlError("the file is UTF-16: save it as UTF-8", 1, 1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise YamlError(
            f"byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8",
            *_position(before, len(before)),
        ) from error
    text = text.removeprefix("\ufeff")
    found = _FORBIDDEN.search(text)
    if found:
        raise YamlError(
            f"the character U+{ord(found.group()):04X} may not stand here as such: remove it, or write it "
            "as an escape in double quotes",
            *_position(text, found.start()),
        )
    return text


def _is_tab(text: str, mark: Any) -> bool:
    return mark is not None and text[mark.index : mark.index + 1] == "\t"


class _Composer:
    """One reading of one text: events in, a tree and faults out."""

    def __init__(self, resolver: Resolver, bounds: Bounds) -> None:
        self.text = ""
        # How far the nodes so far reach: what lies between two of them is looked at too.
        self.read_to = 0
        # Where a quoted text starts that has an escape which libyaml does not take.
        self.bad_escape: int | None = None
        self.resolver = resolver
        self.bounds = bounds
        self.faults: list[Fault] = []
        self.frames: list[_Frame] = []
        self.anchors: dict[str, _Anchored] = {}
        self.root: Node | None = None
        self.documents = 0
        self.nodes = 0
        self.aliases = 0
        self.handlers: Mapping[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self.scalar,
            yaml.SequenceStartEvent: self.open,
            yaml.MappingStartEvent: self.open,
            yaml.SequenceEndEvent: self.close,
            yaml.MappingEndEvent: self.close,
            yaml.AliasEvent: self.alias,
            yaml.DocumentStartEvent: self.document,
        }

    def run(self, text: str) -> bool:
        """Read all of `text`; whether it was whole. Faults are collected."""
        self.text = text
        parser = _EventLoader(text)
        handlers = self.handlers
        try:
            while True:
                event = parser.get_event()
                if type(event) is yaml.StreamEndEvent:
                    return True
                handler = handlers.get(type(event))
                if handler is not None:
                    handler(event)
        except YamlError as error:
            self.fault(error.message, error.line, error.column)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = ", ".join(part for part in (error.context, error.problem) if part)
            if "cannot start any token" in what and _is_tab(text, mark):
                what = "a tab may not indent: use spaces"
            if "Unicode character escape" in what and error.context_mark is not None:
                self.bad_escape = error.context_mark.index
            self.fault(what, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)
        except yaml.YAMLError as error:
            self.fault(str(error).splitlines()[0], 1, 1)
        finally:
            parser.dispose()
        return False

    def fault(self, message: str, line: int, column: int) -> None:
        self.faults.append(Fault(message, line, column))

    def fail(self, message: str, event: Any) -> NoReturn:
        raise YamlError(message, event.start_mark.line + 1, event.start_mark.column + 1)

    def document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self.fail("a second document starts here: a file holds one", event)

    def counted(self, event: Any, nodes: int = 1) -> None:
        self.nodes += nodes
        if self.nodes > self.bounds.nodes:
            self.fail(
                f"more than {self.bounds.nodes:,} values (an alias counts as what it stands for)", event
            )
        in_flow = bool(self.frames) and self.frames[-1].in_flow
        if in_flow:
            check_gap(self.text, self.read_to, event.start_mark)
        if event.anchor is not None:
            check_anchor(self.text, event, in_flow)
        self.read_to = event.end_mark.index

    def tag(self, event: Any, allowed: tuple[str, ...]) -> str | None:
        if event.tag is None:
            return None
        name = _CORE_TAGS.get(event.tag)
        if name not in allowed:
            mark = event.start_mark
            self.fault(f"the tag {event.tag!r} is not known here", mark.line + 1, mark.column + 1)
            return _UNKNOWN_TAG
        return name

    def scalar(self, event: Any) -> None:
        self.counted(event)
        mark = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        text, plain = text_of(event), not event.style
        tag = None if event.tag is None else self.tag(event, ("!", "str", "null", "bool", "int", "float"))
        value: Any = text
        frame = self.frames[-1] if self.frames else None
        if not plain or text == "-":
            check_scalar(
                self.text,
                event,
                frame.node.column if frame else 0,
                is_value=frame is not None and frame.key is not None,
                in_flow=frame is not None and frame.in_flow,
            )
        if frame is None or frame.key is not None or type(frame.node) is SequenceNode:
            value = UNRESOLVED if tag is _UNKNOWN_TAG else self.resolved(text, plain, tag, line, column)
        self.placed(Scalar(text, value, plain, tag, line, column), event.anchor)

    def resolved(self, text: str, plain: bool, tag: str | None, line: int, column: int) -> Any:
        try:
            return self.resolver(text, plain, tag)
        except ValueError as error:
            self.fault(str(error), line, column)
            return UNRESOLVED

    def open(self, event: Any) -> None:
        self.counted(event)
        if len(self.frames) >= self.bounds.depth:
            self.fail(f"nested deeper than {self.bounds.depth} levels", event)
        if self.text[self.read_to - 1 : self.read_to] == "?":
            self.read_to -= 1  # the mapping of one pair that `[? a]` stands for
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        node: SequenceNode | MappingNode
        if type(event) is yaml.SequenceStartEvent:
            self.tag(event, ("!", "seq"))
            node = SequenceNode([], line, column)
        else:
            self.tag(event, ("!", "map"))
            node = MappingNode({}, line, column)
        parent = self.frames[-1] if self.frames else None
        if parent is not None and parent.key is None and type(parent.node) is MappingNode:
            self.fail("a key must be a single word or a quoted text, not a list or a mapping", event)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(None)
        if not self.frames:
            self.root = node
        in_flow = bool(event.flow_style)
        self.frames.append(_Frame(node, event.anchor, self.nodes, len(self.frames) + 1, in_flow))

    def close(self, event: Any) -> None:
        frame = self.frames.pop()
        if frame.in_flow:
            check_gap(self.text, self.read_to, event.start_mark)
            check_end(self.text, event.end_mark)
            self.read_to = event.end_mark.index
        if frame.anchor is not None:
            levels = frame.deepest - len(self.frames)
            self.anchors[frame.anchor] = _Anchored(frame.node, self.nodes - frame.started + 1, levels)
        if self.frames:
            self.frames[-1].deepest = max(self.frames[-1].deepest, frame.deepest)
            self.placed(frame.node, None)

    def alias(self, event: Any) -> None:
        self.aliases += 1
        target = self.anchors.get(event.anchor)
        if target is None:
            self.fail(f"the alias *{event.anchor} refers to nothing before it", event)
        if target.node is None:
            self.fail(f"the alias *{event.anchor} stands inside what it refers to", event)
        if self.aliases > self.bounds.aliases:
            self.fail(f"more than {self.bounds.aliases} aliases", event)
        self.counted(event, target.nodes)
        frame = self.frames[-1]
        frame.deepest = max(frame.deepest, len(self.frames) + target.levels)
        if frame.deepest > self.bounds.depth:
            self.fail(f"nested deeper than {self.bounds.depth} levels", event)
        node = target.node
        if frame.key is None and type(frame.node) is MappingNode:
            if not isinstance(node, Scalar):
                self.fail("a key must be a single word or a quoted text, not a list or a mapping", event)
            mark = event.start_mark
            node = Scalar(node.text, node.text, node.plain, node.tag, mark.line + 1, mark.column + 1)
        self.placed(node, None)

    def placed(self, node: Node, anchor: str | None) -> None:
        """Put a whole node where it belongs."""
        if anchor is not None:
            self.anchors[anchor] = _Anchored(node, 1, 0)
        if not self.frames:
            self.root = node
            return
        frame = self.frames[-1]
        if isinstance(frame.node, SequenceNode):
            frame.node.items.append(node)
        elif frame.key is None:
            assert isinstance(node, Scalar)
            frame.key = node
            frame.key_is_sound = self.key(frame.node, node)
        else:
            if frame.key_is_sound:
                frame.node.pairs[frame.key.text] = (frame.key, node)
            frame.key = None

    def key(self, mapping: MappingNode, key: Scalar) -> bool:
        """Whether `key` may be one. One that may not is left out, and the reading goes on for the others."""
        first = mapping.pairs.get(key.text)
        if first is not None:
            line = first[0].line
            self.fault(f"the key {key.text!r} stands twice (first in line {line})", key.line, key.column)
            mapping.repeated.append(key.text)
        elif key.text == "<<" and key.plain and key.tag is None:
            self.fault("merge keys are not read: write the values out", key.line, key.column)
        elif key.tag in ("null", "bool", "int", "float") or (
            key.plain and key.tag is None and is_recipe_null(key.text)
        ):
            self.fault("a key must be text: put it in quotes", key.line, key.column)
        else:
            return True
        return False


def read_document(
    data: bytes, *, resolver: Resolver = resolve_recipe, bounds: Bounds = DEFAULT_BOUNDS
) -> Document:
    """The tree of one YAML document, with every fault of it. Never raises for what `data` holds."""
    try:
        text = _decoded(data, bounds)
    except YamlError as error:
        return Document(None, (Fault(error.message, error.line, error.column),), ended_early=True)
    for _ in range(_MAX_REWRITES):
        composer = _Composer(resolver, bounds)
        whole = composer.run(text)
        if composer.bad_escape is None:
            break
        rewritten = with_joined_escapes(text, composer.bad_escape)
        if rewritten == text:
            break
        text = rewritten
    return Document(composer.root, tuple(composer.faults), ended_early=not whole)


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key stands twice")
    return out


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def _json_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def load_plain(data: bytes, *, bounds: Bounds = DEFAULT_BOUNDS) -> Any:
    """JSON or YAML 1.2 (core schema) as JSON built-ins, strictly. Raises YamlError with the position."""
    text = _decoded(data, bounds)
    looks_json = text.lstrip(" \t\r\n")[:1] in ("{", "[")
    json_error: json.JSONDecodeError | None = None
    if looks_json:
        try:
            return json.loads(
                text, object_pairs_hook=_json_object, parse_constant=_no_number, parse_float=_json_float
            )
        except json.JSONDecodeError as error:
            json_error = error
        except (ValueError, RecursionError):
            pass  # told by the reading below, which knows the position
    document = read_document(data, resolver=resolve_core, bounds=bounds)
    if not document.faults:
        return value_of(document.root)
    if json_error is not None:
        raise YamlError(json_error.msg, json_error.lineno, json_error.colno) from json_error
    fault = min(document.faults, key=lambda f: (f.line, f.column))
    raise YamlError(fault.message, fault.line, fault.column)

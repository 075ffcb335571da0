"""What a gate sees (`spec/conversation.md`, gate events; `spec/judge-file.md`, fields). Lazy and pure.

A `message` event for each message, one `tool` event for each call with its result joined, `feedback` events.
An orphan result is a tool event without `args`. A tool result is never a message event.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from sandbox_judge.conversation.model import Conversation, Feedback, Message, Part, Text, ToolCall, ToolResult
from sandbox_judge.recipe.judge import EventKind

_MESSAGE: Final = frozenset({"role", "name"})
_FEEDBACK: Final = frozenset({"name", "sentiment", "value", "comments", "user_id", "agent_name"})


class GateEvent:
    """One event. `entry` is the number of the message, the call, the orphan result or the feedback."""

    __slots__ = ("_results", "_source", "_text", "entry", "kind")

    def __init__(
        self,
        kind: EventKind,
        source: Message | ToolCall | ToolResult | Feedback,
        results: Sequence[ToolResult] = (),
    ) -> None:
        self.kind: EventKind = kind
        self.entry = source.n
        self._source = source
        self._results = results
        self._text: list[Any] | None = None

    def values(self, path: str) -> list[Any]:
        """The JSON values of the field `path`: several where it is a list (any may match), none where it is
        missing. Objects are given as they are."""
        head, _, rest = path.partition(".")
        source = self._source
        if head == "text" and not rest and not isinstance(source, Feedback):
            if self._text is None:
                self._text = self._joined()
            return self._text
        if isinstance(source, Message):
            if head == "parts":
                return _walk([_plain(part) for part in source.parts], rest)
            return _field(source, head, rest) if head in _MESSAGE else []
        if isinstance(source, Feedback):
            if head == "properties":
                return [] if source.properties is None else _walk(source.properties, rest)
            if head not in _FEEDBACK or getattr(source, head) is None:
                return []
            return _walk(getattr(source, head), rest)
        return self._tool(source, head, rest)

    def _tool(self, source: ToolCall | ToolResult, head: str, rest: str) -> list[Any]:
        if head == "status":
            return [] if rest else [self._status()]
        if head == "id":
            return _field(source, "id", rest)
        if isinstance(source, ToolResult):
            return []
        if head == "name":
            return _field(source, "name", rest)
        if head != "args":
            return []
        if source.args is None:
            return [source.args_text] if source.args_text is not None and not rest else []
        return _walk(source.args, rest)

    def _status(self) -> str:
        if not self._results:
            return "missing"
        return "error" if any(result.status == "error" for result in self._results) else "ok"

    def _joined(self) -> list[Any]:
        """All text parts joined by newlines, as one value; none where there is no text part."""
        holders = [self._source] if isinstance(self._source, Message) else self._results
        texts = [
            part.text
            for holder in cast("Sequence[Message | ToolResult]", holders)
            for part in holder.parts
            if isinstance(part, Text)
        ]
        return ["\n".join(texts)] if texts else []

    def __repr__(self) -> str:
        return f"GateEvent({self.kind}, entry {self.entry})"


def gate_events(conversation: Conversation) -> Iterator[GateEvent]:
    """The events of `conversation`, in the order of its entries."""
    results: dict[int, list[ToolResult]] = {}
    for entry in conversation.entries:
        if isinstance(entry, ToolResult) and entry.call is not None:
            results.setdefault(entry.call, []).append(entry)
    for entry in conversation.entries:
        if isinstance(entry, Message):
            yield GateEvent("message", entry)
        elif isinstance(entry, ToolCall):
            yield GateEvent("tool", entry, results.get(entry.n, ()))
        elif isinstance(entry, Feedback):
            yield GateEvent("feedback", entry)
        elif entry.call is None:
            yield GateEvent("tool", entry, (entry,))


def _plain(part: Part) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.to_builtins(part))


def _field(source: Any, name: str, rest: str) -> list[Any]:
    value = getattr(source, name)
    return [] if value is None or rest else [value]


def _walk(value: Any, path: str) -> list[Any]:
    """The values at `path` in a JSON value. A key that itself has dots is found too; a list stands for its
    elements, and a number in the path names one of them."""
    if not path:
        if not isinstance(value, list):
            return [value]
        return [leaf for item in value for leaf in _walk(item, "")]
    head, _, rest = path.partition(".")
    found: list[Any] = []
    if isinstance(value, dict):
        if head in value:
            found.extend(_walk(value[head], rest))
        if rest and path in value:
            found.extend(_walk(value[path], ""))
        elif rest:
            found.extend(_dotted(value, path))
    elif isinstance(value, list):
        if head.isascii() and head.isdecimal() and len(head) < 10 and int(head) < len(value):
            found.extend(_walk(value[int(head)], rest))
        for item in value:
            if isinstance(item, dict | list):
                found.extend(_walk(item, path))
    return found


def _dotted(value: dict[str, Any], path: str) -> list[Any]:
    """What stands under keys of two or more segments (`{"a.b": {"c": 1}}` at `a.b.c`)."""
    segments = path.split(".")
    found: list[Any] = []
    for split in range(2, len(segments)):
        key = ".".join(segments[:split])
        if key in value:
            found.extend(_walk(value[key], ".".join(segments[split:])))
    return found

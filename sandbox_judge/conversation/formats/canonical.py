"""The canonical form itself: what `view -o json` prints and a calibration row holds reads back unchanged."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sandbox_judge.conversation.document import Document, too_deep
from sandbox_judge.conversation.model import Conversation, Entry, Feedback, ToolCall, ToolResult
from sandbox_judge.errors import InputError

NAME: Final = "canonical"
_PREFIX: Final = "sandbox_judge.conversation/"


def recognise(document: Document) -> bool:
    return bool(document.values) and all(_is_one(value) for value in _candidates(document))


def read(document: Document) -> Iterator[Conversation]:
    for index, value in enumerate(_candidates(document)):
        try:
            conversation = msgspec.convert(_bare(value), Conversation)
        except msgspec.ValidationError as fault:
            raise InputError(
                f"The canonical conversation is not valid: {fault}.",
                where=document.place(index) if document.many else "",
                remedy="Give it as `sandbox-judge view -o json` prints it.",
            ) from fault
        yield _checked(conversation)


def _candidates(document: Document) -> list[Any]:
    if not document.many and isinstance(document.values[0], list):
        return document.values[0] or [None]
    return list(document.values)


def _bare(value: Any) -> Any:
    """The conversation in a `view -o json` document or a calibration row, or `value` itself."""
    inner = value.get("conversation") if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) and "schema" not in value else value


def _is_one(value: Any) -> bool:
    bare = _bare(value)
    schema = bare.get("schema") if isinstance(bare, dict) else None
    return isinstance(schema, str) and schema.startswith(_PREFIX)


def _checked(conversation: Conversation) -> Conversation:
    """Raises InputError unless entries are numbered in order and results name earlier calls."""
    for n, entry in enumerate(conversation.entries, 1):
        if any(too_deep(value) for value in _kept(entry)):
            raise InputError(f"Entry {n} of the canonical conversation is nested too deeply.")
        if entry.n != n:
            raise InputError(
                f"Entry {n} of the canonical conversation is numbered {entry.n}.",
                remedy="Entries are numbered from 1 in order.",
            )
        if isinstance(entry, ToolResult) and entry.call is not None:
            call = conversation.entries[entry.call - 1] if 0 < entry.call < n else None
            if not isinstance(call, ToolCall):
                raise InputError(f"Entry {n} answers entry {entry.call}, which is no earlier tool call.")
    return conversation


def _kept(entry: Entry) -> list[Any]:
    """The values of an entry that may be any JSON."""
    if isinstance(entry, ToolCall):
        return [entry.args]
    return [entry.value, *(entry.properties or {}).values()] if isinstance(entry, Feedback) else []

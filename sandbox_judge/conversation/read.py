"""A conversation out of whatever a host handed over: bytes, text, or a Python value (design, section 3)."""

from typing import Any, Final

import msgspec

from sandbox_judge.conversation.detect import adapter_named, adapter_of, archive_of
from sandbox_judge.conversation.document import Document, document_of, read_document
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.errors import InputError

_IDS_SHOWN: Final = 20


def read_conversations(
    data: bytes | Document | Any, *, partial_last: bool = False, format: str | None = None
) -> list[Conversation]:
    """Every conversation in `data` (bytes, a document that was read already, or a Python value), in order.

    `partial_last`: a last line that was cut off is set aside with a warning instead of being an error.
    `format` names the format where detection is not wanted. Raises InputError.
    """
    document = data if isinstance(data, Document) else opened(data, partial_last=partial_last)
    adapter = adapter_of(document) if format is None else adapter_named(format, document)
    try:
        found = list(adapter.read(document))
    except RecursionError:
        raise InputError("The conversation is nested too deeply to be read.") from None
    if not found:
        raise InputError("There is no conversation in the input.", remedy="Give at least one message.")
    if document.warnings:
        found = [msgspec.structs.replace(c, warnings=(*document.warnings, *c.warnings)) for c in found]
    return found


def read_conversation(
    data: bytes | Any, *, id: str | None = None, partial_last: bool = False
) -> Conversation:
    """The one conversation in `data`, or the one that `id` names (`#3`: by position, from 1).

    Raises InputError, which lists the ids where there are several and none was named.
    """
    found = read_conversations(data, partial_last=partial_last)
    if id is not None:
        return chosen(found, id)
    if len(found) == 1:
        return found[0]
    raise InputError(
        f"The input holds {len(found)} conversations: {ids(found)}.",
        remedy="Choose one with --id ID, or run all with --all.",
    )


def chosen(found: list[Conversation], id: str) -> Conversation:
    """The conversation that `id` names. Raises InputError."""
    named = [conversation for conversation in found if conversation.id == id]
    if len(named) == 1:
        return named[0]
    if named:
        raise InputError(
            f"{len(named)} conversations have the id {id!r}.",
            remedy="Choose by position: --id '#1' is the first.",
        )
    if id.startswith("#") and id[1:].isdecimal() and id.isascii() and 0 < int(id[1:7]) <= len(found):
        return found[int(id[1:7]) - 1]
    raise InputError(f"No conversation has the id {id!r}; there are: {ids(found)}.")


def ids(found: list[Conversation]) -> str:
    """The ids of conversations for a message; one without an id by its position."""
    names = [c.id if c.id is not None else f"#{n}" for n, c in enumerate(found[:_IDS_SHOWN], 1)]
    more = f" and {len(found) - _IDS_SHOWN} more" if len(found) > _IDS_SHOWN else ""
    return ", ".join(names) + more


def opened(data: Any, *, partial_last: bool = False) -> Document:
    """The document in `data`: bytes (an archive's too), or a Python value. Raises InputError."""
    if isinstance(data, bytes | bytearray | memoryview):
        raw = bytes(data)
        archive = archive_of(raw)
        return archive.unpack(raw) if archive is not None else read_document(raw, partial_last=partial_last)
    return document_of(data)

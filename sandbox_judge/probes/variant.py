"""One changed version of something whose verdict is known, and the words for what was changed. Pure."""

from collections.abc import Callable
from typing import Final

import msgspec

from sandbox_judge.conversation.model import Conversation, Message, Part, Text
from sandbox_judge.grading.instruments import Instrument

PROBES: Final = ("length", "order", "surface", "injection", "familiarity", "pairs")


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked instead. `changed` is for a person who checks the probe; None: as it was."""

    probe: str
    name: str
    changed: str
    conversation: Conversation | None = None
    instructions: str | None = None
    instrument: Instrument | None = None


def with_assistant_text(
    conversation: Conversation, change: Callable[[str], str], *, last_only: bool = False
) -> tuple[Conversation, int] | None:
    """The conversation with every text of the assistant changed (or those of its last turn that says
    something), and how many turns that were; None where nothing changes."""
    spoken = [
        at
        for at, entry in enumerate(conversation.entries)
        if isinstance(entry, Message) and entry.role == "assistant" and _says(entry)
    ]
    entries = list(conversation.entries)
    turns = 0
    for at in spoken[-1:] if last_only else spoken:
        entry = entries[at]
        assert isinstance(entry, Message), "only messages were chosen"
        parts = tuple(_changed(part, change) for part in entry.parts)
        if parts != entry.parts:
            entries[at] = msgspec.structs.replace(entry, parts=parts)
            turns += 1
    if not turns:
        return None
    return msgspec.structs.replace(conversation, entries=tuple(entries)), turns


def _says(entry: Message) -> bool:
    return any(isinstance(part, Text) and part.text.strip() for part in entry.parts)


def _changed(part: Part, change: Callable[[str], str]) -> Part:
    if not isinstance(part, Text) or not part.text.strip():
        return part
    new = change(part.text)
    # A turn of nothing would be another conversation, not another style.
    return part if not new.strip() or new == part.text else Text(text=new)

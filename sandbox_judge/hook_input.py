"""The hook input, read: bytes or a Python value into conversations with what the platform says about them.

Pure. The conversation's own words are the adapters' business, the envelope's keys `envelope.py`'s; here the
two are put together: ids and where they came from, the status, and feedback in its place.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from sandbox_judge.canonical import canonical_json, sha256
from sandbox_judge.conversation.builder import ConversationBuilder, status_of
from sandbox_judge.conversation.document import json_document
from sandbox_judge.conversation.feedback import with_feedback
from sandbox_judge.conversation.model import Conversation, Warning_
from sandbox_judge.conversation.read import chosen, ids, opened, read_conversations
from sandbox_judge.envelope import Envelope, HookInput, hook_input_of, is_envelope, supplied
from sandbox_judge.errors import InputError

IdSource = Literal["given", "format", "input_hash"]


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation that is to be graded, with its id and what is known about it."""

    conversation: Conversation
    conversation_id: str
    id_source: IdSource
    envelope: Envelope


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """All that one hook input holds. `conversations` have what they say themselves, nothing added yet."""

    conversations: tuple[Conversation, ...]
    envelope: Envelope
    digest: str
    warnings: tuple[str, ...] = ()
    unknown_keys: tuple[str, ...] = ()

    def subjects(self, *, id: str | None = None, every: bool = False) -> tuple[Subject, ...]:
        """The conversations to grade: all of them, the one that `id` names, or the only one.

        Raises InputError, which lists the ids where there are several and none was chosen.
        """
        found = list(self.conversations)
        if id is not None:
            found = [chosen(found, id)]
        elif len(found) > 1 and not every:
            raise InputError(
                f"The input holds {len(found)} conversations: {ids(found)}.",
                remedy="Choose one with --id ID, or run all with --all.",
            )
        return tuple(
            self._subject(conversation, alone=len(self.conversations) == 1) for conversation in found
        )

    def _subject(self, conversation: Conversation, *, alone: bool) -> Subject:
        given = self.envelope.conversation_id if alone else None
        source: IdSource = "given" if given else "format" if conversation.id else "input_hash"
        # Several conversations of one input must not share the input's digest as their id.
        fallback = self.digest if alone else sha256(canonical_json(conversation))
        if self.envelope.status is not None:
            conversation = with_status(conversation, self.envelope.status)
        conversation = with_feedback(conversation, self.envelope.feedback if alone else ())
        return Subject(
            conversation=conversation,
            conversation_id=given or conversation.id or fallback,
            id_source=source,
            envelope=self.envelope,
        )


def with_status(conversation: Conversation, word: str) -> Conversation:
    """`conversation` with the platform's word on how it ended, which wins over the format's own."""
    status, detail, warning = status_of(word)
    warnings = conversation.warnings if warning is None else (*conversation.warnings, warning)
    return msgspec.structs.replace(conversation, status=status, status_detail=detail, warnings=warnings)


def unread_input(data: bytes, *, otherwise: Sequence[Envelope] = ()) -> Input:
    """The input of which nothing is known but its bytes, because there was no time to read them: what flags
    and variables say, an id, and a conversation that nothing can be asked of."""
    envelope = Envelope()
    for source in otherwise:
        envelope, _ = supplied(envelope, source)
    return Input(
        conversations=(ConversationBuilder("unread").build(),),
        envelope=envelope,
        digest=sha256(data),
        warnings=("the input could not be read in time: each judge gets a null",),
    )


def read_input(
    data: Any,
    *,
    otherwise: Sequence[Envelope] = (),
    cut_short: bool = False,
    format: str | None = None,
) -> Input:
    """Reads a hook input: bytes as they came, or a value (a mapping or a sequence) from a Python host.

    What the envelope does not say is taken from `otherwise`, in order. `cut_short`: the stream was still open
    when waiting ended, so that a torn last line is no error. `format` names the conversation's format where
    detection is not wanted. Raises InputError.
    """
    document = opened(data, partial_last=cut_short)
    raw = bytes(data) if isinstance(data, bytes | bytearray | memoryview) else None
    warnings: list[str] = []
    extra: tuple[Warning_, ...] = ()
    taken = HookInput(conversation=None)
    if not document.many and is_envelope(document.value):
        taken, extra = hook_input_of(document.value), document.warnings
        document = json_document(taken.conversation, partial_last=cut_short)
    if cut_short:
        warnings.append("the input was still open when waiting for it ended; what had come was read")
    envelope, disagree = taken.envelope, list[str]()
    for source in otherwise:
        envelope, differing = supplied(envelope, source)
        disagree += differing
    if disagree:
        warnings.append(f"the envelope's own values stand for: {', '.join(dict.fromkeys(disagree))}")
    found = read_conversations(document, format=format)
    if extra:
        found = [msgspec.structs.replace(c, warnings=(*extra, *c.warnings)) for c in found]
    return Input(
        conversations=tuple(found),
        envelope=envelope,
        digest=sha256(raw if raw is not None else canonical_json(data)),
        warnings=(*taken.warnings, *warnings),
        unknown_keys=taken.unknown,
    )

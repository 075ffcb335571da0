"""UI messages of the AI SDK (`UIMessage`, versions 4 to 6): a list of them, or a chat that holds it.

Told from other messages with `parts` by parts that only these have (`step-start`, `tool-NAME` with a state,
`data-NAME`), by `toolInvocations`, or by `role`, `id` and text parts with `text`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sandbox_judge.conversation.acts import Act, Emitter
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.dialects import message_acts
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.rows import rows_of, unlike_first, unlike_others
from sandbox_judge.conversation.ui_parts import invocation, is_ui_part

NAME: Final = "ui_messages"

_LOOKED_AT: Final = 50
_PLAIN: Final = ("text", "reasoning", "file")
_LISTS: Final = ("messages", "uiMessages", "initialMessages")


def recognise(document: Document) -> bool:
    first = document.values[0]
    if document.many:
        return _is_own(document.values) or _chat(first) is not None
    if isinstance(first, list):
        return _is_own(first) or (bool(first) and _chat(first[0]) is not None)
    return _chat(first) is not None


def read(document: Document) -> Iterator[Conversation]:
    rows = rows_of(document)
    if _is_own(rows):
        yield _conversation({}, rows)
        return
    for index, row in enumerate(rows):
        messages = _chat(row)
        if messages is None:
            raise unlike_first(document, index, "is no chat of UI messages, as the first is")
        yield _conversation(row, messages)


def _chat(value: Any) -> list[Any] | None:
    if not isinstance(value, dict):
        return None
    listed = next((held for key in _LISTS if isinstance(held := value.get(key), list)), None)
    return listed if listed is not None and _is_own(listed) else None


def _is_own(messages: Sequence[Any]) -> bool:
    return any(_is_message(message) for message in messages[:_LOOKED_AT])


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    if isinstance(message.get("toolInvocations"), list) and message["toolInvocations"]:
        return True
    parts = message.get("parts")
    if not isinstance(parts, list) or not parts:
        return False
    if any(map(is_ui_part, parts)):
        return True
    return all(
        isinstance(part, dict) and part.get("type") in _PLAIN and ("text" in part or "url" in part)
        for part in parts
    )


def _conversation(chat: dict[str, Any], messages: Sequence[Any]) -> Conversation:
    build = ConversationBuilder(NAME, id=chat.get("chatId") or chat.get("id"))
    emitter = Emitter(build)
    for index, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise unlike_others(index, "messages is no UI message: it has no role")
        emitter.emit(_acts(message))
    if isinstance(chat.get("status"), str):
        build.status(
            {"ready": None, "submitted": None, "streaming": None}.get(chat["status"], chat["status"])
        )
    return build.build()


def _acts(message: dict[str, Any]) -> Iterator[Act]:
    """The acts of a message; version 4 repeats in `content` and `toolInvocations` what `parts` hold."""
    parts = message.get("parts")
    attached = message.get("experimental_attachments")
    files = [
        {"type": "file", "url": a.get("url"), "mediaType": a.get("contentType"), "filename": a.get("name")}
        for a in (attached if isinstance(attached, list) else ())
        if isinstance(a, dict)
    ]
    if isinstance(parts, list) and parts:
        yield from message_acts({**_own(message), "content": [*parts, *files]}, "assistant")
        return
    said = message.get("content")
    calls = message.get("toolInvocations")
    listed = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if said or files or not listed:
        content = [*([said] if isinstance(said, str) else said if isinstance(said, list) else []), *files]
        yield from message_acts({**message, "content": content, "toolInvocations": None}, "assistant")
    for call in listed:
        yield from invocation(call)


def _own(message: dict[str, Any]) -> dict[str, Any]:
    """What of a message is not repeated in its parts."""
    return {key: message[key] for key in ("role", "createdAt", "name") if key in message}

"""Whether a document is unmistakably plain chat: the common case, told without asking every adapter.

Chat messages with nothing but text and tool calls are no other format's. Asking each adapter in turn would
import them all, which costs a hook more time than reading the conversation.
"""

from typing import Any, Final

from sandbox_judge.conversation.document import Document

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
_KEYS: Final = frozenset({"role", "content", "name", "refusal", "tool_calls", "tool_call_id"})
_AROUND: Final = frozenset({"id", "messages"})
_JSON_STARTS: Final = (b"[", b"{")
# What may stand before JSON: white space and a byte order mark.
_BEFORE: Final = b" \t\r\n\xef\xbb\xbf"


def is_plain_chat(document: Document) -> bool:
    """True for one list of plain messages, bare or under `messages`. False says nothing."""
    if document.many or len(document.values) != 1:
        return False
    value = document.values[0]
    if isinstance(value, dict):
        if not value.keys() <= _AROUND:
            return False
        value = value.get("messages")
    return isinstance(value, list) and bool(value) and all(map(_is_plain, value))


def _is_plain(message: Any) -> bool:
    if not isinstance(message, dict) or not message.keys() <= _KEYS:
        return False
    role, content = message.get("role"), message.get("content")
    return (
        isinstance(role, str)
        and role in _ROLES
        and (content is None or isinstance(content, str))
        and "content" in message
        and _are_calls(message.get("tool_calls"))
    )


def _are_calls(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and all(isinstance(call, dict) and "function" in call for call in value)


def begins_as_json(data: bytes) -> bool:
    """Whether bytes begin as a JSON array or object does, so that they are no archive and no stream."""
    return data[:64].lstrip(_BEFORE).startswith(_JSON_STARTS)

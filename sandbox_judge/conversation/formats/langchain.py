"""LangChain messages as `messages_to_dict`, `dumpd` and `model_dump` write them: a list, a state that holds
one, rows of either."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sandbox_judge.conversation.acts import Emitter
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.dialects import as_message, message_acts
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.rows import rows_of, unlike_first, unlike_others

NAME: Final = "langchain"

_LISTS: Final = ("messages", "chat_history", "history")
_WORDS: Final = frozenset({"human", "ai", "AIMessageChunk", "HumanMessageChunk"})
_OTHERS: Final = frozenset({"system", "tool", "function", "chat", "remove", "ToolMessageChunk"})
_LOOKED_AT: Final = 20


def recognise(document: Document) -> bool:
    first = document.values[0]
    if document.many:
        return _is_own(document.values) or _held(first) is not None
    if isinstance(first, list) and first:
        return _is_own(first) or _held(first[0]) is not None
    return _held(first) is not None


def read(document: Document) -> Iterator[Conversation]:
    rows = rows_of(document)
    if _is_own(rows):
        yield _conversation({}, rows)
        return
    for index, row in enumerate(rows):
        messages = _held(row)
        if messages is None:
            raise unlike_first(document, index, "holds no LangChain messages, as the first does")
        yield _conversation(row if isinstance(row, dict) else {}, messages)


def _held(value: Any) -> list[Any] | None:
    """The messages of a state, of a serialised prompt value, of a list within a list."""
    if isinstance(value, list):
        return value if _is_own(value) else None
    if not isinstance(value, dict):
        return None
    for holder in (value, *(value.get(key) for key in ("values", "kwargs", "output", "data"))):
        if isinstance(holder, dict):
            for key in _LISTS:
                listed = holder.get(key)
                if isinstance(listed, list) and _is_own(listed):
                    return listed
    return None


def _is_own(messages: Sequence[Any]) -> bool:
    return bool(messages) and any(map(_is_message, messages[:_LOOKED_AT]))


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("lc"), int):
        return as_message(value) is not None
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _WORDS | _OTHERS or "role" in value:
        return False
    data = value.get("data")
    if isinstance(data, dict):
        return "content" in data
    return "content" in value and (kind in _WORDS or "additional_kwargs" in value)


def _conversation(row: dict[str, Any], messages: Sequence[Any]) -> Conversation:
    build = ConversationBuilder(NAME, id=row.get("thread_id") or row.get("id") if "lc" not in row else None)
    emitter = Emitter(build)
    for index, value in enumerate(messages, 1):
        message = as_message(value) if isinstance(value, dict) else None
        if message is None:
            raise unlike_others(index, "messages is no LangChain message")
        emitter.emit(message_acts(message, "user"))
    return build.build()

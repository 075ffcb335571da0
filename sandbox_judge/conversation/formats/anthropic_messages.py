"""Anthropic Messages: a list of messages, a request, one with its response (streamed or not), a response
alone, rows of any of these.

Told from OpenAI chat by what only it has: a top-level `system`, blocks such as `tool_use`, a response of type
`message`. Text alone reads the same in both.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.blocks import add_turn
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.exchange import may_list, row_exchange
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.parts import as_text
from sandbox_judge.conversation.rows import alike, rows_of, tell_outcome, unlike_others
from sandbox_judge.conversation.streams import message_of

NAME: Final = "anthropic_messages"

_BLOCKS: Final = frozenset(
    {
        "tool_use",
        "tool_result",
        "server_tool_use",
        "mcp_tool_use",
        "redacted_thinking",
        "document",
        "search_result",
    }
)
_MARKS: Final = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
}


def recognise(document: Document) -> bool:
    first = document.values[0]
    if document.many:
        return _is_request(first) or (_is_message(first) and _has_own(list(document.values)))
    if isinstance(first, list):
        return bool(first) and (_is_request(first[0]) or _has_own(first))
    return _is_request(first)


def read(document: Document) -> Iterator[Conversation]:
    rows = list(rows_of(document))
    if not _is_request(rows[0]):
        yield _conversation({"messages": rows}, "")
        return
    for where, row in alike(document, rows, _may_follow, "Anthropic request"):
        yield _conversation(row, where)


def _is_request(value: Any) -> bool:
    """A request, a pair, or a response alone, that says by itself that it is Anthropic's."""
    if not isinstance(value, dict):
        return False
    exchange = row_exchange(value, _is_response)
    if exchange.response is value:
        return True
    request = exchange.request
    if isinstance(request, list):
        request = {"messages": request}
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        return False
    messages = request["messages"]
    if messages and not _is_message(messages[0]):
        return False
    if _is_response(exchange.response) or _is_stream(exchange.response):
        return True
    system = isinstance(request.get("system"), str | list)
    return (system or "anthropic_version" in request or _has_own(messages)) and not _is_foreign(messages)


def _may_follow(row: Any) -> bool:
    """Whether a row can be read after one that says whose it is: messages of text alone say nothing."""
    return isinstance(row, dict) and may_list(row_exchange(row, _is_response).request, "messages")


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value


def _is_response(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") == "message"
        and value.get("role") == "assistant"
        and isinstance(value.get("content"), list)
        and ("stop_reason" in value or "model" in value)
    )


def _is_stream(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and value[0].get("type") == "message_start"
    )


def _is_foreign(messages: list[Any]) -> bool:
    return any(
        isinstance(m, dict) and ("tool_calls" in m or "parts" in m or m.get("role") in ("tool", "function"))
        for m in messages
    )


def _has_own(messages: list[Any]) -> bool:
    """Is there a block that only this format has, before anything that it never has?"""
    for message in messages:
        if not isinstance(message, dict) or "role" not in message:
            return False
        content = message.get("content")
        if isinstance(content, list):
            if any(_is_own(block) for block in content):
                return not _is_foreign(messages)
        elif "tool_calls" in message or message["role"] == "tool":
            return False
    return False


def _is_own(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    if isinstance(kind, str) and kind in _BLOCKS:
        return True
    return (kind == "thinking" and isinstance(block.get("thinking"), str)) or (
        kind == "image" and isinstance(block.get("source"), dict)
    )


def _conversation(row: dict[str, Any], where: str) -> Conversation:
    exchange = row_exchange(row, _is_response)
    request = {"messages": exchange.request} if isinstance(exchange.request, list) else exchange.request
    build = ConversationBuilder(NAME, id=None if exchange.response is row else row.get("id"))
    if isinstance(system := request.get("system"), str | list) and system:
        add_turn(build, "system", system)
    for index, message in enumerate(request.get("messages") or (), 1):
        if not isinstance(message, dict) or "role" not in message:
            raise unlike_others(index, "messages is no Anthropic message: it has no role", where)
        add_turn(build, message["role"], message.get("content"), time=message.get("timestamp"))
    _response(build, exchange.response)
    tell_outcome(build, row, exchange.error)
    return build.build()


def _response(build: ConversationBuilder, response: Any) -> None:
    if _is_stream(response):
        response = message_of(response)
    if response is None or (isinstance(response, dict) and response.get("type") == "error"):
        return
    if not isinstance(response, dict) or not isinstance(response.get("content"), list | str):
        told = ", ".join(list(response)[:8]) if isinstance(response, dict) else as_text(response)[:200]
        build.warn("response_unreadable", f"the response holds no message: {told}")
        return
    mark = _MARKS.get(as_text(response.get("stop_reason")))
    add_turn(build, response.get("role", "assistant"), response["content"], mark=mark)

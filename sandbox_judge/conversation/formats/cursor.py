"""Cursor's agent transcripts: JSON Lines of `{role, message: {content: [blocks]}}`, without ids or results.

What the user typed stands in `<user_query>`, which is taken off. Blocks are Anthropic's with Cursor's own
spellings (`tool_call`, `tool-result`).
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.blocks import add_turn
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, ToolCall, ToolResult
from sandbox_judge.conversation.parts import as_text
from sandbox_judge.conversation.rows import Row, Transcript, any_row

NAME: Final = "cursor"

_QUERY: Final = re.compile(r"\s*<user_query>\n?(.*?)\n?</user_query>\s*", re.DOTALL)
_CALLS: Final = ("tool_call", "tool-call")
_RESULTS: Final = ("tool-result",)
# What Claude Code's rows have and Cursor's never.
_FOREIGN: Final = ("uuid", "parentUuid", "sessionId", "isSidechain", "type")


def recognise(document: Document) -> bool:
    return any_row(document, _is_own)


def read(document: Document) -> Iterator[Conversation]:
    transcript = Transcript(document)
    ids = (row.get(key) for row in transcript.rows for key in ("conversation_id", "conversationId"))
    build = ConversationBuilder(NAME, id=next((id for id in ids if isinstance(id, str)), None))
    for row in transcript.rows:
        if isinstance(row.get("role"), str) and "message" in row:
            _turn(build, row)
        else:
            transcript.leave_out(row.get("type"))
    transcript.tell(build)
    told = build.build()
    if any(isinstance(e, ToolCall) for e in told.entries) and not any(
        isinstance(e, ToolResult) for e in told.entries
    ):
        build.warn("results_not_recorded", "there are tool calls and no results: Cursor does not record them")
        told = build.build()
    yield told


def _is_own(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and row.get("role") in ("user", "assistant", "system", "tool")
        and isinstance(row.get("message"), dict)
        and "content" in row["message"]
        and not any(key in row for key in _FOREIGN)
    )


def _turn(build: ConversationBuilder, row: Row) -> None:
    message = row["message"]
    content = message.get("content") if isinstance(message, dict) else message
    blocks = content if isinstance(content, list) else [content]
    time = row.get("timestamp", row.get("createdAt"))
    metadata = row.get("metadata")
    status = metadata.get("toolResultStatus") if isinstance(metadata, dict) else None
    failed = status in ("error", "failure", "failed")
    add_turn(build, row["role"], [_block(block, row["role"], failed) for block in blocks], time=time)


def _block(block: Any, role: str, failed: bool) -> Any:
    """A block in Anthropic's words."""
    if isinstance(block, str):
        block = {"type": "text", "text": block}
    if not isinstance(block, dict):
        return block
    kind = block.get("type")
    if kind == "text" and role == "user" and (query := _QUERY.fullmatch(as_text(block.get("text")))):
        return {**block, "text": query[1]}
    if kind in _CALLS:
        given = next((block[key] for key in ("input", "args", "arguments") if key in block), None)
        return {"type": "tool_use", "id": _id(block), "name": _name(block), "input": given}
    if kind in _RESULTS:
        given = next((block[key] for key in ("content", "result", "output") if key in block), None)
        error = failed or block.get("is_error") is True or block.get("isError") is True
        return {"type": "tool_result", "tool_use_id": _id(block), "content": given, "is_error": error}
    return block


def _id(block: Row) -> Any:
    return next(
        (block[key] for key in ("id", "toolCallId", "tool_call_id", "tool_use_id") if key in block), None
    )


def _name(block: Row) -> Any:
    return block.get("name", block.get("toolName"))

"""Goose's sessions: rows of a SQLite database that is only read. Shapes: block/goose, `session_manager.rs`
and `conversation/message.rs` (Goose 1.10 and later)."""

import json
import sqlite3
from typing import Any, Final
from urllib.parse import quote

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text
from sandbox_judge.conversation.parts import as_text, media, unknown

NAME: Final = "goose"
_MAGIC: Final = b"SQLite format 3\0"
_MOST_ROWS: Final = 200_000
_WAIT_S: Final = 1.0
# What Goose shows or keeps for itself.
_SILENT: Final = ("toolConfirmationRequest", "actionRequired", "frontendToolRequest")

Json = dict[str, Any]


def is_database(path: str) -> bool:
    """Whether a file is a SQLite database. Raises OSError."""
    if not path.endswith(".db"):
        return False
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_session(path: str, session: str) -> Conversation:
    """One session as a conversation. Raises ValueError where the database cannot be read, or not that way."""
    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=_WAIT_S)
        try:
            rows = connection.execute(
                "SELECT role, content_json, created_timestamp FROM messages WHERE session_id = ? "
                "ORDER BY created_timestamp, id LIMIT ?",
                (session, _MOST_ROWS),
            ).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise ValueError(f"Goose's sessions cannot be read: {error}") from error
    build = ConversationBuilder(NAME, id=session)
    if not rows:
        build.missing("Goose's database holds no message of this session")
    for role, content, time in rows:
        _add(build, role, _blocks(content), time)
    return build.build()


def _blocks(content: Any) -> list[Any]:
    try:
        value = json.loads(content)
    except (ValueError, TypeError, RecursionError):
        return [{"type": "text", "text": as_text(content)}]
    return value if isinstance(value, list) else [value]


def _add(build: ConversationBuilder, role: Any, blocks: list[Any], time: Any) -> None:
    """One message: its text where it stands, its calls and results as entries of their own."""
    parts: list[Part] = []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in ("toolRequest", "toolResponse"):
            _flush(build, role, parts, time)
            parts = []
            (_request if kind == "toolRequest" else _response)(build, block, time)
        elif kind not in _SILENT:
            parts.append(_part(build, block))
    _flush(build, role, parts, time)


def _flush(build: ConversationBuilder, role: Any, parts: list[Part], time: Any) -> None:
    if parts:
        build.message(role, parts, time=time)


def _part(build: ConversationBuilder, block: Any) -> Part:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        return Text(text=as_text(block.get("text")))
    if kind == "thinking":
        return Reasoning(text=as_text(block.get("thinking")))
    if kind == "redactedThinking":
        return Reasoning(text="(redacted by the provider)")
    if kind == "image":
        return media("image", mime=block.get("mimeType"), base64=block.get("data"))
    return build.unknown(kind, block) if kind is not None else unknown("unknown", block)


def _request(build: ConversationBuilder, block: Json, time: Any) -> None:
    call = block.get("toolCall")
    value = call.get("value") if isinstance(call, dict) else None
    if isinstance(value, dict):
        build.tool_call(value.get("name"), value.get("arguments"), id=block.get("id"), time=time)
    else:  # what the model asked for could not be read
        build.tool_call("unreadable", call, id=block.get("id"), time=time)


def _response(build: ConversationBuilder, block: Json, time: Any) -> None:
    result = block.get("toolResult")
    result = result if isinstance(result, dict) else {"status": "error", "error": result}
    value = result.get("value")
    error = result.get("status") == "error"
    if isinstance(value, dict):
        error |= value.get("isError") is True or value.get("is_error") is True
        value = value.get("content", value)
    blocks = (
        value
        if isinstance(value, list)
        else []
        if value is None
        else [{"type": "text", "text": as_text(value)}]
    )
    if result.get("error") is not None:
        blocks = [*blocks, {"type": "text", "text": as_text(result["error"])}]
    parts = [_part(build, item) for item in blocks]
    build.tool_result(parts, id=block.get("id"), error=error, time=time)

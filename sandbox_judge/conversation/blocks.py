"""Anthropic's content blocks, which Anthropic Messages and Claude Code's sessions share. Pure.

Shapes: docs.anthropic.com, Messages API, and its server tools (web search and fetch, code execution, MCP).
"""

from collections.abc import Iterable
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder, Turn
from sandbox_judge.conversation.model import Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, listed, media, sourced, unknown

_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_REDACTED: Final = "(redacted by the provider)"
# Nested blocks (a document in a result in a message) end somewhere, or are kept as JSON.
_MAX_DEPTH: Final = 8


def add_turn(
    build: ConversationBuilder,
    role: Any,
    content: Any,
    *,
    name: Any = None,
    agent: Any = None,
    time: Any = None,
    mark: str | None = None,
) -> None:
    """The entries of one message; `mark` says what happened to the turn (`truncated`)."""
    turn = Turn(build, role, name=name, agent=agent, time=time)
    for block in listed(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str) or not (kind in _CALLS or kind.endswith("tool_result")):
            turn.say(parts_of(build, block))
            continue
        turn.act()
        if kind in _CALLS:
            build.tool_call(block.get("name"), block.get("input"), id=block.get("id"), agent=agent, time=time)
        else:
            add_result(build, block, agent=agent, time=time)
    turn.end(mark)


def add_result(
    build: ConversationBuilder, block: dict[str, Any], *, agent: Any = None, time: Any = None
) -> None:
    """A `tool_result` block, or one of a server's tools (`web_search_tool_result` and its kin)."""
    content = block.get("content")
    inner = content.get("type") if isinstance(content, dict) else None
    build.tool_result(
        content if isinstance(content, str) else [p for b in listed(content) for p in parts_of(build, b)],
        id=block.get("tool_use_id"),
        error=block.get("is_error") is True or (isinstance(inner, str) and inner.endswith("_error")),
        agent=agent,
        time=time,
    )


def parts_of(build: ConversationBuilder, block: Any, depth: int = 0) -> Iterable[Part]:
    """The parts that one block stands for."""
    if isinstance(block, str):
        return (Text(text=block),)
    if not isinstance(block, dict):
        return () if block is None else (build.unknown("block", block),)
    kind = block.get("type")
    if kind == "text" or (kind is None and isinstance(block.get("text"), str)):
        return (Text(text=as_text(block["text"])),) if block.get("text") is not None else ()
    if kind == "thinking":
        return (Reasoning(text=as_text(block.get("thinking"))),)
    if kind == "redacted_thinking":
        return (Reasoning(text=_REDACTED),)
    if kind in ("image", "audio", "video"):
        return (sourced(kind, block.get("source")),)
    if kind == "container_upload":
        return (media("file", name=block.get("file_id")),)
    if (
        isinstance(kind, str)
        and depth < _MAX_DEPTH
        and (nested := _nested(build, kind, block, depth)) is not None
    ):
        return nested
    return (build.unknown(kind, block),)


def _nested(build: ConversationBuilder, kind: str, block: dict[str, Any], depth: int) -> list[Part] | None:
    """The blocks that hold others, and those of server tools; None for one that is not known."""
    if kind == "document":
        return _document(build, block, depth)
    if kind == "search_result":
        title = " ".join(as_text(block.get(key)) for key in ("title", "source")).strip()
        return [Text(text=title), *_inner(build, block.get("content"), depth)]
    if kind == "web_search_result":
        return [Text(text=" ".join(as_text(block.get(key)) for key in ("title", "url")).strip())]
    if kind == "web_fetch_result":
        return [Text(text=as_text(block.get("url"))), *_inner(build, block.get("content"), depth)]
    if kind == "tool_reference":
        return [unknown(kind, block.get("tool_name"))]
    if kind == "tool_search_tool_search_result":
        return _inner(build, block.get("tool_references"), depth)
    if kind.endswith("code_execution_result"):
        return _executed(build, block, depth)
    if kind.endswith("_error") and "error_code" in block:
        return [unknown(kind, block["error_code"])]
    return None


def _inner(build: ConversationBuilder, content: Any, depth: int) -> list[Part]:
    return [part for block in listed(content) for part in parts_of(build, block, depth + 1)]


def _document(build: ConversationBuilder, block: dict[str, Any], depth: int) -> list[Part]:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if isinstance(source, dict) and kind in ("text", "content"):
        text = as_text(source.get("data"))
        placed = media(
            "file", mime=source.get("media_type"), name=block.get("title"), size=len(text.encode()) or None
        )
        return [placed, *([Text(text=text)] if text else []), *_inner(build, source.get("content"), depth)]
    return [sourced("file", source, name=block.get("title"))]


def _executed(build: ConversationBuilder, block: dict[str, Any], depth: int) -> list[Part]:
    parts: list[Part] = [Text(text=text) for key in ("stdout", "stderr") if (text := as_text(block.get(key)))]
    if block.get("return_code") not in (None, 0):
        parts.append(Unknown(label="return_code", text=as_text(block["return_code"])))
    for item in listed(block.get("content")):
        held = isinstance(item, dict) and "file_id" in item
        parts.extend([media("file", name=item["file_id"])] if held else parts_of(build, item, depth + 1))
    others = {
        k: v for k, v in block.items() if k not in ("type", "stdout", "stderr", "return_code", "content")
    }
    return [*parts, unknown(block.get("type"), others)] if others else parts

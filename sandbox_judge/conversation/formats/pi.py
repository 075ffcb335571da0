"""pi sessions (v1 to v3): JSON Lines of entries, a tree by `parentId` whose last entry is the leaf.

The conversation is the path from the leaf to the root; what stands on branches that were left is counted.
Shapes: github.com/badlogic/pi-mono, `packages/coding-agent/docs/session.md`.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, listed, media
from sandbox_judge.conversation.rows import Row, Transcript, rows_of

NAME: Final = "pi"

_SUMMARIES: Final = {
    "compaction": "compacted",
    "branch_summary": "branch_summary",
    "compactionSummary": "compacted",
    "branchSummary": "branch_summary",
}
_MARKS: Final = {"length": "truncated", "error": "error", "aborted": "aborted"}
_EXTENSIONS: Final = ("custom", "hookMessage")
_REDACTED: Final = "(redacted by the provider)"


def recognise(document: Document) -> bool:
    rows = rows_of(document)
    first = rows[0] if rows else None
    if not isinstance(first, dict):
        return False
    if first.get("type") == "session":
        return "id" in first and any(key in first for key in ("version", "cwd", "provider"))
    held = first.get("message")
    return (
        first.get("type") == "message" and "parentId" in first and isinstance(held, dict) and "role" in held
    )


def read(document: Document) -> Iterator[Conversation]:
    transcript = Transcript(document)
    rows = transcript.rows
    head = rows[0] if rows and rows[0].get("type") == "session" else {}
    build = ConversationBuilder(NAME, id=head.get("id"))
    path = _path(rows)
    for index, row in enumerate(rows):
        if index not in path:
            transcript.abandon()
        elif not _entry(build, row):
            transcript.leave_out(row.get("type"))
    transcript.tell(build)
    yield build.build()


def _path(rows: list[Row]) -> set[int]:
    """The indexes of the entries from the last one up to the root; all of them in a file without links. An
    entry whose parent is not in the file follows the one before it."""
    index: dict[str, int] = {}
    for n, row in enumerate(rows):
        if isinstance(id := row.get("id"), str) and row.get("type") != "session":
            index.setdefault(id, n)
    if not any("parentId" in row for row in rows):
        return set(range(len(rows)))
    path = {n for n, row in enumerate(rows) if row.get("type") == "session"}
    at = len(rows) - 1
    while at >= 0 and at not in path:
        path.add(at)
        parent = rows[at].get("parentId")
        if parent is None and "parentId" in rows[at]:
            break
        found = index.get(parent) if isinstance(parent, str) else None
        at = found if found is not None and found != at else at - 1
    return path


def _entry(build: ConversationBuilder, row: Row) -> bool:
    """What one entry adds; False for one that holds no conversation."""
    kind, time = row.get("type"), row.get("timestamp")
    if kind == "message" and isinstance(row.get("message"), dict):
        _message(build, row["message"], time)
    elif isinstance(kind, str) and kind in _SUMMARIES:
        part = Unknown(label=_SUMMARIES[kind], text=as_text(row.get("summary")) or None)
        build.message("system", [part], time=time)
    elif kind == "custom_message":
        build.message("system", _parts(build, row.get("content")), name=row.get("customType"), time=time)
    else:
        return False
    return True


def _message(build: ConversationBuilder, message: Row, time: Any) -> None:
    role, content = message.get("role"), message.get("content")
    time = time if time is not None else message.get("timestamp")
    if role == "toolResult":
        build.tool_result(
            _parts(build, content),
            id=message.get("toolCallId"),
            name=message.get("toolName"),
            error=message.get("isError") is True,
            time=time,
        )
    elif role == "assistant":
        _assistant(build, message, time)
    elif role == "bashExecution":
        _bash(build, message, time)
    elif isinstance(role, str) and role in _SUMMARIES:
        part = Unknown(label=_SUMMARIES[role], text=as_text(message.get("summary")) or None)
        build.message("system", [part], time=time)
    elif role in _EXTENSIONS:
        build.message("system", _parts(build, content), name=message.get("customType"), time=time)
    else:
        if role == "user":
            build.status(None)
        build.message(role, _parts(build, content), time=time)


def _assistant(build: ConversationBuilder, message: Row, time: Any) -> None:
    said: list[Part] = []
    added = False
    for block in listed(message.get("content")):
        if isinstance(block, dict) and block.get("type") == "toolCall":
            if said:
                build.message("assistant", said, time=time)
            said, added = [], True
            build.tool_call(block.get("name"), block.get("arguments"), id=block.get("id"), time=time)
        else:
            said.extend(_parts(build, [block]))
    reason = as_text(message.get("stopReason"))
    if reason in _MARKS:
        said.append(build.mark(_MARKS[reason], message.get("errorMessage")))
    if said or not added:
        build.message("assistant", said, time=time)
    if reason == "error":
        build.failed(message.get("errorMessage"))
    elif reason == "aborted":
        build.cancelled(message.get("errorMessage"))
    else:
        build.status(None)


def _bash(build: ConversationBuilder, message: Row, time: Any) -> None:
    """A command that the user ran beside the agent."""
    call = build.tool_call("bash", {"command": message.get("command")}, time=time)
    code = message.get("exitCode")
    parts: list[Part] = [Text(text=as_text(message.get("output")))]
    if message.get("cancelled") is True:
        parts.append(build.mark("cancelled"))
    if message.get("truncated") is True:
        parts.append(build.mark("truncated"))
    failed = message.get("cancelled") is True or code not in (None, 0)
    build.tool_result(parts, call=call, name="bash", error=failed, time=time)


def _parts(build: ConversationBuilder, content: Any) -> list[Part]:
    parts: list[Part] = []
    for block in listed(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, str):
            parts.append(Text(text=block))
        elif isinstance(block, dict) and kind == "text":
            parts.append(Text(text=as_text(block.get("text"))))
        elif isinstance(block, dict) and kind == "thinking":
            hidden = _REDACTED if block.get("redacted") is True else ""
            parts.append(Reasoning(text=as_text(block.get("thinking")) or hidden))
        elif isinstance(block, dict) and kind == "image":
            parts.append(media("image", mime=block.get("mimeType"), base64=block.get("data")))
        elif block is not None:
            parts.append(build.unknown(kind, block))
    return parts

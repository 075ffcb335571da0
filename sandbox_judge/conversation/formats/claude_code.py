"""Claude Code sessions: JSON Lines of rows, a tree by `parentUuid` (`claude_tree`).

What the harness writes in the user's name (reminders, caveats, output of local commands, the summary after a
compaction) is a system message named after what it is, so that a gate on the user sees what the user said.
Sidechain rows are subagent turns, marked with their agent. Rows that hold no conversation (progress of hooks,
snapshots, titles) are left out and counted in one warning.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sandbox_judge.conversation.blocks import add_turn
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.claude_tree import Row, message_id, on_path
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, Part, Text, Unknown
from sandbox_judge.conversation.parts import as_text, error_told, unknown
from sandbox_judge.conversation.rows import Transcript, any_row

NAME: Final = "claude_code"

_OWN_KEYS: Final = ("sessionId", "uuid", "parentUuid", "isSidechain", "timestamp")
_MACHINE: Final = re.compile(
    r"\s*<(local-command-(?:stdout|stderr|caveat)|bash-(?:stdout|stderr)|system-reminder)>"
)
_INTERRUPTED: Final = re.compile(r"\s*\[Request interrupted by user[^\]]*\]\s*")
_SIDECHAIN: Final = "subagent"


def recognise(document: Document) -> bool:
    return any_row(document, _is_row)


def read(document: Document) -> Iterator[Conversation]:
    transcript = Transcript(document)
    session = _Session(transcript.rows)
    transcript.tell(session.build)
    yield session.conversation()


def _is_row(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in ("user", "assistant")
        and isinstance(value.get("message"), dict)
        and ("content" in value["message"] or "role" in value["message"])
        and any(key in value for key in _OWN_KEYS)
    )


class _Said:
    """The blocks that one API message said in the rows so far."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        self.calls: set[str] = set()

    def added_by(self, content: list[Any]) -> list[Any]:
        """The blocks of a further row that are new: rows are pieces, or each holds all from the start."""
        if self.blocks and content[: len(self.blocks)] == self.blocks:
            return content[len(self.blocks) :]
        return [block for block in content if _call_id(block) not in self.calls]

    def add(self, blocks: list[Any]) -> None:
        self.blocks += blocks
        self.calls.update(id for block in blocks if (id := _call_id(block)) is not None)


class _Session:
    """One session on its way into a conversation."""

    def __init__(self, rows: list[Row]) -> None:
        main = [row for row in rows if row.get("isSidechain") is not True]
        self.taken = {id(main[index]) for index in on_path(main)}
        self.rows = rows
        self.build = ConversationBuilder(NAME, id=_session_id(main or rows))
        self.left_out: Counter[str] = Counter()
        self.abandoned = 0
        # By API message: what it said so far, so that rows which repeat its earlier blocks add only new ones.
        self.said: dict[str, _Said] = {}

    def conversation(self) -> Conversation:
        copies: dict[str, Any] = {}
        last: Row | None = None
        for row in self.rows:
            side = row.get("isSidechain") is True
            if not (side or id(row) in self.taken):
                self._leave_out(row)
                continue
            if isinstance(uuid := row.get("uuid"), str) and row.get("message") is not None:
                # A resumed session may hold copies of earlier rows.
                if copies.get(uuid) == row["message"]:
                    continue
                copies[uuid] = row["message"]
            self._row(row, _agent(row) if side else None)
            if not side and row.get("type") in ("user", "assistant"):
                last = row
        self._ending(last)
        if self.abandoned:
            self.build.warn(
                "branch_left_out", f"{self.abandoned} rows stand on abandoned branches and were left out"
            )
        if self.left_out:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.left_out.items()))
            self.build.warn("rows_left_out", f"rows that hold no conversation were left out: {counts}")
        return self.build.build()

    def _leave_out(self, row: Row) -> None:
        if row.get("type") in ("user", "assistant"):
            self.abandoned += 1
        else:
            self.left_out[_kind(row)] += 1

    def _row(self, row: Row, agent: str | None) -> None:
        kind, time, build = row.get("type"), row.get("timestamp"), self.build
        if kind == "assistant":
            self._assistant(row, agent)
        elif kind == "user":
            self._user(row, agent)
        elif kind == "system" and (parts := _system_parts(row)):
            build.message("system", parts, name=row.get("subtype"), agent=agent, time=time)
        elif kind == "attachment" and (added := _attached(row.get("attachment"))) is not None:
            role, name, part = added
            build.message(role, [part], name=name, agent=agent, time=time)
        elif kind == "progress" and (inner := _subagent_row(row)) is not None:
            self._row(inner, _agent(inner))
        elif kind == "tool_use":
            id = row.get("id", row.get("tool_use_id"))
            build.tool_call(row.get("name"), row.get("input"), id=id, agent=agent, time=time)
        elif kind == "tool_result":
            id, output = row.get("tool_use_id", row.get("id")), row.get("output", row.get("content"))
            error = row.get("is_error") is True
            build.tool_result(
                as_text(output), id=id, name=row.get("name"), error=error, agent=agent, time=time
            )
        else:
            self.left_out[_kind(row)] += 1

    def _assistant(self, row: Row, agent: str | None) -> None:
        content, time = _content(row), row.get("timestamp")
        if row.get("isApiErrorMessage") is True:
            texts = content if isinstance(content, list) else [content]
            told = "\n".join(as_text(b.get("text", b) if isinstance(b, dict) else b) for b in texts)
            self.build.message("assistant", [self.build.mark("api_error", told)], agent=agent, time=time)
            return
        key = message_id(row)
        if key is not None and isinstance(content, list):
            said = self.said.setdefault(key, _Said())
            content = said.added_by(content)
            if not content and said.blocks:
                return
            said.add(content)
        message = row.get("message")
        cut = isinstance(message, dict) and message.get("stop_reason") == "max_tokens"
        add_turn(self.build, "assistant", content, agent=agent, time=time, mark="truncated" if cut else None)

    def _user(self, row: Row, agent: str | None) -> None:
        content, time = _content(row), row.get("timestamp")
        if content is None:
            part = self.build.unknown(
                "row", {k: v for k, v in row.items() if k in ("message", "toolUseResult")}
            )
            self.build.message("user", [part], agent=agent, time=time)
            return
        name = _written_by(row, content)
        add_turn(self.build, "system" if name else "user", content, name=name, agent=agent, time=time)

    def _ending(self, last: Row | None) -> None:
        """How the session ended, where its last row tells: an interruption or an error of the API."""
        if last is None:
            return
        content = _content(last)
        blocks = content if isinstance(content, list) else [content]
        text = as_text(
            blocks[-1].get("text") if blocks and isinstance(blocks[-1], dict) else blocks and blocks[-1]
        )
        if last.get("isApiErrorMessage") is True:
            self.build.failed(text)
        elif last.get("type") == "user" and _INTERRUPTED.fullmatch(text):
            self.build.cancelled()


def _call_id(block: Any) -> str | None:
    id = block.get("id") if isinstance(block, dict) and block.get("type") == "tool_use" else None
    return id if isinstance(id, str) else None


def _content(row: Row) -> Any:
    message = row.get("message")
    return message.get("content") if isinstance(message, dict) else message


def _written_by(row: Row, content: Any) -> str | None:
    """What wrote a user row that no user wrote; None for what the user said or a tool gave."""
    if row.get("isCompactSummary") is True:
        return "compact_summary"
    if row.get("isMeta") is True:
        return "meta"
    first = content[0] if isinstance(content, list) and len(content) == 1 else content
    text = first.get("text") if isinstance(first, dict) else first
    found = _MACHINE.match(text) if isinstance(text, str) else None
    return found[1].replace("-", "_") if found else None


def _system_parts(row: Row) -> list[Part]:
    """What a system row tells of the conversation; nothing for counters and summaries of hooks."""
    subtype, content = row.get("subtype"), row.get("content")
    text = as_text(content)
    if subtype == "compact_boundary":
        return [Unknown(label="compacted", text=text or None)]
    if subtype == "api_error":
        error = row.get("error")
        told = error_told(error)
        return [unknown("api_error", told if told is not None else content)]
    return [Text(text=text)] if text else []


def _attached(attachment: Any) -> tuple[str, str | None, Part] | None:
    """(role, name, part) of an attachment row: a prompt typed while the agent worked is the user's; what the
    harness adds for the model is a system message; bookkeeping is none."""
    if not isinstance(attachment, dict):
        return None
    kind = as_text(attachment.get("type")) or "attachment"
    if kind == "queued_command" and isinstance(prompt := attachment.get("prompt"), str):
        return "user", None, Text(text=prompt)
    held = next(
        (attachment[key] for key in ("content", "text", "stdout", "snippet") if attachment.get(key)), None
    )
    if held is None:
        return None
    named = attachment.get("filename", attachment.get("displayPath"))
    return (
        "system",
        "attachment",
        unknown(kind, held if named is None else {"filename": named, "content": held}),
    )


def _subagent_row(row: Row) -> Row | None:
    """The turn of a subagent that a progress row carries (newer sessions), as a row of its own."""
    data = row.get("data")
    inner = data.get("message") if isinstance(data, dict) and data.get("type") == "agent_progress" else None
    if (
        not isinstance(data, dict)
        or not isinstance(inner, dict)
        or inner.get("type") not in ("user", "assistant")
    ):
        return None
    return {"agentId": data.get("agentId"), "timestamp": row.get("timestamp"), **inner}


def _agent(row: Row) -> str:
    return next((row[key] for key in ("agentId", "agentName") if isinstance(row.get(key), str)), _SIDECHAIN)


def _kind(row: Row) -> str:
    """The row's type, for the count of what was left out."""
    subtype = row.get("subtype")
    kind = as_text(row.get("type"))[:60] or "row without type"
    return f"{kind}/{subtype[:60]}" if isinstance(subtype, str) else kind


def _session_id(rows: Sequence[Row]) -> Any:
    return next((row["sessionId"] for row in reversed(rows) if isinstance(row.get("sessionId"), str)), None)

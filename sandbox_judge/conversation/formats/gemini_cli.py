"""Gemini CLI sessions: one JSON document, or the JSON Lines of newer versions; saved chats (`history`); one
record alone.

A line is a record, whole: a later one of the same id stands in its place; `$set` changes what is known of the
session (with `messages`, all of them); `$rewindTo` takes back that record and all after it. A call carries
its own result. Shapes: google-gemini/gemini-cli, `chatRecordingTypes.ts` and `chatRecordingService.ts`.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.gemini_parts import (
    NO_RESULT,
    PART_KEYS,
    add_content,
    result_parts,
    thought_summary,
)
from sandbox_judge.conversation.model import Conversation, Part, Text
from sandbox_judge.conversation.parts import as_text, listed
from sandbox_judge.conversation.rows import unlike_first, unlike_others
from sandbox_judge.errors import InputError

NAME: Final = "gemini_cli"

_TYPES: Final = ("user", "gemini", "info", "error", "warning")
_RAN: Final = ("success", "error", "cancelled")
_LOOKED_AT: Final = 200


def recognise(document: Document) -> bool:
    first = document.values[0]
    if document.many:
        # Every kind of line that only this format has; a user's record alone could be others' too.
        return any(_is_line(row) for row in document.values[:_LOOKED_AT])
    if not isinstance(first, dict):
        return isinstance(first, list) and bool(first) and all(_is_session(row) for row in first)
    return _is_session(first) or _is_history(first) or _is_line(first) or _is_record(first)


def read(document: Document) -> Iterator[Conversation]:
    first = document.values[0]
    if document.many and not _is_session(first):
        yield _Log(document).conversation()
        return
    rows = document.values if document.many else first if isinstance(first, list) else [first]
    for index, row in enumerate(rows):
        if not document.many and not _is_session(row):
            yield _history(row) if _is_history(row) else _Log(document).conversation()
        elif not _is_session(row):
            raise unlike_first(document, index, "is no Gemini CLI session, as the first is")
        else:
            yield _Session(row).conversation(row["messages"])


def _is_session(value: Any) -> bool:
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        return False
    if not messages:
        return "sessionId" in value and "projectHash" in value
    own = any(isinstance(m, dict) and m.get("type") == "gemini" for m in messages)
    return _is_record(messages[0]) and (own or "projectHash" in value or "sessionId" in value)


def _is_record(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in _TYPES
        and ("content" in value or "toolCalls" in value)
        and isinstance(value.get("id"), str)
        and "message" not in value
        and "role" not in value
    )


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("$rewindTo"), str) or isinstance(value.get("$set"), dict):
        return True
    return ("sessionId" in value and "projectHash" in value) or (
        value.get("type") == "gemini" and _is_record(value)
    )


def _is_history(value: dict[str, Any]) -> bool:
    turns = value.get("history")
    if not isinstance(turns, list) or not turns or not isinstance(turns[0], dict):
        return False
    parts = turns[0].get("parts")
    return isinstance(parts, list) and all(
        isinstance(p, dict) and "type" not in p and not PART_KEYS.isdisjoint(p) for p in parts[:3]
    )


class _Log:
    """The JSON Lines of a session on their way into its records."""

    def __init__(self, document: Document) -> None:
        self.known: dict[str, Any] = {}
        self.records: dict[Any, Any] = {}
        self.rewound = 0
        strange = [
            document.place(index) for index, row in enumerate(document.values) if not self._takes(index, row)
        ]
        self.session = _Session(self.known)
        if strange:
            places = ", ".join(strange[:10])
            self.session.build.warn(
                "row_unreadable", f"{len(strange)} rows are no records and were left out ({places})"
            )

    def _takes(self, index: int, row: Any) -> bool:
        if not isinstance(row, dict):
            return False
        if isinstance(target := row.get("$rewindTo"), str):
            self._rewind(target)
        elif isinstance(changes := row.get("$set"), dict):
            if isinstance(messages := changes.get("messages"), list) and messages:
                self.records = {_key(m, (index, n)): m for n, m in enumerate(messages)}
            self.known.update({key: value for key, value in changes.items() if key != "messages"})
        elif row.get("type") in _TYPES:
            self.records[_key(row, index)] = row
        elif "sessionId" in row:
            self.known.update(row)
        else:
            return False
        return True

    def _rewind(self, target: str) -> None:
        """What a rewind to an unknown id takes back is everything, as in the CLI itself."""
        known = target in self.records
        while self.records:
            self.rewound += 1
            if self.records.popitem()[0] == target and known:
                return

    def conversation(self) -> Conversation:
        if self.rewound:
            self.session.build.warn(
                "branch_left_out", f"{self.rewound} records were taken back by a rewind and were left out"
            )
        return self.session.conversation(list(self.records.values()))


def _key(record: Any, place: Any) -> Any:
    id = record.get("id") if isinstance(record, dict) else None
    return id if isinstance(id, str) else place


class _Session:
    """One session on its way into a conversation."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.build = ConversationBuilder(NAME, id=known.get("sessionId"))
        self.agent = "subagent" if known.get("kind") == "subagent" else None
        # Ids of calls whose results stand with them; a user's record may repeat those.
        self.answered: set[str] = set()

    def conversation(self, records: list[Any]) -> Conversation:
        for index, record in enumerate(records, 1):
            if not isinstance(record, dict) or not (record.keys() & {"type", "content", "toolCalls"}):
                raise unlike_others(index, "messages is no record of a Gemini CLI session")
            self._record(record)
        return self.build.build()

    def _record(self, record: dict[str, Any]) -> None:
        kind, content, time = record.get("type"), record.get("content"), record.get("timestamp")
        if kind == "gemini":
            self._turn(record)
        elif kind == "user":
            add_content(self.build, "user", content, agent=self.agent, time=time, answered=self.answered)
        else:
            # What the CLI told the user: notices, warnings, errors.
            role = "system" if kind in _TYPES else kind
            name = kind if kind in _TYPES else None
            add_content(self.build, role, content, name=name, agent=self.agent, time=time)

    def _turn(self, record: dict[str, Any]) -> None:
        thoughts: tuple[Part, ...] = tuple(
            thought_summary(t.get("subject"), t.get("description"))
            if isinstance(t, dict)
            else thought_summary(t, None)
            for t in listed(record.get("thoughts"))
        )
        calls, content, time = listed(record.get("toolCalls")), record.get("content"), record.get("timestamp")
        if content not in ("", None, []) or thoughts or not calls:
            add_content(self.build, "model", content, agent=self.agent, time=time, first=thoughts)
        for call in calls:
            if isinstance(call, dict):
                self._call(call)
            else:
                self.build.warn("call_unreadable", f"a tool call is no object: {as_text(call)[:200]}")

    def _call(self, call: dict[str, Any]) -> None:
        build, id, status, time = self.build, call.get("id"), call.get("status"), call.get("timestamp")
        agent = call.get("agentId") or self.agent
        number = build.tool_call(call.get("name"), call.get("args"), id=id, agent=agent, time=time)
        parts, failed = result_parts(build, call.get("result"))
        if not parts and (shown := call.get("resultDisplay")) is not None:
            parts = [Text(text=as_text(shown))]
        if status == "cancelled":
            parts.append(build.mark("cancelled"))
        elif not parts and status in _RAN:
            parts.append(NO_RESULT)
        if not parts:
            return
        if isinstance(id, str):
            self.answered.add(id)
        bad = failed or status in ("error", "cancelled")
        build.tool_result(parts, id=id, call=number, error=bad, agent=agent, time=time)


def _history(value: dict[str, Any]) -> Conversation:
    """A chat saved as the contents that were sent."""
    build = ConversationBuilder(NAME, id=value.get("sessionId"))
    for index, turn in enumerate(value["history"], 1):
        if not isinstance(turn, dict) or "parts" not in turn:
            raise InputError(
                f"Element {index} of the history is no content: it has no parts.", where=f"element {index}"
            )
        role = "model" if turn.get("role") == "gemini" else turn.get("role", "user")
        time = turn.get("timestamp", turn.get("ts"))
        add_content(build, role, turn["parts"], time=time)
    return build.build()

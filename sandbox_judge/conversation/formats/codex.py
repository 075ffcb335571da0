"""Codex rollouts: JSON Lines of `session_meta`, `turn_context`, `response_item`, `event_msg`, `compacted`.

Response items and event messages tell the same talk twice: the items are read, and of the events only what
no item tells (how a turn ended, undone turns, what a web search found). A file without items (rare, old) is
read from its events. Older files hold the bare items. Shapes: github.com/openai/codex, `codex-rs/protocol`.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.codex_items import add_item, is_item, machine_name
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, media, unknown
from sandbox_judge.conversation.rows import Row, Transcript, any_row

NAME: Final = "codex"

_ROWS: Final = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_SPEECH: Final = ("user_message", "agent_message", "agent_reasoning")
_SUBAGENT: Final = "subagent"


def recognise(document: Document) -> bool:
    return any_row(document, _is_own)


def read(document: Document) -> Iterator[Conversation]:
    yield _Rollout(Transcript(document)).conversation()


def _is_own(row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    kind = row.get("type")
    if isinstance(kind, str) and kind in _ROWS:
        return isinstance(row.get("payload"), dict)
    return (
        (kind == "world_state" and "payload" in row) or row.get("record_type") == "state" or _is_old_head(row)
    )


def _is_old_head(row: Row) -> bool:
    return "instructions" in row and "timestamp" in row and "id" in row and "type" not in row


class _Rollout:
    """One rollout on its way into a conversation."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        rows = transcript.rows
        meta = next((_payload(r) for r in rows if r.get("type") == "session_meta"), rows[0] if rows else {})
        self.build = ConversationBuilder(NAME, id=meta.get("id") or meta.get("session_id"))
        self.agent = _agent(meta)
        self.by_items = any(_item(row) is not None for row in rows)
        self.undone = _undone(rows) if self.by_items else frozenset()
        self.said: set[str] = set()

    def conversation(self) -> Conversation:
        for index, row in enumerate(self.transcript.rows):
            if index in self.undone:
                self.transcript.abandon()
            else:
                self._row(row)
        self.transcript.tell(self.build)
        return self.build.build()

    def _row(self, row: Row) -> None:
        build, time = self.build, row.get("timestamp", row.get("created_at"))
        kind, payload = row.get("type"), _payload(row)
        item = _item(row)
        if item is not None:
            if item.get("role") == "user" and machine_name("user", item.get("content")) is None:
                build.status(None)
            self.said.update(_texts(item))
            if not add_item(build, item, agent=self.agent, time=time):
                self.transcript.leave_out(f"response_item/{as_text(item.get('type'))}")
        elif kind == "session_meta" or _is_old_head(row):
            self._meta(payload or row, time)
        elif kind == "compacted":
            self._compacted(payload, time)
        elif kind == "event_msg" and self._event(payload, time):
            return
        else:
            inner = payload.get("type")
            self.transcript.leave_out(
                f"{kind}/{inner}" if isinstance(inner, str) else kind or row.get("record_type")
            )

    def _meta(self, meta: Row, time: Any) -> None:
        given = meta.get("base_instructions") or meta.get("instructions")
        text = as_text(given.get("text") if isinstance(given, dict) else given)
        if text and text not in self.said:
            self.said.add(text)
            self.build.message("system", text, name="base_instructions", agent=self.agent, time=time)

    def _compacted(self, payload: Row, time: Any) -> None:
        """A compaction: its summary. The history that it keeps was said before, but for what is new in it."""
        replaced = payload.get("replacement_history")
        kept = [as_text(payload.get("message"))]
        for item in replaced if isinstance(replaced, list) else ():
            kept.extend(text for text in _texts(item) if text not in self.said)
        summary = "\n".join(filter(None, dict.fromkeys(kept)))
        self.said.update(kept)
        part = Unknown(label="compacted", text=summary or None)
        self.build.message("system", [part], agent=self.agent, time=time)

    def _event(self, event: Row, time: Any) -> bool:
        """What an event adds; False where it adds nothing."""
        build, kind = self.build, event.get("type")
        if kind == "turn_aborted":
            reason = event.get("reason")
            build.message("system", [build.mark(kind, reason)], agent=self.agent, time=time)
            build.cancelled(reason)
        elif kind == "error":
            build.message("system", [build.mark(kind, event.get("message"))], agent=self.agent, time=time)
            build.failed(event.get("message"))
        elif kind in ("task_started", "turn_started"):
            build.status(None)
            return False
        elif kind == "web_search_end" and event.get("results"):
            self._found(event, time)
        elif not self.by_items:
            return self._told(event, time)
        else:
            return False
        return True

    def _found(self, event: Row, time: Any) -> None:
        key = as_text(event.get("call_id"))
        if not self.by_items:
            self.build.tool_call("web_search", event.get("action"), id=key, agent=self.agent, time=time)
        found = Text(text=as_text(event["results"]))
        self.build.tool_result([found], id=key, agent=self.agent, time=time)

    def _told(self, event: Row, time: Any) -> bool:
        """An event of a file that holds no items."""
        build, kind, agent = self.build, event.get("type"), self.agent
        if kind == "user_message":
            images = event.get("images")
            parts: list[Part] = [Text(text=as_text(event.get("message")))]
            parts.extend(media("image", url=url) for url in (images if isinstance(images, list) else ()))
            build.message("user", parts, agent=agent, time=time)
        elif kind == "agent_message":
            build.message("assistant", as_text(event.get("message")), agent=agent, time=time)
        elif kind == "agent_reasoning":
            build.message("assistant", [Reasoning(text=as_text(event.get("text")))], agent=agent, time=time)
        elif kind == "exec_command_end":
            build.tool_call(
                "exec_command",
                {"command": event.get("command")},
                id=event.get("call_id"),
                agent=agent,
                time=time,
            )
            told = event.get("aggregated_output") or event.get("formatted_output") or event.get("stdout")
            failed = event.get("exit_code") not in (None, 0)
            build.tool_result(as_text(told), id=event.get("call_id"), error=failed, agent=agent, time=time)
        elif kind == "mcp_tool_call_end":
            self._mcp(event, time)
        else:
            return False
        return True

    def _mcp(self, event: Row, time: Any) -> None:
        asked, result = event.get("invocation"), event.get("result")
        asked = asked if isinstance(asked, dict) else {}
        name = "__".join(as_text(asked.get(key)) for key in ("server", "tool") if asked.get(key))
        id, agent = event.get("call_id"), self.agent
        self.build.tool_call(name, asked.get("arguments"), id=id, agent=agent, time=time)
        held = result if isinstance(result, dict) else {"Ok": result}
        ok = held.get("Ok")
        failed = "Err" in held or (isinstance(ok, dict) and ok.get("isError") is True)
        content = ok.get("content") if isinstance(ok, dict) else ok
        texts = [b.get("text") for b in content if isinstance(b, dict)] if isinstance(content, list) else []
        parts: list[Part] = [Text(text=as_text(text)) for text in texts if text is not None]
        if not parts and (told := held.get("Err", content)):
            parts = [unknown("result", told)]
        self.build.tool_result(parts, id=id, error=failed, agent=agent, time=time)


def _payload(row: Row) -> Row:
    payload = row.get("payload")
    return payload if isinstance(payload, dict) else {}


def _item(row: Row) -> Row | None:
    """The response item that a row is or holds, or None."""
    if row.get("type") == "response_item":
        payload = _payload(row)
        # Trimmed files have messages without a type.
        return {"type": "message", **payload} if "role" in payload else payload if payload else None
    return row if "payload" not in row and is_item(row) else None


def _texts(item: Any) -> Iterator[str]:
    content = item.get("content") if isinstance(item, dict) else None
    for block in content if isinstance(content, list) else [content]:
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str):
            yield text


def _undone(rows: list[Row]) -> frozenset[int]:
    """The rows of turns that the user took back (`thread_rolled_back`)."""
    standing: list[int] = []
    # Where in `standing` each turn of the user begins.
    starts: list[int] = []
    undone: set[int] = set()
    for index, row in enumerate(rows):
        item = _item(row)
        if item is not None and item.get("role") == "user" and not machine_name("user", item.get("content")):
            starts.append(len(standing))
        count = _payload(row).get("num_turns")
        if (
            _payload(row).get("type") == "thread_rolled_back"
            and isinstance(count, int)
            and count > 0
            and starts
        ):
            turn = max(0, len(starts) - count)
            undone.update(standing[starts[turn] :])
            del standing[starts[turn] :], starts[turn:]
        standing.append(index)
    return frozenset(undone)


def _agent(meta: Row) -> str | None:
    """The name of the subagent whose rollout this is, or None for the main agent's."""
    source = meta.get("source")
    if not (isinstance(source, dict) and _SUBAGENT in source) and meta.get("thread_source") != _SUBAGENT:
        return None
    return next(
        (meta[k] for k in ("agent_nickname", "agent_role") if isinstance(meta.get(k), str)), _SUBAGENT
    )

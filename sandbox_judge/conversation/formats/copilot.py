"""GitHub Copilot's session events (`events.jsonl`), of the CLI and of the cloud agent.

A call stands in the message that asks for it (`toolRequests`) and again where it starts to run; it is shown
once. Events of a subagent name the call that started it. Shapes: as Copilot CLI 0.0.420 to 1.0.77 wrote them.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, error_told, listed, media
from sandbox_judge.conversation.rows import Row, Transcript, any_row

NAME: Final = "copilot"

_FAMILIES: Final = ("session.", "assistant.", "user.", "tool.", "system.", "subagent.", "hook.", "skill.")
_SUBAGENT: Final = "subagent"
# Events that say nothing that the others do not.
_SILENT: Final = (
    "session.info",
    "session.warning",
    "subagent.completed",
    "assistant.message_delta",
    "assistant.streaming_delta",
    "assistant.reasoning_delta",
)
_IMAGES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def recognise(document: Document) -> bool:
    return any_row(document, _is_own)


def read(document: Document) -> Iterator[Conversation]:
    yield _Session(Transcript(document)).conversation()


def _is_own(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("data"), dict)
        and isinstance(kind := row.get("type"), str)
        and kind.startswith(_FAMILIES)
        and ("parentId" in row or "timestamp" in row)
    )


class _Session:
    """One session on its way into a conversation."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        rows = [row for row in transcript.rows if isinstance(row.get("data"), dict)]
        starts = (row["data"] for row in rows if row.get("type") == "session.start")
        self.build = ConversationBuilder(NAME, id=next((d.get("sessionId") for d in starts), None))
        self.requested = {
            as_text(request.get("toolCallId"))
            for row in rows
            for request in listed(row["data"].get("toolRequests"))
            if isinstance(request, dict)
        }
        self.agents = {
            as_text(row["data"].get("toolCallId")): as_text(row["data"].get("agentName")) or _SUBAGENT
            for row in rows
            if row.get("type") == "subagent.started"
        }
        self.thought = ""

    def conversation(self) -> Conversation:
        for row in self.transcript.rows:
            data = row.get("data")
            if not isinstance(data, dict) or not self._row(row.get("type"), data, row.get("timestamp")):
                self.transcript.leave_out(row.get("type"))
        self.transcript.tell(self.build)
        return self.build.build()

    def _row(self, kind: Any, data: Row, time: Any) -> bool:
        build, agent = self.build, self._agent(data)
        if kind == "user.message":
            parts: list[Part] = [Text(text=as_text(data.get("content")))]
            parts.extend(_attachment(a) for a in listed(data.get("attachments")))
            build.status(None)
            build.message("user", parts, agent=agent, time=time)
        elif kind == "assistant.message":
            self._assistant(data, agent, time)
        elif kind == "assistant.reasoning":
            self.thought = as_text(data.get("content"))
            build.message("assistant", [Reasoning(text=self.thought)], agent=agent, time=time)
        elif kind == "tool.execution_start":
            if as_text(data.get("toolCallId")) not in self.requested:
                id = data.get("toolCallId")
                build.tool_call(data.get("toolName"), data.get("arguments"), id=id, agent=agent, time=time)
        elif kind == "tool.execution_complete":
            self._result(data, agent, time)
        elif kind in ("system.message", "system.notification"):
            name = None if kind == "system.message" else "notification"
            build.message("system", as_text(data.get("content")), name=name, agent=agent, time=time)
        elif kind == "subagent.failed":
            build.message(
                "system", [build.mark("subagent_failed", data.get("error"))], agent=agent, time=time
            )
        else:
            return self._other(kind, data, time)
        return True

    def _assistant(self, data: Row, agent: str | None, time: Any) -> None:
        build = self.build
        parts: list[Part] = []
        thought = as_text(data.get("reasoningText"))
        if thought and thought != self.thought:
            parts.append(Reasoning(text=thought))
        self.thought = ""
        content = data.get("content")
        requests = listed(data.get("toolRequests"))
        if content or not requests:
            parts.append(Text(text=as_text(content)))
        if parts:
            build.message("assistant", parts, agent=agent, time=time)
        for request in requests:
            held = request if isinstance(request, dict) else {"arguments": request}
            build.tool_call(
                held.get("name"), held.get("arguments"), id=held.get("toolCallId"), agent=agent, time=time
            )

    def _result(self, data: Row, agent: str | None, time: Any) -> None:
        result, error = data.get("result"), data.get("error")
        held = result if isinstance(result, dict) else {"content": result}
        told = held.get("content")
        parts: list[Part] = [] if told is None else [Text(text=as_text(told))]
        if error is not None:
            parts.append(Text(text=as_text(error_told(error))))
        if not parts and held.get("detailedContent") is not None:
            parts.append(Text(text=as_text(held["detailedContent"])))
        failed = data.get("success") is False or error is not None
        self.build.tool_result(parts, id=data.get("toolCallId"), error=failed, agent=agent, time=time)

    def _other(self, kind: Any, data: Row, time: Any) -> bool:
        """Events about the session; False for those that hold no conversation."""
        build = self.build
        if kind == "abort":
            build.message("system", [build.mark("abort", data.get("reason"))], time=time)
            build.cancelled(data.get("reason"))
        elif kind == "session.error":
            build.message("system", [build.mark("error", data.get("message"))], time=time)
            build.failed(data.get("message"))
        elif kind == "session.compaction_complete" and data.get("summaryContent"):
            build.message(
                "system", [Unknown(label="compacted", text=as_text(data["summaryContent"]))], time=time
            )
        elif isinstance(kind, str) and kind not in _SILENT and isinstance(data.get("content"), str):
            build.message("system", [build.unknown(kind, data["content"])], time=time)
        else:
            return False
        return True

    def _agent(self, data: Row) -> str | None:
        parent = data.get("parentToolCallId")
        return None if parent is None else self.agents.get(as_text(parent), _SUBAGENT)


def _attachment(value: Any) -> Part:
    held = value if isinstance(value, dict) else {"path": value}
    name = as_text(held.get("displayName") or held.get("path") or held.get("filePath"))
    kind = "image" if name.lower().endswith(_IMAGES) else "file"
    return media(kind, mime=held.get("mimeType"), base64=held.get("data"), name=name)

"""The platform's conversation items: OpenTelemetry spans with their attributes nested under `gen_ai`.

Shapes: PyPI `introspection-sdk`, `schemas/genai_span.py` and `schemas/genai.py`. A list read gives each span
the messages that its turn added; a single item gives the whole history, so what a span repeats of its agent's
earlier messages is shown once. Tools of the model's own calls are read from the messages; a tool span tells
whether the call failed, and is a call of its own only where no message has it.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document, json_text
from sandbox_judge.conversation.feedback import instant
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, listed, media
from sandbox_judge.conversation.rows import alike, rows_of

NAME: Final = "platform_items"

Span = dict[str, Any]

_MARKS: Final = {
    "length": "truncated",
    "max_tokens": "truncated",
    "content_filter": "content_filter",
    "refusal": "refused",
}
_URLS: Final = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "file"}
_MEDIA: Final = ("image", "audio", "video")
_REDACTED: Final = "(redacted by the provider)"
# The parts that a model's output carries and its next input may leave out.
_THOUGHTS: Final = ("thinking", "reasoning")


def recognise(document: Document) -> bool:
    first = document.values[0]
    if not document.many and isinstance(first, list):
        return bool(first) and _is_span(first[0])
    return _is_span(first) or (not document.many and _is_page(first))


def read(document: Document) -> Iterator[Conversation]:
    first = document.values[0]
    page = first if not document.many and _is_page(first) else {}
    rows = page["data"] if page else rows_of(document)
    by_id: dict[str, list[Span]] = {}
    for _, row in alike(document, rows, _is_span, "conversation item"):
        by_id.setdefault(as_text(_at(row, "conversation", "id")), []).append(row)
    for id, spans in by_id.items():
        reader = _Reader(id or None, spans)
        if page.get("has_more") is True:
            reader.build.missing("the items have a next page, which was not given")
        yield reader.conversation()


def _is_span(value: Any) -> bool:
    attributes = value.get("attributes") if isinstance(value, dict) else None
    return (
        isinstance(attributes, dict)
        and isinstance(attributes.get("gen_ai"), dict)
        and ("trace_id" in value or "span_id" in value or "start_time" in value)
    )


def _is_page(value: Any) -> bool:
    data = value.get("data") if isinstance(value, dict) else None
    return isinstance(data, list) and bool(data) and _is_span(data[0])


def _at(span: Span, *path: str) -> Any:
    """What stands at `path` under a span's `gen_ai`, or None."""
    node: Any = span["attributes"]["gen_ai"]
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _messages(span: Span, side: str) -> list[dict[str, Any]]:
    found = _at(span, side, "messages")
    return [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []


class _Reader:
    """The spans of one conversation on their way into it."""

    def __init__(self, id: str | None, spans: list[Span]) -> None:
        self.build = ConversationBuilder(NAME, id=id)
        self.spans = sorted(spans, key=lambda span: instant(span.get("start_time")) or 0.0)
        chats = [s for s in self.spans if _messages(s, "input") or _messages(s, "output")]
        # An agent's span repeats what its model calls said; it speaks only where there are none.
        calls = [s for s in chats if _at(s, "operation", "name") != "invoke_agent"]
        self.speaking = {_identity(s) for s in calls or chats}
        self.main = _lane(calls[0] if calls else chats[0]) if chats else ""
        self.failed = {
            as_text(_at(s, "tool", "call", "id"))
            for s in self.spans
            if _status(s) == "Error" and _at(s, "tool", "call", "id") is not None
        }
        self.asked = {
            as_text(part.get("id"))
            for s in calls or chats
            for side in ("input", "output")
            for message in _messages(s, side)
            for part in listed(message.get("parts"))
            if isinstance(part, dict) and part.get("type") == "tool_call"
        }
        self.history: dict[str, list[str]] = {}
        self.instructions: dict[str, str] = {}

    def conversation(self) -> Conversation:
        last: Span | None = None
        for span in self.spans:
            if _identity(span) in self.speaking:
                self._chat(span)
                last = span
            elif _at(span, "tool", "name") is not None or _at(span, "tool", "call") is not None:
                self._tool(span)
        if last is not None and _status(last) == "Error":
            self.build.failed(last["status"].get("message"))
        return self.build.build()

    def _chat(self, span: Span) -> None:
        lane, time = _lane(span), span.get("start_time")
        agent = None if lane == self.main else lane
        instructions = _at(span, "system_instructions")
        if instructions and self.instructions.get(lane) != (told := json_text(instructions)):
            self.instructions[lane] = told
            parts = [part for block in listed(instructions) for part in self._part(block)]
            self.build.message("system", parts, agent=agent, time=time)
        inputs = _messages(span, "input")
        for message in inputs[self._repeated(lane, inputs) :]:
            self._message(message, agent, time)
        outputs = _messages(span, "output")
        self.history.setdefault(lane, []).extend(map(_key, outputs))
        for message in outputs:
            self._message(message, agent, span.get("end_time", time))

    def _repeated(self, lane: str, messages: list[dict[str, Any]]) -> int:
        """How many of a span's input messages are its agent's whole history so far, sent again."""
        before, keys = self.history.get(lane, []), [_key(message) for message in messages]
        if before and keys[: len(before)] == before:
            self.history[lane] = keys
            return len(before)
        self.history[lane] = [*before, *keys]
        return 0

    def _message(self, message: dict[str, Any], agent: str | None, time: Any) -> None:
        build, role = self.build, message.get("role")
        name = message.get("name")
        said: list[Part] = []
        added = False
        for part in listed(message.get("parts")):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind not in ("tool_call", "tool_call_response"):
                said.extend(self._part(part))
                continue
            if said:
                build.message(
                    "assistant" if role == "tool" else role, said, name=name, agent=agent, time=time
                )
                said = []
            added = True
            if kind == "tool_call":
                build.tool_call(
                    part.get("name"), part.get("arguments"), id=part.get("id"), agent=agent, time=time
                )
            else:
                response = part.get("response", part.get("result"))
                failed = as_text(part.get("id")) in self.failed
                build.tool_result(as_text(response), id=part.get("id"), error=failed, agent=agent, time=time)
        if (mark := _MARKS.get(as_text(message.get("finish_reason")))) is not None:
            said.append(build.mark(mark))
        if said or not added:
            build.message(role, said, name=name, agent=agent, time=time)

    def _part(self, part: Any) -> Iterator[Part]:
        if isinstance(part, str):
            yield Text(text=part)
            return
        if not isinstance(part, dict):
            if part is not None:
                yield self.build.unknown("part", part)
            return
        kind, content = part.get("type"), part.get("content")
        mime = part.get("media_type") or part.get("mime_type")
        modality = part.get("modality")
        sort = modality if modality in _MEDIA else None
        if kind == "text":
            yield Text(text=as_text(content))
        elif kind in _THOUGHTS:
            yield Reasoning(text=as_text(content) or (_REDACTED if part.get("redacted") is True else ""))
        elif kind in ("binary", "blob"):
            yield media(sort, mime=mime, base64=content)
        elif kind == "uri" or (isinstance(kind, str) and kind in _URLS):
            sort = sort if kind == "uri" else _URLS[kind]
            yield media(sort, mime=mime, url=part.get("url") or part.get("uri"))
        elif kind == "file":
            yield media(sort, mime=mime, name=part.get("file_id"))
        elif kind == "compaction":
            yield Unknown(label="compacted", text=as_text(content) or None)
        else:
            yield self.build.unknown(kind, part)

    def _tool(self, span: Span) -> None:
        """A tool's span: a call of its own where no message asked for it."""
        id = _at(span, "tool", "call", "id")
        if as_text(id) in self.asked and id is not None:
            return
        lane = _lane(span)
        agent = None if lane in (self.main, "") else lane
        build = self.build
        build.tool_call(
            _at(span, "tool", "name"),
            _at(span, "tool", "call", "arguments"),
            id=id,
            agent=agent,
            time=span.get("start_time"),
        )
        result, failed = _at(span, "tool", "call", "result"), _status(span) == "Error"
        if result is not None or failed:
            told = result if result is not None else span["status"].get("message")
            name = _at(span, "tool", "name")
            build.tool_result(
                as_text(told), id=id, name=name, error=failed, agent=agent, time=span.get("end_time")
            )


def _identity(span: Span) -> int:
    """The identity of a span: one in the same list twice is one."""
    return id(span)


def _status(span: Span) -> Any:
    status = span.get("status")
    return status.get("code") if isinstance(status, dict) else None


def _lane(span: Span) -> str:
    """The agent whose history a span goes on with."""
    return as_text(_at(span, "agent", "name") or _at(span, "agent", "id"))


def _key(message: dict[str, Any]) -> str:
    """A message's identity, without reasoning and the reason of its end, which only outputs carry."""
    parts = [
        part
        for part in listed(message.get("parts"))
        if not (isinstance(part, dict) and part.get("type") in _THOUGHTS)
    ]
    return json_text([message.get("role"), parts], sort_keys=True)

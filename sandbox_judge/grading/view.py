"""The view: the text of a conversation that a judge reads (`spec/conversation.md`, View; design, section 7).

One header line, then one entry after another. An entry starts with `[n] ` and its kind, every further line of
its content with `| `; everything that could break a line does, and other control characters and bidirectional
marks are shown as escapes. So no content can make a line that reads as an entry or as the header. Equal
conversations give equal texts, hence equal hashes and equal prompts (objects' keys are sorted). Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sandbox_judge.conversation.document import json_text
from sandbox_judge.conversation.model import (
    Conversation,
    Entry,
    Feedback,
    Media,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from sandbox_judge.grading.shortening import shortened
from sandbox_judge.grading.view_lines import fence_of, lines_of, one_line, plain_name, quoted, text_hash

ALLOWANCE: Final = 400_000
"""Characters: a constant of contract 1, for every model."""

# Room for the count in the header, which is known last.
_COUNT_ROOM: Final = 16
_DETAIL_LENGTH: Final = 500
_LEFT_OUT: Final = " characters left out"
_CHUNK: Final = 500


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge sees. `left_out_chars` were cut by the allowance; `overflow`: it is exceeded still."""

    text: str
    entries: int
    left_out_chars: int
    sequence_hash: str
    overflow: bool

    @property
    def fence(self) -> str:
        """The word around the view in a prompt: it cannot stand in the text whose hash it is."""
        return fence_of(self.sequence_hash)


def build_view(
    conversation: Conversation, *, allowance: int = ALLOWANCE, include_reasoning: bool = False
) -> View:
    """The view of `conversation`, of at most `allowance` characters unless what must not be cut is longer."""
    status, remarks = _header(conversation, include_reasoning)
    answered = {e.call for e in conversation.entries if isinstance(e, ToolResult) and e.call is not None}
    total = len(status) + len(_LEFT_OUT) + _COUNT_ROOM + len(remarks)
    lines: list[str] = []
    for entry in conversation.entries:
        line = f"{_head(entry, answered)}{_content(entry, include_reasoning)}"
        total += len(line) + 1
        if total <= allowance:
            lines.append(line)
    cut: dict[int, str] = {}
    left_out = 0
    if total > allowance:
        # Made anew, with what was cut, so that a long conversation is not held as lines too.
        lines = []
        cut, left_out = _cut(conversation.entries, total - allowance, include_reasoning)
    header = f"{status}, {left_out:,}{_LEFT_OUT}{remarks}"
    if total > allowance:
        text = "\n".join([header, *_chunks(conversation.entries, cut, answered, include_reasoning)])
    else:
        text = "\n".join([header, *lines])
    return View(
        text=text,
        entries=len(conversation.entries),
        left_out_chars=left_out,
        sequence_hash=text_hash(text),
        overflow=len(text) > allowance,
    )


def _cut(entries: Sequence[Entry], excess: int, include_reasoning: bool) -> tuple[dict[int, str], int]:
    """What tool results, then arguments, then system texts say once they are cut to save `excess` characters,
    by entry number; and how many characters were left out."""
    cut: dict[int, str] = {}
    left_out = 0
    for kind in (ToolResult, ToolCall, Message):
        if excess <= 0:
            break
        chosen = [e for e in entries if isinstance(e, kind) and getattr(e, "role", "system") == "system"]
        before = [_content(entry, include_reasoning) for entry in chosen]
        after, count = shortened(before, excess)
        for entry, old, new in zip(chosen, before, after, strict=True):
            if new is not old:
                cut[entry.n] = new
                excess -= len(old) - len(new)
        left_out += count
    return cut, left_out


def _chunks(
    entries: Sequence[Entry], cut: Mapping[int, str], answered: set[int], include_reasoning: bool
) -> Iterator[str]:
    """The entries' text, some hundreds of entries at a time: each text has a cost of its own in memory."""
    for start in range(0, len(entries), _CHUNK):
        lines = []
        for entry in entries[start : start + _CHUNK]:
            content = cut[entry.n] if entry.n in cut else _content(entry, include_reasoning)
            lines.append(f"{_head(entry, answered)}{content}")
        yield "\n".join(lines)


def _header(conversation: Conversation, include_reasoning: bool) -> tuple[str, str]:
    """What the header says before and after the number of characters left out."""
    entries = conversation.entries
    status = f"Conversation of {len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
    status += f", status {conversation.status}"
    if conversation.status_detail is not None:
        status += f" ({quoted(conversation.status_detail[:_DETAIL_LENGTH])})"
    hidden = replies = 0
    for entry in entries:
        if isinstance(entry, Message | ToolResult):
            hidden += sum([isinstance(part, Reasoning) for part in entry.parts])
            replies += _is_reply(entry)
    remarks = ""
    if hidden and not include_reasoning:
        remarks += f", {hidden} reasoning {'part' if hidden == 1 else 'parts'} left out"
    return status, remarks if replies else f"{remarks}, no assistant response"


def _is_reply(entry: Entry) -> bool:
    """Did the assistant say something to the user here? Reasoning, calls and marks are not said to anyone."""
    return (
        isinstance(entry, Message)
        and entry.role == "assistant"
        and any(
            isinstance(part, Refusal | Media) or (isinstance(part, Text) and bool(part.text.strip()))
            for part in entry.parts
        )
    )


def _head(entry: Entry, answered: set[int]) -> str:
    if isinstance(entry, Message):
        name = "" if entry.name is None else f" name={plain_name(entry.name)}"
        return f"[{entry.n}] message {entry.role}{name}{_agent(entry)}: "
    if isinstance(entry, ToolCall):
        missing = "" if entry.n in answered else " (no result)"
        return f"[{entry.n}] tool_call {plain_name(entry.name)}{_agent(entry)}{missing}: "
    if isinstance(entry, ToolResult):
        whose = f"of {entry.call}" if entry.call is not None else "of no known call"
        id = f" id={plain_name(entry.id)}" if entry.call is None and entry.id is not None else ""
        return f"[{entry.n}] tool_result {whose}{id}{_agent(entry)} ({entry.status}): "
    return f"[{entry.n}] feedback{_feedback_fields(entry)}: "


def _agent(entry: Message | ToolCall | ToolResult) -> str:
    return "" if entry.agent is None else f" agent={plain_name(entry.agent)}"


def _feedback_fields(entry: Feedback) -> str:
    shown = ""
    for field in ("name", "sentiment", "user_id", "agent_name"):
        if (value := getattr(entry, field)) is not None:
            shown += f" {field}={plain_name(value)}"
    for field in ("value", "properties"):
        if (value := getattr(entry, field)) is not None:
            shown += f" {field}={one_line(json_text(value, sort_keys=True))}"
    return shown


def _content(entry: Entry, include_reasoning: bool) -> str:
    if isinstance(entry, ToolCall):
        if entry.args_text is not None:
            return f"[not JSON] {lines_of(entry.args_text)}"
        return "[no arguments]" if entry.args is None else lines_of(json_text(entry.args, sort_keys=True))
    if isinstance(entry, Feedback):
        return lines_of(entry.comments or "")
    parts = entry.parts
    if len(parts) == 1 and isinstance(parts[0], Text):
        return lines_of(parts[0].text) or "[empty]"
    return "\n| ".join([_part(part, include_reasoning) for part in parts]) or "[empty]"


def _part(part: Part, include_reasoning: bool) -> str:
    if isinstance(part, Text):
        return lines_of(part.text)
    if isinstance(part, Reasoning):
        return f"[reasoning] {lines_of(part.text)}" if include_reasoning else "[reasoning left out]"
    if isinstance(part, Refusal):
        return f"[refusal] {lines_of(part.text)}"
    if isinstance(part, Media):
        known = [part.mime and plain_name(part.mime), part.bytes is not None and f"{part.bytes} bytes"]
        named = part.name and f"name={plain_name(part.name)}"
        return f"[{' '.join([part.media, *(word for word in (*known, named) if word)])}]"
    label = one_line(part.label).replace("]", ")")
    return f"[{label}]" if part.text is None else f"[{label}] {lines_of(part.text)}"

"""Cline tasks: `ui_messages.json` (what the user saw), `api_conversation_history.json` (what the model got).

The second is Anthropic's messages in which Cline wraps what the user typed (`<task>`, `<feedback>`) and adds
its own blocks (`<environment_details>`), which are system messages here. The first has no results of file
tools: where both exist, the second tells more.
Shapes: github.com/cline/cline, `src/shared/ExtensionMessage.ts`.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.blocks import add_turn
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document, parse_json
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text
from sandbox_judge.conversation.parts import as_text, media
from sandbox_judge.conversation.rows import Row, Transcript, any_row, rows_of

NAME: Final = "cline"

_USER: Final = ("task", "user_feedback", "user_feedback_diff")
_ASKED: Final = ("followup", "plan_mode_respond", "act_mode_respond", "new_task", "condense")
_SAID: Final = ("text", "completion_result", "info", *_ASKED)
_FAILED: Final = ("error", "diff_error", "clineignore_error", "api_req_failed", "mistake_limit_reached")
# What gives a result, and the calls that it may belong to.
_RESULTS: Final = {
    "command_output": ("command",),
    "browser_action_result": ("browser_action", "browser_action_launch"),
    "mcp_server_response": ("use_mcp_server",),
}
_CALLS: Final = {
    "command": "execute_command",
    "tool": "",
    "use_mcp_server": "",
    "browser_action": "browser_action",
    "browser_action_launch": "browser_launch",
}
_WRAPPED: Final = re.compile(r"\s*<(task|feedback|user_message)>\n?(.*?)\n?</\1>\s*", re.DOTALL)
_ADDED: Final = re.compile(r"\s*<(environment_details|explicit_instructions|hook_context)\b")


def recognise(document: Document) -> bool:
    return any_row(document, _is_shown) or _is_history(document)


def read(document: Document) -> Iterator[Conversation]:
    transcript = Transcript(document)
    build = ConversationBuilder(NAME)
    if any_row(document, _is_shown):
        view = _View(build)
        for row in _joined(transcript.rows):
            if row.get("partial") is True or not view.add(row):
                transcript.leave_out(_kind(row))
    else:
        for row in transcript.rows:
            _turn(build, row)
    transcript.tell(build)
    yield build.build()


def _is_shown(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and row.get("type") in ("ask", "say")
        and isinstance(row.get(row["type"]), str)
        and "ts" in row
    )


def _is_history(document: Document) -> bool:
    rows = rows_of(document)
    first = rows[0] if rows else None
    content = first.get("content") if isinstance(first, dict) and first.get("role") == "user" else None
    if not isinstance(content, list) or len(content) < 2:
        return False
    texts = [as_text(b.get("text")) for b in content if isinstance(b, dict) and b.get("type") == "text"]
    return bool(texts) and texts[0].startswith("<task>") and any(map(_ADDED.match, texts))


def _kind(row: Row) -> str:
    return as_text(row.get(as_text(row.get("type"))) or row.get("type"))


def _joined(rows: list[Row]) -> list[Row]:
    """The rows with a command's output, which arrives in pieces, as one."""
    found: list[Row] = []
    pieces: list[str] | None = None
    at = 0
    for row in rows:
        kind = _kind(row)
        if kind == "command_output" and pieces is not None:
            pieces.append(as_text(row.get("text")))
            continue
        if pieces is not None and kind == "command":
            found[at] = {**found[at], "text": "\n".join(filter(None, pieces))}
            pieces = None
        if kind == "command_output":
            at, pieces = len(found), [as_text(row.get("text"))]
        found.append(row)
    if pieces is not None:
        found[at] = {**found[at], "text": "\n".join(filter(None, pieces))}
    return found


def _turn(build: ConversationBuilder, row: Row) -> None:
    """A message of the model's history: Cline's own blocks apart, the rest as Anthropic's."""
    role, content, time = row.get("role"), row.get("content"), row.get("ts")
    kept: list[Any] = []
    for block in content if isinstance(content, list) else [content]:
        text = block.get("text") if isinstance(block, dict) else block
        if role != "user" or not isinstance(text, str):
            kept.append(block)
        elif (added := _ADDED.match(text)) is not None:
            if kept:
                add_turn(build, role, kept, time=time)
                kept = []
            build.message("system", text, name=added[1], time=time)
        else:
            wrapped = _WRAPPED.fullmatch(text)
            kept.append({"type": "text", "text": wrapped[2] if wrapped else text})
    if kept:
        add_turn(build, role, kept, time=time)


class _View:
    """What the user saw of a task, row by row."""

    def __init__(self, build: ConversationBuilder) -> None:
        self.build = build
        # The entry of the latest call of each kind that gets a result: the view has no ids.
        self.called: dict[str, int] = {}

    def add(self, row: Row) -> bool:
        """What one row adds; False for one that holds no conversation."""
        build, kind, time = self.build, _kind(row), row.get("ts")
        text = as_text(row.get("text"))
        parts: list[Part] = [Text(text=text)] if text else []
        images = row.get("images")
        parts.extend(media("image", url=url) for url in (images if isinstance(images, list) else ()))
        if kind in _USER:
            build.status(None)
            build.message("user", parts, time=time)
        elif kind == "reasoning":
            build.message("assistant", [Reasoning(text=as_text(row.get("reasoning")) or text)], time=time)
        elif kind in _CALLS:
            self.called[kind] = _call(build, kind, text, time)
        elif kind in _RESULTS:
            call = next((self.called.pop(k) for k in _RESULTS[kind] if k in self.called), None)
            build.tool_result(parts, call=call, name=kind, time=time)
        elif kind in _SAID and parts:
            build.message("assistant", _asked(text, parts) if kind in _ASKED else parts, time=time)
        elif kind in _FAILED:
            build.message("system", [build.mark(kind, text)], time=time)
            if kind == "api_req_failed":
                build.failed(text)
        elif kind == "api_req_started" and (why := _field(text, "cancelReason")) is not None:
            build.message("system", [build.mark("cancelled", why)], time=time)
            build.cancelled(why)
        else:
            return False
        return True


def _asked(text: str, parts: list[Part]) -> list[Part]:
    """A question: newer versions write it as JSON with the choices offered."""
    held = _json(text)
    if not isinstance(held, dict):
        return parts
    told = held.get("question") or held.get("response") or held.get("context")
    options = held.get("options")
    listed = [f"- {as_text(option)}" for option in options] if isinstance(options, list) else []
    return [Text(text="\n".join([as_text(told), *listed])), *parts[1:]] if told is not None else parts


def _call(build: ConversationBuilder, kind: str, text: str, time: Any) -> int:
    if kind == "command":
        return build.tool_call(_CALLS[kind], {"command": text}, time=time)
    held = _json(text)
    args = dict(held) if isinstance(held, dict) else {"text": text}
    name: Any = _CALLS[kind]
    if kind == "tool":
        name = args.pop("tool", kind)
    elif kind == "use_mcp_server":
        name = args.get("toolName") or args.get("type") or kind
        given = args.get("arguments")
        inner = _json(given) if isinstance(given, str) else given
        args = {**args, "arguments": inner} if inner is not None else args
    return build.tool_call(name, args, time=time)


def _field(text: str, key: str) -> Any:
    held = _json(text)
    return held.get(key) if isinstance(held, dict) else None


def _json(text: str) -> Any:
    with contextlib.suppress(ValueError):
        return parse_json(text)
    return None

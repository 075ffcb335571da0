"""OpenCode: an exported session (`opencode export`), or the messages that its API gives, each with its parts.

Shapes: github.com/sst/opencode, `packages/opencode/src/session/message-v2.ts`. A turn that the user took back
(`revert`) is left out, with what followed it. Messages without their parts (the storage keeps these in files
of their own) are no conversation.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, media
from sandbox_judge.conversation.rows import alike, rows_of
from sandbox_judge.errors import InputError

NAME: Final = "opencode"

Json = dict[str, Any]

_SILENT: Final = ("step-start", "step-finish", "snapshot", "patch", "retry")
_OPEN: Final = ("pending", "running")
_ABORTED: Final = "MessageAbortedError"
_CUT: Final = "MessageOutputLengthError"


def recognise(document: Document) -> bool:
    first = document.values[0]
    if document.many:
        return _is_session(first) or _is_message(first)
    if isinstance(first, list):
        return bool(first) and (_is_session(first[0]) or _is_message(first[0]))
    return _is_session(first)


def read(document: Document) -> Iterator[Conversation]:
    rows = list(rows_of(document))
    if _is_message(rows[0]):
        yield _conversation({"info": {}, "messages": rows})
        return
    for _, row in alike(document, rows, _is_session, "OpenCode session"):
        yield _conversation(row)


def _is_message(value: Any) -> bool:
    info = value.get("info") if isinstance(value, dict) else None
    return (
        isinstance(info, dict) and isinstance(info.get("role"), str) and isinstance(value.get("parts"), list)
    )


def _is_session(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("info"), dict):
        return False
    messages = value.get("messages")
    return (
        isinstance(messages, list)
        and (not messages or _is_message(messages[0]))
        and "role" not in value["info"]
    )


def _conversation(session: Json) -> Conversation:
    info, messages = session["info"], session["messages"]
    for number, message in enumerate(messages, 1):
        if not _is_message(message):
            raise InputError(
                f"Message {number} of the session has no parts, as the first has.", where=f"message {number}"
            )
    id = info.get("id") or next((m["info"].get("sessionID") for m in messages), None)
    build = ConversationBuilder(NAME, id=id)
    standing = _standing(messages, info.get("revert"))
    if len(standing) < len(messages):
        gone = len(messages) - len(standing)
        build.warn("branch_left_out", f"{gone} messages were taken back by the user and were left out")
    # A child session is a subagent's.
    nested = info.get("parentID") is not None
    for message in standing:
        about = message["info"]
        agent = (as_text(about.get("agent") or about.get("mode")) or "subagent") if nested else None
        _message(build, about, message["parts"], agent)
    return build.build()


def _standing(messages: list[Json], revert: Any) -> list[Json]:
    """The messages before the one that the session was taken back to."""
    named = revert.get("messageID") if isinstance(revert, dict) else None
    if named is None:
        return messages
    at = next((n for n, message in enumerate(messages) if message["info"].get("id") == named), len(messages))
    return messages[:at]


def _message(build: ConversationBuilder, info: Json, parts: list[Any], agent: str | None) -> None:
    role, times = info.get("role"), info.get("time")
    time = times.get("created") if isinstance(times, dict) else times
    if role == "user":
        build.status(None)
    instructions = info.get("system")
    if isinstance(instructions, str) and instructions:
        build.message("system", instructions, agent=agent, time=time)
    said: list[Part] = []
    added = False
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _SILENT:
            continue
        written = isinstance(part, dict) and part.get("synthetic") is True and role == "user"
        if kind != "tool" and not written:
            said.append(_part(build, part))
            continue
        if said:
            build.message(role, said, agent=agent, time=time)
        said, added = [], True
        if written:
            build.message("system", [_part(build, part)], name="synthetic", agent=agent, time=time)
        else:
            _tool(build, part, agent, time)
    _ending(build, info.get("error"), said)
    if said or not added:
        name = "compaction" if info.get("summary") is True else None
        build.message(role, said, name=name, agent=agent, time=time)


def _ending(build: ConversationBuilder, error: Any, said: list[Part]) -> None:
    """How an assistant's message ended, where it did not end well."""
    if not error:
        return
    held = error if isinstance(error, dict) else {"data": error}
    data = held.get("data")
    told = data.get("message", data or None) if isinstance(data, dict) else data
    name = as_text(held.get("name")) or "error"
    said.append(build.mark("truncated" if name == _CUT else name, told))
    if name == _ABORTED:
        build.cancelled(told)
    elif name != _CUT:
        build.failed(told or name)


def _part(build: ConversationBuilder, part: Any) -> Part:
    if not isinstance(part, dict):
        return build.unknown("part", part)
    kind = part.get("type")
    if kind == "text":
        return Text(text=as_text(part.get("text")))
    if kind == "reasoning":
        return Reasoning(text=as_text(part.get("text")))
    if kind == "file":
        return media(mime=part.get("mime"), url=part.get("url"), name=part.get("filename"))
    if kind == "agent":
        return Unknown(label="agent", text=as_text(part.get("name")) or None)
    if kind == "subtask":
        told = [as_text(part.get(key)) for key in ("agent", "description", "prompt")]
        return Unknown(label="subtask", text="\n".join(filter(None, told)) or None)
    if kind == "compaction":
        return Unknown(label="compacted")
    return build.unknown(kind, part)


def _tool(build: ConversationBuilder, part: Json, agent: str | None, time: Any) -> None:
    given = part.get("state")
    state = given if isinstance(given, dict) else {}
    times = state.get("time")
    times = times if isinstance(times, dict) else {}
    id, name = part.get("callID"), part.get("tool")
    build.tool_call(name, state.get("input"), id=id, agent=agent, time=times.get("start") or time)
    status = state.get("status")
    if status in _OPEN or not state:
        return
    failed = status == "error"
    told = state.get("error") if failed else state.get("output")
    parts: list[Part] = [] if told is None else [Text(text=as_text(told))]
    attached = state.get("attachments")
    parts.extend(_part(build, item) for item in (attached if isinstance(attached, list) else ()))
    build.tool_result(parts, id=id, name=name, error=failed, agent=agent, time=times.get("end") or time)

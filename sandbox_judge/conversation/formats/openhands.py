"""OpenHands: the events of a conversation, one a row or a file, of the SDK (V1) and of the older app (V0).

Shapes: github.com/OpenHands/software-agent-sdk, `openhands/sdk/event`; V0 in `openhands_events`. Events may
stand in JSON Lines, a list, or under `events`, `items` or `history`.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.openhands_events import add_old_event, is_old_event
from sandbox_judge.conversation.parts import as_text, media
from sandbox_judge.conversation.rows import Row, Transcript, any_row

NAME: Final = "openhands"

_SOURCES: Final = ("user", "agent", "environment", "hook")
_LISTS: Final = ("events", "items", "history", "trajectory")
# Bookkeeping: what the language model was sent, counters, pauses, requests that other events answer.
_SILENT: Final = frozenset(
    {
        "LLMCompletionLogEvent",
        "TokenEvent",
        "StreamingDeltaEvent",
        "CondensationRequest",
        "PauseEvent",
        "InterruptEvent",
    }
)
_FAILED: Final = ("error", "stuck")


def recognise(document: Document) -> bool:
    return any_row(_unwrapped(document)[0], lambda row: _is_event(row) or is_old_event(row))


def read(document: Document) -> Iterator[Conversation]:
    inner, wrapper = _unwrapped(document)
    transcript = Transcript(inner)
    id = wrapper.get("conversation_id") or wrapper.get("id")
    build = ConversationBuilder(NAME, id=id)
    for row in transcript.rows:
        added = add_old_event(build, row) if is_old_event(row) else _event(build, row)
        if not added:
            key = row.get("key")
            kind = as_text(row.get("kind") or row.get("action") or row.get("observation"))
            transcript.leave_out(f"{kind}/{key}" if isinstance(key, str) else kind)
    if wrapper.get("next_page_id") is not None:
        build.missing("the events have a next page, which was not given")
    transcript.tell(build)
    yield build.build()


def _unwrapped(document: Document) -> tuple[Document, Row]:
    first = document.values[0]
    if not document.many and isinstance(first, dict):
        for key in _LISTS:
            if isinstance(first.get(key), list) and first[key]:
                return Document(values=(first[key],)), first
    return document, {}


def _is_event(value: Any) -> bool:
    kind = value.get("kind") if isinstance(value, dict) else None
    return (
        isinstance(kind, str)
        and value.get("source") in _SOURCES
        and (
            kind.endswith("Event") or kind in ("Condensation", "CondensationRequest", "UserRejectObservation")
        )
    )


def _event(build: ConversationBuilder, event: Row) -> bool:
    """The entries of one event of the SDK; False for one that holds no conversation."""
    kind, time = as_text(event.get("kind")), event.get("timestamp")
    if kind == "MessageEvent":
        _message(build, event, time)
    elif kind == "ActionEvent":
        _action(build, event, time)
    elif kind == "ObservationEvent":
        _observation(build, event, time)
    elif kind in ("AgentErrorEvent", "UserRejectObservation"):
        told = event.get("error", event.get("rejection_reason"))
        build.tool_result(
            as_text(told), id=event.get("tool_call_id"), name=event.get("tool_name"), error=True, time=time
        )
    elif kind == "SystemPromptEvent":
        parts = [p for k in ("system_prompt", "dynamic_context") for p in _content(build, event.get(k))]
        build.message("system", parts, time=time)
    elif kind in ("Condensation", "CondensationSummaryEvent"):
        build.message(
            "system", [Unknown(label="compacted", text=as_text(event.get("summary")) or None)], time=time
        )
    elif kind == "ConversationErrorEvent":
        told = " ".join(as_text(event[key]) for key in ("code", "detail") if event.get(key))
        build.message("system", [build.mark("error", told)], time=time)
        build.failed(told)
    elif kind == "ConversationStateUpdateEvent":
        _state(build, event)
        return False
    elif not kind or kind in _SILENT:
        return False
    else:
        build.message("system", [build.unknown(kind, _without_frame(event))], time=time)
    return True


def _without_frame(event: Row) -> Row:
    return {key: value for key, value in event.items() if key not in ("id", "timestamp", "kind")}


def _state(build: ConversationBuilder, event: Row) -> None:
    """What a change of state says of how the conversation stands."""
    key, value = event.get("key"), event.get("value")
    if key == "full_state" and isinstance(value, dict):
        key, value = "execution_status", value.get("execution_status")
    if key == "execution_status":
        if value in _FAILED:
            build.failed(value)
        else:
            build.status(None)


def _thoughts(held: Row) -> list[Part]:
    if isinstance(text := held.get("reasoning_content"), str) and text:
        return [Reasoning(text=text)]
    blocks = held.get("thinking_blocks")
    texts = [b.get("thinking") for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
    return [Reasoning(text=as_text(text)) for text in texts if text]


def _message(build: ConversationBuilder, event: Row, time: Any) -> None:
    held = event.get("llm_message")
    held = held if isinstance(held, dict) else {"content": held}
    role = held.get("role") or ("user" if event.get("source") == "user" else "assistant")
    parts = [*_thoughts(held), *_content(build, held.get("content"))]
    build.message(role, parts, name=event.get("sender"), time=time)
    if (added := event.get("extended_content")) not in (None, []):
        build.message("system", _content(build, added), name="extended_content", time=time)


def _action(build: ConversationBuilder, event: Row, time: Any) -> None:
    said = [*_thoughts(event), *_content(build, event.get("thought"))]
    if said:
        build.message("assistant", said, time=time)
    call, action = event.get("tool_call"), event.get("action")
    held = call if isinstance(call, dict) else {}
    function = held.get("function")
    asked = function if isinstance(function, dict) else held
    arguments = asked.get("arguments")
    if arguments is None:
        arguments = {k: v for k, v in action.items() if k != "kind"} if isinstance(action, dict) else action
    name = event.get("tool_name") or asked.get("name")
    build.tool_call(name, arguments, id=event.get("tool_call_id") or held.get("id"), time=time)


def _observation(build: ConversationBuilder, event: Row, time: Any) -> None:
    held = event.get("observation")
    held = held if isinstance(held, dict) else {"content": held}
    content = next((held[key] for key in ("content", "output", "text") if held.get(key) is not None), None)
    if content is None:
        content = as_text({key: value for key, value in held.items() if key != "kind"})
    failed = held.get("is_error") is True or held.get("exit_code") not in (None, 0, -1)
    build.tool_result(
        _content(build, content),
        id=event.get("tool_call_id"),
        name=event.get("tool_name"),
        error=failed,
        time=time,
    )


def _content(build: ConversationBuilder, content: Any) -> list[Part]:
    parts: list[Part] = []
    for block in content if isinstance(content, list) else [content]:
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, str):
            parts.append(Text(text=block))
        elif kind == "image" and isinstance(urls := block.get("image_urls"), list):
            parts.extend(media("image", url=url) for url in urls)
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            parts.append(Text(text=block["text"]))
        elif block is not None:
            parts.append(build.unknown(kind, block))
    return parts

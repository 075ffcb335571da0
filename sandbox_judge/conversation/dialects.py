"""Messages of any provider or framework as acts: whole requests and responses, lists of messages, one of
them, the events of older conventions. What is no message is told apart, never guessed. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sandbox_judge.conversation.acts import Act, Answered, Called, Said
from sandbox_judge.conversation.dialect_parts import answered, called, part_acts, plain_parts, thought
from sandbox_judge.conversation.model import Part, Reasoning, Refusal, Text
from sandbox_judge.conversation.parts import as_text, media, unknown
from sandbox_judge.conversation.ui_parts import is_ui_part, ui_acts

_LANGCHAIN: Final[Mapping[str, str]] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "function",
    "developer": "system",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "function",
}
# Class names of LangChain's serialised messages, without their endings.
_CLASSES: Final[Mapping[str, str]] = {
    "Human": "user",
    "AI": "assistant",
    "System": "system",
    "Tool": "tool",
    "Function": "function",
    "Chat": "",
    "Remove": "",
}
_EVENTS: Final[Mapping[str, str]] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
_TOOL_ROLES: Final = frozenset({"tool", "function", "ipython", "toolResult", "tool_result"})
_MARKS: Final[Mapping[str, str]] = {
    "length": "truncated",
    "max_tokens": "truncated",
    "max_output_tokens": "truncated",
    "MAX_TOKENS": "truncated",
    "model_context_window_exceeded": "truncated",
    "content_filter": "content_filter",
    "content-filter": "content_filter",
    "SAFETY": "content_filter",
    "refusal": "refused",
    "error": "error",
}
# Types of OpenAI Responses items, which have no role or are told by their type.
_ITEMS: Final = frozenset(
    {
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "mcp_call",
        "reasoning",
    }
)
# Under these a request may hold the user's words as text.
_TEXTS: Final = ("prompt", "input", "contents")
_MAX_DEPTH: Final = 6


def marks_of(*reasons: Any) -> tuple[str, ...]:
    """What finish reasons say that a reader must know: cut off, filtered, refused."""
    found = [_MARKS[reason] for reason in reasons if isinstance(reason, str) and reason in _MARKS]
    return tuple(dict.fromkeys(found))


def acts_of(value: Any, role: str, depth: int = 0) -> list[Act] | None:
    """The acts of a message, of a list of them, or of a request or response that holds them; None where
    `value` is none of these. `role` is that of messages which name none (a response's)."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        return _listed(value, role, depth)
    if not isinstance(value, dict):
        return None
    if (message := as_message(value)) is not None:
        return message_acts(message, role)
    return _holder(value, role, depth)


def _listed(value: list[Any], role: str, depth: int) -> list[Act] | None:
    """The acts of a list in which something is a message; what else stands in it is kept as placeholders."""
    inner = [
        acts_of(item, role, depth + 1) if isinstance(item, dict | list) and not _is_definition(item) else None
        for item in value
    ]
    if value and all(acts is None for acts in inner):
        return None
    found: list[Act] = []
    for item, acts in zip(value, inner, strict=True):
        if acts is not None:
            found.extend(acts)
        elif isinstance(item, str):
            found.append(Said(role=role, parts=(Text(text=item),)))
        elif item is not None and not _is_definition(item):
            kind = item.get("type") if isinstance(item, dict) else None
            found.append(Said(role=role, parts=(unknown(kind or "item", item),)))
    return found


def _is_definition(item: Any) -> bool:
    """A tool's definition, which some tracers write among the messages (as a tool's message, at that)."""
    if not isinstance(item, dict):
        return False
    held = item.get("content") if item.get("role") == "tool" and "tool_call_id" not in item else item
    function = held.get("function") if isinstance(held, dict) and held.get("type") == "function" else None
    return (isinstance(function, dict) and "parameters" in function) or set(item) == {"tools"}


def as_message(value: dict[str, Any]) -> dict[str, Any] | None:
    """`value` as a message with a role where it is one, whichever serialisation it is in; else None."""
    if isinstance(value.get("lc"), int) and isinstance(value.get("id"), list) and value["id"]:
        return _constructed(value)
    if isinstance(value.get("message"), dict) and not {"choices", "messages"} & set(value):
        inner = as_message({"role": "assistant", **value["message"]})
        return None if inner is None else {**{k: v for k, v in value.items() if k in _BESIDE}, **inner}
    kind, event = value.get("type"), value.get("event.name")
    if isinstance(event, str) and event in _EVENTS:
        return {"role": _EVENTS[event], **value}
    if isinstance(kind, str) and kind in _LANGCHAIN and isinstance(value.get("data"), dict):
        return as_message({**value["data"], "type": kind})
    if isinstance(kind, str) and kind in _LANGCHAIN and "content" in value and "role" not in value:
        return {**value, "role": _LANGCHAIN[kind]}
    if kind == "chat" and isinstance(value.get("role"), str):
        return value
    if isinstance(kind, str) and kind in _ITEMS and ("role" not in value or kind == "reasoning"):
        return {"role": "assistant", "content": [value]}
    if isinstance(value.get("role"), str) and any(key in value for key in _SPEECH):
        return value
    if isinstance(value.get("toolCallId"), str) and isinstance(value.get("toolName"), str):
        return {"role": "assistant", "content": [{"type": "tool-call", **value}]}
    if isinstance(value.get("parts"), list) and "role" not in value and "type" not in value:
        return {**value, "role": ""}
    return None


_BESIDE: Final = frozenset({"finish_reason", "finishReason", "stop_reason"})
_SPEECH: Final = (
    "content",
    "parts",
    "text",
    "contents",
    "blocks",
    "tool_calls",
    "function_call",
    "refusal",
    "reasoning_content",
    "audio",
    "message",
    "tool_call_id",
    "finish_reason",
)


def _constructed(value: dict[str, Any]) -> dict[str, Any] | None:
    """LangChain's `dumpd` of a message (`lc`, `type: constructor`)."""
    name, held = value["id"][-1], value.get("kwargs")
    if not isinstance(name, str) or not isinstance(held, dict):
        return None
    stem = name.removesuffix("Chunk").removesuffix("Message")
    if stem not in _CLASSES or stem == name:
        return None
    role = _CLASSES[stem] or as_text(held.get("role")) or stem.lower()
    return {**{k: v for k, v in held.items() if k != "type"}, "role": role}


def message_acts(message: dict[str, Any], role: str) -> list[Act]:
    """The acts of one message: what is said between calls and results stays between them."""
    said_role = message.get("role")
    who = said_role if isinstance(said_role, str) and said_role else role
    time = next((message[k] for k in ("timestamp", "createdAt", "created_at") if message.get(k)), None)
    content = _content(message)
    if who in _TOOL_ROLES and not _holds_results(content):
        result = answered({**message, "output": None, "result": None, "response": None}, content)
        return [_timed(result, time)]
    turn = _Turn(who, message.get("name"), time)
    turn.extend(_reasoning(message))
    turn.extend(ui_acts(content) if _is_ui(content) else part_acts(content, who))
    turn.extend(_beside(message, turn.call_ids))
    reasons = (message.get("finish_reason"), message.get("stop_reason"), _metadata_reason(message))
    return turn.close(marks_of(*reasons))


class _Turn:
    """The acts of one turn as they come: parts are collected until a call or a result stands between."""

    def __init__(self, role: str, name: Any, time: Any) -> None:
        self._role, self._name, self._time = role, name, time
        self._parts: list[Part] = []
        self._acts: list[Act] = []
        self.call_ids: set[str | None] = set()

    def extend(self, items: Iterable[Act | Part]) -> None:
        for item in items:
            self._add(item)

    def _add(self, item: Act | Part) -> None:
        if not isinstance(item, Said | Called | Answered):
            self._parts.append(item)
            return
        self._flush()
        if isinstance(item, Called):
            self.call_ids.add(item.id)
        self._acts.append(item if isinstance(item, Said) else _timed(item, self._time))

    def close(self, marks: tuple[str, ...]) -> list[Act]:
        """All acts. A text without a character beside calls says nothing; an empty turn stays one."""
        if self._parts or marks or not self._acts:
            self._flush(marks, always=True)
        return self._acts

    def _flush(self, marks: tuple[str, ...] = (), *, always: bool = False) -> None:
        parts = tuple(p for p in self._parts if not isinstance(p, Text | Reasoning) or p.text)
        self._parts = []
        if parts or marks or (always and not self._acts):
            self._acts.append(
                Said(role=self._role, parts=parts, name=self._name, marks=marks, time=self._time)
            )


def _timed(act: Called | Answered, time: Any) -> Act:
    if time is None or act.time is not None:
        return act
    if isinstance(act, Called):
        return Called(name=act.name, arguments=act.arguments, id=act.id, time=time)
    return Answered(parts=act.parts, id=act.id, name=act.name, error=act.error, time=time)


def _content(message: Mapping[str, Any]) -> Any:
    for key in ("content", "parts", "contents", "blocks", "text"):
        if message.get(key) is not None and message.get(key) != []:
            return message[key]
    return None


def _holds_results(content: Any) -> bool:
    """Whether a tool message's content consists of result parts, which carry ids and names of their own."""
    return isinstance(content, list) and any(
        isinstance(block, dict)
        and (
            block.get("type") in ("tool-result", "tool_call_response", "tool_result", "function_call_output")
            or "function_response" in block
            or "functionResponse" in block
        )
        for block in content
    )


def _is_ui(content: Any) -> bool:
    return isinstance(content, list) and any(is_ui_part(block) for block in content)


def _reasoning(message: Mapping[str, Any]) -> Iterator[Part]:
    extra = message.get("additional_kwargs")
    held = {**extra, **message} if isinstance(extra, dict) else message
    for key in ("reasoning_content", "reasoning", "thinking"):
        value = held.get(key)
        if isinstance(value, str) and value:
            yield Reasoning(text=value)
            return
        if isinstance(value, list | dict) and value:
            yield thought({"content": value} if isinstance(value, list) else value)
            return


def _beside(message: Mapping[str, Any], seen: set[str | None]) -> Iterator[Act | Part]:
    """What stands beside the content: refusal, sound, calls (without those that the content held)."""
    extra = message.get("additional_kwargs")
    extra = extra if isinstance(extra, dict) else {}
    refusal = message.get("refusal") or extra.get("refusal")
    if refusal:
        yield Refusal(text=as_text(refusal))
    audio = message.get("audio") or extra.get("audio")
    if isinstance(audio, dict):
        yield media("audio", base64=audio.get("data"), name=audio.get("id"))
        if isinstance(transcript := audio.get("transcript"), str) and transcript:
            yield Text(text=transcript)
    calls = [*_list(message.get("tool_calls")), *_list(message.get("invalid_tool_calls"))]
    calls = calls or _list(message.get("toolCalls")) or _list(extra.get("tool_calls"))
    for call in calls:
        act = called(call) if isinstance(call, dict) else Called(name="", arguments=call)
        if act.id is None or act.id not in seen:
            yield act
    legacy = message.get("function_call") or extra.get("function_call")
    if isinstance(legacy, dict) and not calls:
        yield called(legacy)


def _metadata_reason(message: Mapping[str, Any]) -> Any:
    held = message.get("response_metadata")
    if not isinstance(held, dict):
        return None
    return held.get("finish_reason", held.get("stop_reason"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _holder(value: dict[str, Any], role: str, depth: int) -> list[Act] | None:
    """The acts of an object that holds messages: a request, a response, a state."""
    found: list[Act] = []
    config = value.get("config")
    system = next(
        (
            held[key]
            for held in (value, config if isinstance(config, dict) else {})
            for key in ("system", "system_instruction", "systemInstruction", "instructions")
            if isinstance(held.get(key), str | list | dict) and held[key]
        ),
        None,
    )
    for key in ("messages", "contents", "input", "prompt", "new_message", "history", "chat_history"):
        held = value.get(key)
        if isinstance(held, str) and held and key in _TEXTS and _is_request(value):
            found.append(Said(role="user", parts=(Text(text=held),)))
            break
        if key in _TEXTS and isinstance(held, list) and held and all(isinstance(t, str) for t in held):
            found.extend(Said(role="user", parts=(Text(text=item),)) for item in held)
            break
        if isinstance(held, list | dict) and held:
            inner = acts_of(held, "user", depth + 1)
            if inner is None:
                return None
            found.extend(inner)
            break
    else:
        return _response(value, role, depth)
    if system is not None:
        found.insert(0, Said(role="system", parts=plain_parts(_system(system))))
    return found


def _is_request(value: dict[str, Any]) -> bool:
    """Whether a `prompt` or `input` text is that of a model and not a tool's argument."""
    return ("prompt" in value and set(value) <= {"prompt", "system", "messages"}) or "model" in value


def _system(system: Any) -> Any:
    if isinstance(system, dict) and isinstance(system.get("parts"), list):
        system = system["parts"]
    if isinstance(system, list) and all(
        isinstance(p, dict) and isinstance(p.get("text"), str) for p in system
    ):
        return [{"type": "text", "text": part["text"]} for part in system]
    return system


def _response(value: dict[str, Any], role: str, depth: int) -> list[Act] | None:
    for key in ("choices", "candidates", "generations", "output"):
        held = value.get(key)
        if isinstance(held, list) and held:
            found: list[Act] = []
            for item in held:
                inner = acts_of(_alternative(item), role, depth + 1)
                if inner is None:
                    return None
                found.extend(inner)
            return found
    content = value.get("content")
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        reason = value.get("finish_reason", value.get("finishReason"))
        return message_acts({"role": role, "finish_reason": reason, **content}, role)
    if value.get("type") == "message" and isinstance(content, list):
        return message_acts(value, role)
    return None


def _alternative(item: Any) -> Any:
    """One choice, candidate or generation as a message."""
    if isinstance(item, dict):
        reason = item.get("finish_reason", item.get("finishReason"))
        if isinstance(item.get("content"), dict):
            return {"role": "assistant", "finish_reason": reason, **item["content"]}
        if "message" not in item and isinstance(item.get("text"), str) and item.get("role") is None:
            return {"role": "assistant", "content": item["text"], "finish_reason": reason}
    if isinstance(item, list):
        return [_alternative(inner) for inner in item]
    return item

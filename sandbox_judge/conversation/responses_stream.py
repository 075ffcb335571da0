"""A streamed answer of OpenAI's Responses API put together again. Pure; pieces are joined once."""

from typing import Any, Final

from sandbox_judge.conversation.parts import as_text

_ENDS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done"}
)
# Where the pieces of an item go, by the event's type: a text of its content, of its summary, or of itself.
_PIECES: Final = {
    "response.output_text.delta": ("content", "output_text", "text"),
    "response.refusal.delta": ("content", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "text"),
    "response.function_call_arguments.delta": ("arguments", "", ""),
    "response.mcp_call_arguments.delta": ("arguments", "", ""),
    "response.custom_tool_call_input.delta": ("input", "", ""),
    "response.code_interpreter_call_code.delta": ("code", "", ""),
}


def is_stream(value: Any) -> bool:
    """Is this the events of a streamed response, whole or from some point on?"""
    if not isinstance(value, list):
        return False
    kinds = [_payload(event).get("type") for event in value[:3]]
    return any(isinstance(kind, str) and kind.startswith("response.") for kind in kinds)


def response_of(events: list[Any]) -> dict[str, Any]:
    """The response that a stream's events add up to. One that broke off has status `in_progress`."""
    response: dict[str, Any] = {"object": "response", "status": "in_progress", "output": []}
    items: dict[int, dict[str, Any]] = {}
    finished: set[int] = set()
    pieces: dict[tuple[int, str, int], tuple[str, list[str]]] = {}
    for event in map(_payload, events):
        kind, index = as_text(event.get("type")), _number(event.get("output_index"))
        if isinstance(event.get("response"), dict):
            response = {**response, **event["response"]}
            if kind in _ENDS and event["response"].get("output"):
                return response
        elif kind == "response.output_item.done" and isinstance(event.get("item"), dict):
            items[index] = event["item"]
            finished.add(index)
        elif kind == "response.output_item.added" and isinstance(event.get("item"), dict):
            items[index] = dict(event["item"])
        elif kind == "error":
            response.update(status="failed", error=event.get("error", event))
        elif kind in _PIECES and isinstance(event.get("delta"), str):
            place = _PIECES[kind]
            part = _number(event.get("content_index", event.get("summary_index")))
            pieces.setdefault((index, place[0], part), (kind, []))[1].append(event["delta"])
    for (index, held, _part), (kind, texts) in sorted(pieces.items()):
        if index in finished:
            continue
        item = items.setdefault(index, {"type": "message", "role": "assistant", "content": []})
        _, part_type, key = _PIECES[kind]
        if part_type:
            item[held] = [*_list(item.get(held)), {"type": part_type, key: "".join(texts)}]
        else:
            item[held] = as_text(item.get(held)) + "".join(texts)
    return {**response, "output": [items[index] for index in sorted(items)]}


def _payload(event: Any) -> dict[str, Any]:
    """The event itself, or what a recorder wrapped as `{"event", "data"}`."""
    if not isinstance(event, dict):
        return {}
    inner = event.get("data")
    return inner if "type" not in event and isinstance(inner, dict) else event


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

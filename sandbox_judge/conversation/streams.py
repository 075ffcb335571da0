"""Streamed answers put together again: the message that a provider's events add up to. Pure.

A stream that broke off gives what had arrived. Pieces of text are collected and joined once, so that long
streams stay linear.
"""

from typing import Any

from sandbox_judge.conversation.parts import as_text


def completion_of(chunks: list[Any]) -> dict[str, Any]:
    """The chat completion of `chat.completion.chunk` objects, or of the events of Cohere's chat."""
    choices: dict[int, dict[str, Any]] = {}
    for chunk in map(_cohere_chunk, chunks):
        listed = chunk.get("choices") if isinstance(chunk, dict) else None
        for piece in listed if isinstance(listed, list) else ():
            if not isinstance(piece, dict):
                continue
            choice = choices.setdefault(_index(piece), {"texts": {}, "calls": {}, "finish_reason": None})
            choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]
            delta = piece.get("delta")
            if isinstance(delta, dict):
                _add_delta(choice, delta)
    return {"choices": [_choice(choices[index]) for index in sorted(choices)]}


def message_of(events: list[Any]) -> dict[str, Any] | None:
    """The Anthropic message of a stream's events, or None where no message began."""
    message: dict[str, Any] | None = None
    blocks: dict[int, dict[str, Any]] = {}
    pieces: dict[tuple[int, str], list[str]] = {}
    for event in events:
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "message_start" and isinstance(event.get("message"), dict):
            message = {**event["message"], "content": []}
        elif kind == "content_block_start" and isinstance(event.get("content_block"), dict):
            blocks[_index(event)] = dict(event["content_block"])
        elif kind == "content_block_delta" and isinstance(event.get("delta"), dict):
            for key in ("text", "thinking", "partial_json"):
                if isinstance(text := event["delta"].get(key), str):
                    pieces.setdefault((_index(event), key), []).append(text)
        elif kind == "message_delta" and isinstance(event.get("delta"), dict) and message is not None:
            message.update({key: value for key, value in event["delta"].items() if value is not None})
    if message is None:
        return None
    for (index, key), texts in pieces.items():
        block = blocks.setdefault(index, {"type": "text"})
        if key == "partial_json":
            block["input"] = "".join(texts)
        else:
            block[key] = as_text(block.get(key)) + "".join(texts)
    return {**message, "content": [blocks[index] for index in sorted(blocks)]}


def _add_delta(choice: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if key == "tool_calls" and isinstance(value, list):
            for piece in value:
                if isinstance(piece, dict):
                    call = choice["calls"].setdefault(
                        _index(piece), {"id": None, "name": [], "arguments": []}
                    )
                    call["id"] = piece.get("id") or call["id"]
                    _add_function(call, piece.get("function"))
        elif key == "content" and isinstance(value, list):
            # Mistral's thinking comes as blocks.
            choice.setdefault("blocks", []).extend(value)
        elif key == "function_call":
            _add_function(choice.setdefault("legacy", {"name": [], "arguments": []}), value)
        elif isinstance(value, str) and key != "role":
            choice["texts"].setdefault(key, []).append(value)


def _add_function(call: dict[str, Any], piece: Any) -> None:
    for key in ("name", "arguments"):
        if isinstance(piece, dict) and isinstance(text := piece.get(key), str):
            call[key].append(text)


def _choice(choice: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {key: "".join(texts) for key, texts in choice["texts"].items()}
    message.setdefault("content", None)
    if "blocks" in choice:
        said = [{"type": "text", "text": message["content"]}] if message["content"] else []
        message["content"] = [*_joined_thinking(choice["blocks"]), *said]
    if choice["calls"]:
        message["tool_calls"] = [
            {"id": call["id"], "function": _function(call)} for _, call in sorted(choice["calls"].items())
        ]
    if "legacy" in choice:
        message["function_call"] = _function(choice["legacy"])
    return {"message": message, "finish_reason": choice["finish_reason"]}


def _joined_thinking(blocks: list[Any]) -> list[Any]:
    """The blocks of a streamed message, with the pieces of its thinking made one block."""
    thoughts: list[Any] = []
    others: list[Any] = []
    for block in blocks:
        thinking = (
            block.get("thinking") if isinstance(block, dict) and block.get("type") == "thinking" else None
        )
        if isinstance(thinking, list):
            thoughts.extend(as_text(t.get("text")) if isinstance(t, dict) else as_text(t) for t in thinking)
        else:
            others.append(block)
    return [*([{"type": "thinking", "thinking": "".join(thoughts)}] if thoughts else []), *others]


def _cohere_chunk(event: Any) -> Any:
    """An event of Cohere's chat (v2) as the chunk that others would send; anything else as it is."""
    delta = event.get("delta") if isinstance(event, dict) and "choices" not in event else None
    if not isinstance(delta, dict):
        return event
    message = delta.get("message")
    message = message if isinstance(message, dict) else {}
    content, call = message.get("content"), message.get("tool_calls")
    piece: dict[str, Any] = {"tool_plan": message.get("tool_plan")}
    if isinstance(content, dict):
        piece.update(content=content.get("text"), thinking=content.get("thinking"))
    if isinstance(call, dict):
        piece["tool_calls"] = [{**call, "index": event.get("index")}]
    return {"choices": [{"index": 0, "delta": piece, "finish_reason": delta.get("finish_reason")}]}


def _function(call: dict[str, Any]) -> dict[str, str]:
    return {"name": "".join(call["name"]), "arguments": "".join(call["arguments"])}


def _index(piece: dict[str, Any]) -> int:
    index = piece.get("index")
    return index if isinstance(index, int) else 0

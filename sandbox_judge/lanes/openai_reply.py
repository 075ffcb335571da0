"""From the bytes of a chat completion to a `Reply`. Pure; whatever the bytes, raises only ModelFailure."""

import json
from typing import Any, Final

from sandbox_judge.lanes.base import Finish, ModelFailure, Reply, ToolUse, Usage, Wire
from sandbox_judge.lanes.failures import decoded, of_status, upstream_of

# Words of OpenAI's format, and those that gateways to other providers let through.
_FINISH: Final[dict[str, Finish]] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
}
_TEXT_PARTS: Final = ("text", "output_text")


def read_reply(body: bytes, wire: Wire, *, secrets: tuple[str | None, ...], now: float) -> Reply:
    """The reply in the body of a 200. Raises ModelFailure: `provider_error` for HTML, no JSON, no choices;
    for an error body, which some gateways send under 200, what its own code means."""
    try:
        value = decoded(body)
    except ValueError as error:
        raise ModelFailure("provider_error", f"HTTP 200 with {_look(body)} instead of JSON") from error
    return reply_of(value, wire, secrets=secrets, now=now)


def reply_of(value: Any, wire: Wire, *, secrets: tuple[str | None, ...], now: float) -> Reply:
    """The same from the decoded body."""
    if not isinstance(value, dict):
        raise ModelFailure("provider_error", "HTTP 200 with JSON that is no chat completion")
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    for holder in (value, first):
        if isinstance(holder, dict) and holder.get("error"):
            raise _error_under_200(holder, secrets, now)
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        raise ModelFailure("provider_error", "HTTP 200 without a choice that holds a message")
    message = first["message"]
    text, refusal, reasoning = _content(message.get("content"))
    own_refusal = message.get("refusal")
    model = value.get("model")
    return Reply(
        wire=wire,
        text=text,
        refusal=own_refusal if isinstance(own_refusal, str) and own_refusal.strip() else refusal,
        finish=finish_of(first.get("finish_reason")),
        reasoning=reasoning
        or any(
            message.get(k) for k in ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
        ),
        tool_calls=tool_calls_of(message.get("tool_calls")),
        response_model=model[:255] if isinstance(model, str) and model else None,
        usage=usage_of(value.get("usage")),
    )


def finish_of(word: Any) -> Finish | None:
    """None for null and for unknown words: no proof that the reply is whole."""
    return _FINISH.get(word.lower()) if isinstance(word, str) else None


def usage_of(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    usage = Usage(
        input_tokens=_count(value.get("prompt_tokens", value.get("input_tokens"))),
        output_tokens=_count(value.get("completion_tokens", value.get("output_tokens"))),
    )
    return None if usage == Usage() else usage


def tool_calls_of(value: Any) -> tuple[ToolUse, ...]:
    """The tool calls that have a function with a name; arguments as text, whatever they came as."""
    calls = []
    for number, call in enumerate(value if isinstance(value, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            continue
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = "{}" if arguments is None else json.dumps(arguments)
        own_id = call.get("id")
        calls.append(
            ToolUse(
                id=own_id if isinstance(own_id, str) and own_id else f"call_{number}",
                name=function["name"],
                arguments=arguments,
            )
        )
    return tuple(calls)


def _content(content: Any) -> tuple[str | None, str | None, bool]:
    """(text, refusal, reasoning seen) of a message's content: a string, nothing, or a list of parts."""
    if content is None or isinstance(content, str):
        return content, None, False
    if not isinstance(content, list):
        raise ModelFailure(
            "provider_error", "HTTP 200 with a message whose content is neither text nor parts"
        )
    texts: list[str] = []
    refusals: list[str] = []
    reasoning = False
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            kind = part.get("type", "text")
            if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif kind == "refusal" and isinstance(part.get("refusal"), str):
                refusals.append(part["refusal"])
            elif kind in ("thinking", "reasoning"):
                reasoning = True
    return ("".join(texts) if texts else None), ("".join(refusals) or None), reasoning


def _error_under_200(holder: dict[Any, Any], secrets: tuple[str | None, ...], now: float) -> ModelFailure:
    said = upstream_of(holder)
    statuses = [int(c) for c in said.codes if c.isascii() and c.isdigit() and len(c) == 3 and int(c) >= 400]
    return of_status(statuses[0] if statuses else 500, said, headers={}, secrets=secrets, now=now)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _look(body: bytes) -> str:
    start = body[:200].lstrip().lower()
    if not start:
        return "an empty body"
    return "a page of HTML" if start.startswith((b"<!doctype", b"<html", b"<")) else "text"

"""Answers for `ModelServer`: replies in three providers' formats, and what can go wrong on a wire."""

import gzip as gzip_module
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from sandbox_judge.testing.model_server import Answer, Line, Request

_REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 429: "Too Many Requests"}


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def raw(
    body: bytes = b"",
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    delay_s: float = 0.0,
    gzip: bool = False,
    content_type: str = "application/json",
) -> Answer:
    """Any bytes under any status, after `delay_s` seconds."""
    packed = gzip_module.compress(body) if gzip else body
    own = {"Content-Type": content_type, "Content-Length": str(len(packed))}
    if gzip:
        own["Content-Encoding"] = "gzip"
    data = _head(status, {**own, **(headers or {})}) + packed

    def answer(line: Line) -> None:
        if not delay_s or line.pause(delay_s):
            line.send(data)

    return answer


def as_json(value: Any, **options: Any) -> Answer:
    return raw(json.dumps(value).encode(), **options)


def chat_body(
    content: Any,
    *,
    finish: str | None = "stop",
    model: str = "scripted-1",
    message: Mapping[str, Any] | None = None,
    usage: tuple[int, int] = (11, 7),
) -> dict[str, Any]:
    """A chat completion in OpenAI's format; `message` adds to or replaces the message's keys."""
    whole = {"role": "assistant", "content": content, **(message or {})}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": whole, "finish_reason": finish}],
        "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)},
    }


def chat(content: Any, *, delay_s: float = 0.0, gzip: bool = False, **parts: Any) -> Answer:
    """A reply in OpenAI's chat format (`chat_body` takes the rest)."""
    return as_json(chat_body(content, **parts), delay_s=delay_s, gzip=gzip)


def verdict(
    word: str = "pass", *, reasoning: str = "The reply keeps to the policy.", delay_s: float = 0.0
) -> Answer:
    """A judge's whole answer in OpenAI's chat format."""
    return chat(json.dumps({"reasoning": reasoning, "evidence": [], "verdict": word}), delay_s=delay_s)


def anthropic(text: str, *, stop: str = "end_turn", model: str = "scripted-1", **options: Any) -> Answer:
    """A reply in the format of Anthropic's Messages."""
    return as_json(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 7},
        },
        **options,
    )


def anthropic_tool(arguments: Mapping[str, Any], *, name: str, **options: Any) -> Answer:
    """A tool call in the format of Anthropic's Messages (schema replies come this way for older models)."""
    return as_json(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted-1",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": name, "input": dict(arguments)}],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 7},
        },
        **options,
    )


def gemini(text: str, *, finish: str = "STOP", model: str = "scripted-1", **options: Any) -> Answer:
    """A reply in the format of Gemini's generateContent."""
    content = {"role": "model", "parts": [{"text": text}]}
    return as_json(
        {
            "candidates": [{"content": content, "finishReason": finish, "index": 0}],
            "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18},
            "modelVersion": model,
        },
        **options,
    )


def error(
    status: int,
    message: str = "scripted fault",
    *,
    code: str | None = None,
    kind: str | None = None,
    param: str | None = None,
    retry_after: str | None = None,
    **options: Any,
) -> Answer:
    """An error in OpenAI's format. `retry_after` is the header's text: seconds, a date, or nonsense."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    body = {"error": {"message": message, "type": kind, "code": code, "param": param}}
    return as_json(body, status=status, headers=headers, **options)


def refusing(
    then: Answer, *parameters: str, code: str = "unsupported_parameter"
) -> Callable[[Request], Answer]:
    """A script (`by_request=True`): 400 in OpenAI's words while one of `parameters` is sent, else `then`."""

    def answer(request: Request) -> Answer:
        sent = request.json or {}
        for name in parameters:
            if name in sent:
                said = (
                    f"Unsupported value: '{name}'" if "value" in code else f"Unsupported parameter: '{name}'"
                )
                text = f"{said} is not supported with this model."
                return error(400, text, code=code, kind="invalid_request_error", param=name)
        return then

    return answer


def html(status: int = 200) -> Answer:
    page = b"<!doctype html><html><body><h1>Sign in</h1></body></html>"
    return raw(page, status=status, content_type="text/html; charset=utf-8")


def redirect(location: str, status: int = 307) -> Answer:
    return raw(status=status, headers={"Location": location})


def hang(line: Line) -> None:
    """Reads the request, then says nothing."""
    line.hang()


def headers_then_silence(line: Line) -> None:
    line.send(_head(200, {"Content-Type": "application/json", "Content-Length": "500"}))
    line.hang()


def reset(line: Line) -> None:
    """Resets before a byte of the answer."""
    line.reset()


def hang_up(line: Line) -> None:
    """Ends the connection before a byte of the answer."""
    line.hang_up()


def reset_amid_body(line: Line) -> None:
    line.send(_head(200, {"Content-Type": "application/json", "Content-Length": "500"}) + b'{"choices": [')
    line.pause(0.02)  # so that the client has seen the start when the reset comes
    line.reset()


def dripped(body: bytes, *, every_s: float = 1.0) -> Answer:
    """One byte each `every_s` seconds."""

    def answer(line: Line) -> None:
        line.send(_head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))}))
        for byte in body:
            line.send(bytes([byte]))
            if not line.pause(every_s):
                return

    return answer


def endless(line: Line) -> None:
    """A chunked body that never ends, ten small chunks a second."""
    line.send(_head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}))
    while line.pause(0.1):
        line.send(b"4\r\n: x\n\r\n")


def truncated(body: bytes) -> Answer:
    """The first half of `body` as a whole, well-framed answer."""
    return raw(body[: len(body) // 2])


def wrong_length(body: bytes, *, said: int) -> Answer:
    """`body` under a Content-Length of `said`, then the end of the connection."""

    def answer(line: Line) -> None:
        line.send(_head(200, {"Content-Type": "application/json", "Content-Length": str(said)}) + body)
        line.hang_up()

    return answer


def huge(size: int = 300 * 1024 * 1024) -> Answer:
    """`size` bytes that could be JSON, sent as fast as they are read."""

    def answer(line: Line) -> None:
        line.send(_head(200, {"Content-Type": "application/json", "Content-Length": str(size)}))
        block = b" " * 1_048_576
        for _ in range(0, size, len(block)):
            line.send(block)
            if not line.pause(0):
                return

    return answer


def gzip_bomb(unfolded: int = 300 * 1024 * 1024) -> Answer:
    """A few hundred kilobytes that unfold to `unfolded` bytes."""
    packer = zlib.compressobj(wbits=31)
    block = b" " * 1_048_576
    packed = b"".join(packer.compress(block) for _ in range(0, unfolded, len(block))) + packer.flush()
    return raw(packed, headers={"Content-Encoding": "gzip"})

"""OpenAI chat messages, and the many that copy them: a list of messages, a request, a request with its
response, rows of conversations (`messages`, `traj`), JSON Lines of either.

Shapes: platform.openai.com/docs/api-reference/chat; `reasoning_content` and `reasoning` as vLLM, DeepSeek and
OpenRouter write them; thinking blocks as Mistral does; tau-bench's `traj`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.exchange import Exchange, body, exchange_of
from sandbox_judge.conversation.model import Conversation, Media, Part, Reasoning, Refusal, Text
from sandbox_judge.conversation.parts import as_text, error_told, listed, media, sourced, spoken
from sandbox_judge.conversation.rows import unlike_first, unlike_others
from sandbox_judge.conversation.streams import completion_of

NAME: Final = "openai_chat"

_LISTS: Final = ("messages", "traj")
_SPEECH: Final = ("content", "tool_calls", "function_call", "refusal", "audio", "reasoning_content")
_REASONING: Final = ("reasoning_content", "reasoning", "thinking", "tool_plan")
_MARKS: Final = {"length": "truncated", "content_filter": "content_filter", "MAX_TOKENS": "truncated"}
_TEXT_PARTS: Final = ("text", "input_text", "output_text")


def recognise(document: Document) -> bool:
    first = document.values[0]
    if document.many:
        return _is_message(first) or _holds_messages(first) or (isinstance(first, list) and _is_list(first))
    if isinstance(first, list):
        return _is_list(first) or _holds_messages(first[0])
    return _holds_messages(first)


def read(document: Document) -> Iterator[Conversation]:
    first = document.values[0]
    if document.many and not _is_message(first):
        rows: Iterable[Any] = document.values
    elif isinstance(first, list) and first and not _is_message(first[0]):
        rows = first
    else:
        yield _conversation(document.value, "")
        return
    for index, row in enumerate(rows):
        if not (_holds_messages(row) or (isinstance(row, list) and _is_list(row))):
            raise unlike_first(document, index, "is no conversation in chat messages, as the first is")
        yield _conversation(row, document.place(index))


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and (any(key in value for key in _SPEECH) or len(value) == 1)
    )


def _is_list(value: list[Any]) -> bool:
    return not value or _is_message(value[0])


def _holds_messages(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if (exchange := exchange_of(value)) is not None:
        return isinstance(exchange.request, dict | list) and _messages(exchange.request) is not None
    return _messages(value) is not None or _is_completion(value)


def _messages(value: Any) -> list[Any] | None:
    """The message list of a request or row, or None where there is none."""
    if isinstance(value, dict):
        named = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
        if named is None and value.get("object") == "list":
            named = value.get("data")
        value = named
    return value if isinstance(value, list) and _is_list(value) else None


def _is_completion(value: dict[str, Any]) -> bool:
    choices = value.get("choices")
    return (
        isinstance(choices, list)
        and bool(choices)
        and isinstance(choices[0], dict)
        and isinstance(choices[0].get("message", choices[0].get("delta")), dict)
    )


def _conversation(value: Any, where: str) -> Conversation:
    row = value if isinstance(value, dict) else {}
    exchange = exchange_of(row) or Exchange(request=value, response=body(row.get("response")))
    build = ConversationBuilder(NAME, id=_id(row))
    for index, message in enumerate(_messages(exchange.request) or (), 1):
        if not isinstance(message, dict) or not ("role" in message or _is_message(message)):
            keys = f" (keys: {', '.join(map(str, list(message)[:8]))})" if isinstance(message, dict) else ""
            raise unlike_others(index, f"messages is no chat message: it has no role{keys}", where)
        _message(build, message)
    _response(build, row if _is_completion(row) else exchange.response)
    _outcome(build, row, exchange.error)
    return build.build()


def _id(row: dict[str, Any]) -> Any:
    if row.get("task_id") is not None:
        trial = row.get("trial")
        return row["task_id"] if trial is None else f"{row['task_id']}/{as_text(trial)}"
    return next(
        (row[key] for key in ("conversation_id", "session_id", "id") if row.get(key) is not None), None
    )


def _outcome(build: ConversationBuilder, row: dict[str, Any], error: Any) -> None:
    """What a host may write beside the messages: status, error, feedback."""
    status, told = row.get("status"), error if error is not None else row.get("error")
    if isinstance(status, str):
        build.status(status)
    if told:
        if not isinstance(status, str) or status.lower() in ("failed", "error", "errored"):
            build.failed(error_told(told))
        else:
            build.warn("error_told", f"the record also tells an error: {as_text(told)[:500]}")
    for item in listed(row.get("feedback")):
        build.feedback(item)


def _message(build: ConversationBuilder, message: dict[str, Any], mark: str | None = None) -> None:
    role, content = message.get("role"), message.get("content")
    time = message.get("timestamp", message.get("created_at"))
    if role in ("tool", "function"):
        build.tool_result(
            content if isinstance(content, str) else _parts(build, content),
            id=message.get("tool_call_id"),
            name=message.get("name"),
            error=message.get("is_error") is True or message.get("status") == "error",
            time=time,
        )
        return
    calls, legacy = message.get("tool_calls"), message.get("function_call")
    parts: str | list[Part] = content if isinstance(content, str) else _parts(build, content)
    if len(message) > 2:
        parts = [*_reasoning(message), *([Text(text=parts)] if isinstance(parts, str) else parts)]
        parts.extend(_spoken(message))
        if (calls or legacy) and parts == [Text(text="")]:
            parts = []
    if mark is not None:
        parts = [*([Text(text=parts)] if isinstance(parts, str) else parts), build.mark(mark)]
    if parts or not (calls or legacy):
        build.message(role, parts, name=message.get("name"), time=time)
    for call in calls if isinstance(calls, list) else ():
        _call(build, call, time)
    if isinstance(legacy, dict):
        build.tool_call(legacy.get("name"), legacy.get("arguments"), time=time)


def _reasoning(message: dict[str, Any]) -> Iterator[Part]:
    for key in _REASONING:
        if isinstance(text := message.get(key), str) and text:
            yield Reasoning(text=text)
            return


def _spoken(message: dict[str, Any]) -> Iterator[Part]:
    refusal, audio = message.get("refusal"), message.get("audio")
    if refusal:
        yield Refusal(text=as_text(refusal))
    if isinstance(audio, dict):
        yield media("audio", base64=audio.get("data"), name=audio.get("id"))
        if isinstance(transcript := audio.get("transcript"), str) and transcript:
            yield Text(text=transcript)


def _call(build: ConversationBuilder, call: Any, time: Any) -> None:
    if not isinstance(call, dict):
        build.warn("call_unreadable", f"a tool call is no object: {as_text(call)[:200]}")
        return
    function = call.get("function")
    custom = call.get("custom")
    inner = function if isinstance(function, dict) else custom if isinstance(custom, dict) else call
    arguments = next((inner[key] for key in ("arguments", "input", "args") if key in inner), None)
    build.tool_call(inner.get("name"), arguments, id=call.get("id"), time=time)


def _parts(build: ConversationBuilder, content: Any) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(text=content)]
    if not isinstance(content, list):
        return [build.unknown("content", content)]
    return [part for block in content for part in _part(build, block)]


def _part(build: ConversationBuilder, block: Any) -> Iterable[Part]:
    if (said := spoken(block, _TEXT_PARTS)) is not None:
        return said
    if not isinstance(block, dict):
        return (build.unknown("part", block),)
    kind = block.get("type")
    if kind in ("thinking", "reasoning"):
        return (Reasoning(text=_thought(block.get(kind, block.get("text")))),)
    placed = _media(kind, block)
    return (placed,) if placed is not None else (build.unknown(kind, block),)


def _thought(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(as_text(item.get("text") if isinstance(item, dict) else item) for item in value)
    return as_text(value)


def _media(kind: Any, block: dict[str, Any]) -> Media | None:
    if "source" in block and kind in ("image", "audio", "video", "document", "file"):
        return sourced(kind, block["source"], name=block.get("title"))
    inner = block.get(kind) if isinstance(kind, str) else None
    if kind in ("image_url", "video_url", "audio_url", "document_url", "input_image"):
        url = inner.get("url") if isinstance(inner, dict) else inner or block.get("image_url")
        word = "image" if kind == "input_image" else kind.removesuffix("_url")
        return media(word, url=url, name=block.get("file_id"))
    if not isinstance(inner, dict):
        return None
    if kind == "input_audio":
        form = inner.get("format")
        return media(
            "audio", mime=f"audio/{form}" if isinstance(form, str) else None, base64=inner.get("data")
        )
    if kind == "file":
        name = inner.get("filename") or inner.get("file_id")
        data = inner.get("file_data")
        inline = isinstance(data, str) and data.startswith("data:")
        return media("file", url=data if inline else None, base64=None if inline else data, name=name)
    return None


def _response(build: ConversationBuilder, response: Any) -> None:
    """The answer to the request: a completion, the chunks of a streamed one, or a bare message."""
    if isinstance(response, list):
        response = completion_of(response)
        if not response["choices"]:
            build.warn("response_unreadable", "the streamed response holds no message")
    if not isinstance(response, dict):
        if response is not None:
            build.warn("response_unreadable", f"the response is no completion: {as_text(response)[:200]}")
        return
    choices = response.get("choices")
    if not isinstance(choices, list):
        choices = [response] if isinstance(response.get("message"), dict) else []
        if not choices and "error" not in response:
            build.warn(
                "response_unreadable", f"the response holds no message: {', '.join(list(response)[:8])}"
            )
    for index, choice in enumerate(choices):
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            build.warn("response_unreadable", f"choice {index + 1} of the response holds no message")
            continue
        if index:
            build.warn(
                "alternative", f"choice {index + 1} is an alternative to the first", entry=build.next_number
            )
            message = {**message, "name": f"choice {index + 1}"}
        _message(build, {"role": "assistant", **message}, _MARKS.get(as_text(choice.get("finish_reason"))))

"""Amazon Bedrock's Converse: a list of messages, a request, one with its response (streamed or not), a
response alone, rows of any of these.

Its blocks have no `type`: the key says what they are.
Shapes: docs.aws.amazon.com/bedrock, API_runtime_Converse.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder, Turn
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.exchange import may_list, row_exchange
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text
from sandbox_judge.conversation.parts import as_text, listed, media
from sandbox_judge.conversation.rows import alike, rows_of, tell_outcome, unlike_others

NAME: Final = "bedrock_converse"

_MEDIA: Final[Mapping[str, str]] = {"image": "image", "video": "video", "audio": "audio", "document": "file"}
_BLOCKS: Final = frozenset(
    {"text", "toolUse", "toolResult", "reasoningContent", "guardContent", "cachePoint", "citationsContent"}
    | {*_MEDIA, "searchResult"}
)
_OWN: Final = _BLOCKS - {"text", *_MEDIA}
_REQUEST: Final = ("inferenceConfig", "toolConfig", "guardrailConfig", "modelId")
_MARKS: Final = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
_ENDED_WELL: Final = ("", "end_turn", "tool_use", "stop_sequence")
_EVENTS: Final = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop")
_REDACTED: Final = "(redacted by the provider)"
_TEXTS: Final[Mapping[str, str]] = {
    "txt": "text/plain",
    "csv": "text/csv",
    "html": "text/html",
    "md": "text/markdown",
}
_MAX_DEPTH: Final = 8


def recognise(document: Document) -> bool:
    rows = list(rows_of(document))
    return bool(rows) and (_is_own(rows[0]) or _is_stream(rows) or _are_messages(rows))


def read(document: Document) -> Iterator[Conversation]:
    rows = list(rows_of(document))
    if _is_stream(rows):
        yield _conversation({"request": {}, "response": rows}, "")
        return
    if not _is_own(rows[0]):
        yield _conversation({"messages": rows}, "")
        return
    for where, row in alike(document, rows, _is_own, "Converse request or response"):
        yield _conversation(row, where)


def _is_own(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    exchange = row_exchange(value, _is_response)
    if _is_response(exchange.response) or _is_stream(exchange.response):
        return may_list(exchange.request, "messages")
    request = exchange.request
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        return False
    named = any(key in request for key in _REQUEST)
    return _are_messages(request["messages"], named=named)


def _are_messages(value: Any, *, named: bool = False) -> bool:
    """Messages whose blocks have no type, until one that only this format has. Text alone counts where the
    request says whose it is (`named`); else it reads the same as chat messages."""
    for message in value if isinstance(value, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, list) or "role" not in message or "tool_calls" in message:
            return False
        for block in content:
            if not isinstance(block, dict) or "type" in block or _BLOCKS.isdisjoint(block):
                return False
            if not _OWN.isdisjoint(block) or any(_is_media(block.get(key)) for key in _MEDIA):
                return True
    return named


def _is_media(value: Any) -> bool:
    return isinstance(value, dict) and "source" in value


def _is_response(value: Any) -> bool:
    output = value.get("output") if isinstance(value, dict) else None
    message = output.get("message") if isinstance(output, dict) else None
    return isinstance(message, dict) and isinstance(message.get("content"), list) and "stopReason" in value


def _is_stream(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and isinstance(value[0].get("messageStart"), dict)
    )


def _conversation(row: dict[str, Any], where: str) -> Conversation:
    exchange = row_exchange(row, _is_response)
    request = {"messages": exchange.request} if isinstance(exchange.request, list) else exchange.request
    build = ConversationBuilder(NAME, id=row.get("conversation_id", row.get("session_id")))
    if system := request.get("system"):
        _turn(build, "system", system)
    for index, message in enumerate(request.get("messages") or (), 1):
        if not isinstance(message, dict) or "role" not in message:
            raise unlike_others(index, "messages is no Converse message: it has no role", where)
        _turn(build, message["role"], message.get("content"))
    _response(build, exchange.response)
    tell_outcome(build, row, exchange.error)
    return build.build()


def _response(build: ConversationBuilder, response: Any) -> None:
    if _is_stream(response):
        response = _streamed(response)
    if response is None:
        return
    if not _is_response(response):
        if not (isinstance(response, dict) and ("message" in response or "error" in response)):
            build.warn("response_unreadable", f"the response holds no message: {as_text(response)[:200]}")
        return
    message, reason = response["output"]["message"], as_text(response["stopReason"])
    mark = None if reason in _ENDED_WELL else _MARKS.get(reason, reason)
    _turn(build, message.get("role", "assistant"), message["content"], mark)


def _turn(build: ConversationBuilder, role: Any, content: Any, mark: str | None = None) -> None:
    turn = Turn(build, role)
    for block in listed(content):
        call = block.get("toolUse") if isinstance(block, dict) else None
        result = block.get("toolResult") if isinstance(block, dict) else None
        if not isinstance(call, dict) and not isinstance(result, dict):
            turn.say(_parts(build, block))
            continue
        turn.act()
        if isinstance(call, dict):
            build.tool_call(call.get("name"), call.get("input"), id=call.get("toolUseId"))
        elif isinstance(result, dict):
            build.tool_result(
                [part for inner in listed(result.get("content")) for part in _parts(build, inner)],
                id=result.get("toolUseId"),
                error=result.get("status") == "error",
            )
    turn.end(mark)


def _parts(build: ConversationBuilder, block: Any, depth: int = 0) -> Iterable[Part]:
    if isinstance(block, str):
        return (Text(text=block),)
    if not isinstance(block, dict):
        return () if block is None else (build.unknown("block", block),)
    kind, held = next(((k, v) for k, v in block.items() if k != "type" and v is not None), ("", None))
    if kind == "text":
        return (Text(text=as_text(held)),)
    if kind == "json":
        return (Text(text=as_text(held)),)
    if kind in ("", "cachePoint"):
        return ()
    if kind == "reasoningContent" and isinstance(held, dict):
        told = held.get("reasoningText")
        text = told.get("text") if isinstance(told, dict) else held.get("text")
        return (Reasoning(text=as_text(text) or _REDACTED),)
    if isinstance(held, dict) and depth < _MAX_DEPTH:
        if kind in _MEDIA:
            return _media(build, kind, held, depth)
        if kind == "guardContent":
            inner = held.get("text")
            return _parts(build, inner if isinstance(inner, dict) else held, depth + 1)
        if kind in ("citationsContent", "searchResult"):
            named = " ".join(as_text(held[key]) for key in ("title", "source") if held.get(key))
            inner = [p for b in listed(held.get("content")) for p in _parts(build, b, depth + 1)]
            return [*([Text(text=named)] if named else []), *inner]
    return (build.unknown(kind, block),)


def _media(build: ConversationBuilder, kind: str, held: dict[str, Any], depth: int) -> Iterable[Part]:
    source = held.get("source")
    source = source if isinstance(source, dict) else {}
    form, name = held.get("format"), held.get("name")
    if isinstance(text := source.get("text"), str):
        return [Text(text=f"{as_text(name)}\n{text}" if name else text)]
    if isinstance(source.get("content"), list):
        inner = [p for b in source["content"] for p in _parts(build, b, depth + 1)]
        return [*([Text(text=as_text(name))] if name else []), *inner]
    place = source.get("s3Location")
    mime = None
    if isinstance(form, str):
        mime = _TEXTS.get(form) or f"{kind if kind != 'document' else 'application'}/{form}"
    uri = place.get("uri") if isinstance(place, dict) else None
    return [media(_MEDIA[kind], mime=mime, base64=source.get("bytes"), name=name or uri)]


def _streamed(events: list[Any]) -> dict[str, Any]:
    """The response that a stream's events add up to; one that broke off says so."""
    blocks: dict[int, dict[str, Any]] = {}
    pieces: dict[tuple[int, str], list[str]] = {}
    role, reason = "assistant", "interrupted"
    for event in events:
        kind = next((key for key in _EVENTS if key in event), "") if isinstance(event, dict) else ""
        held = event[kind] if kind else None
        if not isinstance(held, dict):
            continue
        number = held.get("contentBlockIndex")
        index = number if isinstance(number, int) else 0
        if kind == "messageStart":
            role = held.get("role", role)
        elif kind == "messageStop":
            reason = as_text(held.get("stopReason"))
        elif kind == "contentBlockStart" and isinstance(held.get("start"), dict):
            blocks[index] = dict(held["start"])
        elif kind == "contentBlockDelta" and isinstance(held.get("delta"), dict):
            for key, value in held["delta"].items():
                text = value.get("input", value.get("text")) if isinstance(value, dict) else value
                if isinstance(text, str):
                    pieces.setdefault((index, key), []).append(text)
    for (index, key), texts in pieces.items():
        text = "".join(texts)
        if key == "text":
            blocks[index] = {"text": text}
        elif key == "toolUse":
            started = blocks.get(index, {}).get("toolUse")
            blocks[index] = {"toolUse": {**(started if isinstance(started, dict) else {}), "input": text}}
        elif key == "reasoningContent":
            blocks[index] = {key: {"reasoningText": {"text": text}}}
    content = [blocks[index] for index in sorted(blocks)]
    return {"output": {"message": {"role": role, "content": content}}, "stopReason": reason}

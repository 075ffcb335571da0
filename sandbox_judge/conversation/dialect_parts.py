"""Content parts of any provider or framework as acts: what is written where nobody holds to one format.

Spans, observations and runs carry the messages of whichever library was traced: OpenAI's, Anthropic's,
Gemini's, Bedrock's, LangChain's, the AI SDK's, OpenTelemetry's. One table of part types reads them all. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sandbox_judge.conversation.acts import Act, Answered, Called, Said
from sandbox_judge.conversation.document import parse_json
from sandbox_judge.conversation.model import Media, Part, Reasoning, Refusal, Text, Unknown
from sandbox_judge.conversation.parts import as_text, media, sourced, unknown

_TEXTS: Final = frozenset({"text", "input_text", "output_text", "plain_text", "text-plain"})
_THOUGHTS: Final = frozenset(
    {"reasoning", "thinking", "thought", "redacted_thinking", "redacted-reasoning", "summary_text"}
)
_CALLS: Final = frozenset(
    {
        "tool_call",
        "tool-call",
        "tool_use",
        "server_tool_use",
        "mcp_tool_use",
        "server_tool_call",
        "function_call",
        "custom_tool_call",
        "mcp_call",
    }
)
_RESULTS: Final = frozenset(
    {
        "tool_call_response",
        "tool-result",
        "tool_result",
        "server_tool_call_response",
        "server_tool_result",
        "function_call_output",
        "custom_tool_call_output",
    }
)
_MEDIA: Final[Mapping[str, str | None]] = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "image-data": "image",
    "image-url": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "video_url": "video",
    "file": None,
    "input_file": None,
    "document": "file",
    "media": None,
    "blob": None,
    "uri": None,
    "file-data": None,
    "file-url": None,
    "file-id": None,
    "image-file-id": "image",
}
# Keys under which Gemini and Bedrock write what others give a type, in both spellings.
_KEYED: Final[Mapping[str, str]] = {
    "function_call": "call",
    "functionCall": "call",
    "toolUse": "call",
    "function_response": "result",
    "functionResponse": "result",
    "toolResult": "result",
    "inline_data": "media",
    "inlineData": "media",
    "file_data": "media",
    "fileData": "media",
}
_DENIED: Final = "(the execution was denied)"
_REDACTED: Final = "(redacted by the provider)"
_MAX_DEPTH: Final = 8


def loaded(value: Any) -> Any:
    """A JSON value out of text that holds one (an object, a list, a quoted text); else the text itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            return parse_json(value)
        except ValueError:
            return value
    return value


def part_acts(content: Any, role: str) -> Iterator[Act | Part]:
    """What `content` holds, in order: parts of the message, and between them calls and results."""
    for block in content if isinstance(content, list) else [] if content is None else [content]:
        yield from _block(block, role)


def plain_parts(content: Any, depth: int = 0) -> tuple[Part, ...]:
    """The parts of a tool's result, whatever its shape: text stays text, any other value is JSON text."""
    if isinstance(content, list) and content and all(_is_part(block) for block in content):
        parts: list[Part] = []
        for block in content:
            placed = [*_block(block, "tool")] if depth < _MAX_DEPTH else [unknown("nested", block)]
            parts.extend(
                unknown("nested", block) if isinstance(item, Said | Called | Answered) else item
                for item in placed
            )
        return tuple(parts)
    if _is_part(content) and isinstance(content, dict) and content.get("type") in _MEDIA:
        return plain_parts([content], depth)
    return (Text(text=as_text(content)),) if content is not None else ()


def _is_part(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    kind = block.get("type") or block.get("block_type")
    if not isinstance(kind, str):
        return len(block) == 1 and isinstance(block.get("text"), str)
    if kind in _TEXTS:
        return isinstance(block.get("text", block.get("content")), str)
    return kind in _MEDIA and len(block) > 1


def _block(block: Any, role: str) -> Iterator[Act | Part]:
    if isinstance(block, str):
        yield Text(text=block)
    elif isinstance(block, dict):
        kind = block.get("type") or block.get("block_type")
        if isinstance(kind, str) and kind:
            yield from _typed(kind, block, role)
        else:
            yield from _untyped(block)
    elif block is not None:
        yield unknown("part", block)


def _typed(kind: str, block: dict[str, Any], role: str) -> Iterator[Act | Part]:
    if kind in _TEXTS:
        yield from _text(block.get("text", block.get("content")))
    elif kind in _THOUGHTS:
        yield thought(block, kind)
    elif kind in _CALLS:
        yield called(block)
    elif kind in _RESULTS or kind.endswith("_tool_result"):
        yield answered(block)
    elif kind == "refusal":
        yield Refusal(text=as_text(block.get("refusal", block.get("content"))))
    elif kind in _MEDIA:
        yield placeholder(kind, block)
    elif kind == "non_standard" and isinstance(block.get("value"), dict):
        yield from _block(block["value"], role)
    elif kind in ("message", "output_message") and "content" in block:
        yield from part_acts(block["content"], role)
    else:
        yield unknown(kind, {k: v for k, v in block.items() if k != "type"})


def _untyped(block: dict[str, Any]) -> Iterator[Act | Part]:
    """A part that is told by its key: Gemini's and Bedrock's, and text alone."""
    if block.get("thought") is True:
        yield Reasoning(text=as_text(block.get("text")))
        return
    found = False
    for key, value in block.items():
        word = _KEYED.get(key)
        if key in ("text", "content") and isinstance(value, str):
            found = True
            yield Text(text=value)
        elif word is not None and isinstance(value, dict):
            found = True
            if word == "media":
                mime = value.get("mime_type", value.get("mimeType"))
                uri = value.get("file_uri", value.get("fileUri"))
                name = value.get("display_name", value.get("displayName"))
                yield media(mime=mime, base64=value.get("data"), url=uri, name=name)
            else:
                yield called(value) if word == "call" else answered(value)
        elif key in ("image", "video", "audio", "document") and isinstance(value, dict):
            found = True
            yield _bedrock(key, value)
        elif key == "reasoningContent" and isinstance(value, dict):
            found = True
            inner = value.get("reasoningText")
            yield Reasoning(text=as_text(inner.get("text")) if isinstance(inner, dict) else _REDACTED)
        elif key == "json":
            found = True
            yield Text(text=as_text(value))
    if not found and block:
        yield unknown("part", block)


def _text(value: Any) -> Iterator[Part]:
    """Text, which some write as `{"value": ...}`; an empty one is kept, null is nothing."""
    if isinstance(value, dict):
        value = value.get("value", value)
    if value is not None:
        yield Text(text=as_text(value))


def thought(block: Mapping[str, Any], kind: str = "reasoning") -> Reasoning:
    """Reasoning, under whichever key it stands."""
    if kind.startswith("redacted"):
        return Reasoning(text=_REDACTED)
    for key in ("text", "content", "thinking", "reasoning", "thought", "summary"):
        value = block.get(key)
        if isinstance(value, list):
            value = "\n".join(
                as_text(item.get("text", item) if isinstance(item, dict) else item) for item in value
            )
        if isinstance(value, str) and value:
            return Reasoning(text=value)
    return Reasoning(text="")


def called(block: Mapping[str, Any]) -> Called:
    """A call, under whichever keys name, arguments and id stand."""
    inner: Mapping[str, Any] = next(
        (block[key] for key in ("function", "custom", "tool_call") if _filled(block.get(key))), {}
    )
    nested = block.get("server_tool_call")
    name = _first(block, inner, ("name", "toolName", "tool_name"))
    arguments = _first(
        block,
        inner,
        ("arguments", "args", "input", "arguments_json", "parameters"),
    )
    if arguments is None and isinstance(nested, dict):
        arguments = {key: value for key, value in nested.items() if key != "type"}
    return Called(
        name=as_text(name),
        arguments=arguments,
        id=_id(block, ("call_id", "id", "toolCallId", "tool_call_id", "toolUseId")),
    )


def answered(block: Mapping[str, Any], content: Any = None) -> Answered:
    """A result, under whichever keys it stands."""
    keys = ("output", "result", "response", "content", "server_tool_call_response")
    if content is None:
        content = next((block[key] for key in keys if block.get(key) is not None), None)
    error = block.get("isError") is True or block.get("is_error") is True or block.get("status") == "error"
    if isinstance(content, dict) and isinstance(kind := content.get("type"), str):
        content, failed = _output(kind, content)
        error = error or failed
    return Answered(
        parts=plain_parts(content),
        id=_id(block, ("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "id")),
        name=as_text(_first(block, {}, ("name", "toolName", "tool_name"))) or None,
        error=error,
    )


def _output(kind: str, value: dict[str, Any]) -> tuple[Any, bool]:
    """What the AI SDK's typed outputs hold, and whether the call failed."""
    if kind in ("text", "json", "content") and "value" in value:
        return value["value"], False
    if kind in ("error-text", "error-json"):
        return value.get("value"), True
    if kind == "execution-denied":
        return value.get("reason") or _DENIED, True
    return value, kind.endswith("_error")


def placeholder(kind: str, block: Mapping[str, Any]) -> Media | Unknown:
    """The placeholder of an image, a sound, a file: never its bytes."""
    word = _MEDIA.get(kind)
    said = block.get("modality")
    if word is None and said in ("image", "audio", "video"):
        word = said
    if isinstance(block.get("source"), dict):
        return sourced(word or "file", block["source"], name=block.get("title"))
    inner = block.get(kind)
    held = {**block, **inner} if isinstance(inner, dict) else block
    mime = _first(held, {}, ("mime_type", "mediaType", "mimeType", "media_type"))
    form = held.get("format")
    if mime is None and isinstance(form, str) and word:
        mime = f"{word}/{form}"
    url = _first(held, {}, ("url", "uri", "image_url", "file_url"))
    if isinstance(url, dict):
        url = url.get("url")
    data = _first(held, {}, ("data", "base64", "file_data", "content"))
    if isinstance(inner, str):
        url, data = (inner, data) if inner.startswith(("data:", "http:", "https:")) else (url, inner)
    if isinstance(data, str) and data.startswith(("data:", "http:", "https:")):
        url, data = data, None
    name = _first(held, {}, ("filename", "file_name", "title", "file_id", "fileId", "id"))
    size = len(data) if isinstance(data, list) else None
    return media(word, mime=mime, base64=data, url=url, name=name, size=size)


def _bedrock(key: str, value: dict[str, Any]) -> Media:
    source = value.get("source")
    data = source.get("bytes") if isinstance(source, dict) else value.get("url")
    form = value.get("format")
    mime = f"{key}/{form}" if isinstance(form, str) and key != "document" else None
    word = "file" if key == "document" else key
    return media(word, mime=mime, base64=data if isinstance(data, str) else None, name=value.get("name"))


def _filled(value: Any) -> bool:
    return isinstance(value, dict) and bool(value)


def _first(block: Mapping[str, Any], inner: Mapping[str, Any], keys: Iterable[str]) -> Any:
    for held in (inner, block):
        for key in keys:
            if held.get(key) is not None:
                return held[key]
    return None


def _id(block: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    value = _first(block, {}, keys)
    return value or None if isinstance(value, str) else None if value is None else as_text(value)

"""Parts of messages and results out of what formats hold: text, media placeholders, unknown things. Pure.

No bytes of an image, a sound or a file ever go into a conversation: their number is computed from the length
of the base64 text, which is never decoded.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from sandbox_judge.conversation.document import json_text
from sandbox_judge.conversation.model import Media, MediaKind, Part, Refusal, Text, Unknown

_DATA_URL: Final = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),", re.IGNORECASE)
# Shorter runs are ids and hashes, which a reader may need.
_BLOB_LENGTH: Final = 512
_BLOB: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\s*")
_BREAKS: Final = re.compile(r"\s+")
_NAME_LENGTH: Final = 500


def as_text(value: Any) -> str:
    """A JSON value as text: text as it is, null as nothing (never "None"), the rest as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json_text(value)


def listed(value: Any) -> list[Any]:
    """What formats write as a list, or as one thing alone, or not at all (null), as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def error_told(error: Any) -> Any:
    """What an error tells: its message where it is an object that has one, else itself."""
    return error.get("message", error) if isinstance(error, dict) else error


def text_of(parts: Iterable[Part]) -> str:
    """All text parts joined by newlines: what a gate's `text` sees."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def spoken(block: Any, texts: tuple[str, ...]) -> tuple[Part, ...] | None:
    """The parts of a block that formats in OpenAI's manner share: text, bare or in a block of one of the
    types `texts`, a refusal, and nothing. None for any other block."""
    if isinstance(block, str):
        return (Text(text=block),)
    if not isinstance(block, dict):
        return () if block is None else None
    kind = block.get("type")
    if kind in texts or (kind is None and isinstance(block.get("text"), str)):
        return (Text(text=as_text(block["text"])),) if block.get("text") is not None else ()
    return (Refusal(text=as_text(block.get("refusal"))),) if kind == "refusal" else None


def media(
    kind: str | None = None,
    *,
    mime: Any = None,
    base64: Any = None,
    url: Any = None,
    name: Any = None,
    size: Any = None,
) -> Media:
    """The placeholder of something that is not text. `kind` None: by the MIME type. `url` may be a data URL,
    which then gives type and size; any other address stands as the name where there is none."""
    if isinstance(url, str) and (inline := _DATA_URL.match(url)):
        mime = mime or inline[1] or None
        if "base64" in inline[2].lower():
            size = base64_size(url[inline.end() :]) if size is None else size
        elif size is None:
            size = len(url) - inline.end()
        url = None
    if isinstance(base64, str) and size is None:
        size = base64_size(base64)
    shown = name if isinstance(name, str) and name else url
    return Media(
        media=_kind(kind, mime),
        mime=mime[:_NAME_LENGTH] if isinstance(mime, str) and mime else None,
        bytes=size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        name=shown[:_NAME_LENGTH] if isinstance(shown, str) and shown else None,
    )


def sourced(kind: str, source: Any, *, name: Any = None) -> Media:
    """The placeholder of a block with a `source` object (base64, url, file id, or text), as Anthropic writes
    it and others copy it."""
    if not isinstance(source, dict):
        return media(kind, url=source, name=name)
    return media(
        kind,
        mime=source.get("media_type", source.get("mime_type")),
        base64=source.get("data"),
        url=source.get("url"),
        name=name or source.get("file_id"),
    )


def base64_size(encoded: str) -> int:
    """The number of bytes that base64 text stands for, without decoding it."""
    tail = encoded[-4:]
    breaks = encoded.count("\n") + encoded.count("\r")
    return max(0, (len(encoded) - breaks - tail.count("=")) * 3 // 4)


def without_blobs(value: Any) -> Any:
    """`value` with long base64 texts and data URLs replaced by their size."""
    if isinstance(value, str):
        return _without_blob(value)
    if isinstance(value, list):
        return [without_blobs(item) for item in value]
    if isinstance(value, dict):
        return {key: without_blobs(item) for key, item in value.items()}
    return value


def unknown(label: Any, value: Any = None) -> Unknown:
    """Something that the adapter does not know, with what it held as JSON text (blobs by their size)."""
    try:
        text = None if value is None else as_text(without_blobs(value))
    except RecursionError:
        text = "(nested too deeply to be shown)"
    return Unknown(label=label if isinstance(label, str) and label else "unknown", text=text)


def _kind(kind: str | None, mime: Any) -> MediaKind:
    word = kind or (mime.partition("/")[0] if isinstance(mime, str) else "file")
    if word == "image":
        return "image"
    if word == "audio":
        return "audio"
    if word == "video":
        return "video"
    return "file"


def _without_blob(text: str) -> str:
    if len(text) < _BLOB_LENGTH:
        return text
    if found := _DATA_URL.match(text):
        return f"({found[1] or 'data'}, {base64_size(text[found.end() :])} bytes)"
    # One long word of the alphabet, or several of one line length: prose has spaces, hashes are short.
    if _BLOB.fullmatch(text) or (" " not in text and _BLOB.fullmatch(_BREAKS.sub("", text))):
        return f"(base64, {base64_size(text)} bytes)"
    return text

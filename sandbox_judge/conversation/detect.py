"""Which format a document is in: by structure, never by file name (design, section 3).

The order matters: the first adapter that recognises a document reads it, so the more particular stand first.
A new format is one module in `formats/` and one line here.
"""

import functools
import importlib
from typing import Any, Final, cast

from sandbox_judge.conversation.adapter import Adapter, Archive
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.formats import openai_chat
from sandbox_judge.conversation.plain_chat import begins_as_json, is_plain_chat
from sandbox_judge.errors import InputError

# In the order in which they are asked. Imported when one of them is needed: thirty modules cost a hook more
# than reading a conversation does.
FORMATS: Final = (
    "canonical",
    "claude_code",
    "codex",
    "copilot",
    "pi",
    "openhands",
    "cursor",
    "cline",
    "opencode",
    "trajectory_v1",
    "platform_items",
    "langfuse",
    "langsmith",
    "ai_sdk_spans",
    "openinference",
    "otel_genai",
    "langchain",
    "ui_messages",
    "atif",
    "google_adk",
    "inspect_ai",
    "openai_assistants",
    "gemini_cli",
    "gemini",
    "bedrock_converse",
    "anthropic_messages",
    "openai_responses",
    "openai_chat",
)

_KEYS_SHOWN: Final = 8


@functools.cache
def adapters() -> tuple[Adapter, ...]:
    """Every adapter, in the order in which they are asked."""
    package = "sandbox_judge.conversation.formats"
    return tuple(cast(Adapter, importlib.import_module(f"{package}.{name}")) for name in FORMATS)


@functools.cache
def archives() -> tuple[Archive, ...]:
    from sandbox_judge.conversation import inspect_archive
    from sandbox_judge.conversation.formats import event_stream

    return (event_stream, inspect_archive)


def archive_of(data: bytes) -> Archive | None:
    """The archive format of `data`, which is asked before anything is read as JSON."""
    if begins_as_json(data):
        return None
    return next((archive for archive in archives() if archive.recognise_bytes(data)), None)


def adapter_of(document: Document) -> Adapter:
    """The adapter that reads `document`. Raises InputError that names what was seen and what is known."""
    if is_plain_chat(document):
        return openai_chat
    for adapter in adapters():
        if adapter.recognise(document):
            return adapter
    raise InputError(
        f"The conversation's format is not known: {seen(document)}.",
        remedy=f"Known formats: {', '.join(adapter.NAME for adapter in adapters())}.",
    )


def adapter_named(name: str, document: Document) -> Adapter:
    """The adapter of a format that the user named. Raises InputError: unknown, or not what `document` is."""
    adapter = next((adapter for adapter in adapters() if name == adapter.NAME), None)
    if adapter is None:
        known = ", ".join(adapter.NAME for adapter in adapters())
        raise InputError(f"There is no format named {name!r}.", remedy=f"Known formats: {known}.")
    if not adapter.recognise(document):
        raise InputError(f"The conversation is not in the format {name}: it is {seen(document)}.")
    return adapter


def seen(document: Document) -> str:
    """What a document looks like, in words: its type and first keys."""
    if document.many:
        return f"JSON Lines of {len(document.values)} rows, the first {_shape(document.values[0])}"
    value = document.values[0]
    if isinstance(value, list) and value:
        return f"a list of {len(value)} elements, the first {_shape(value[0])}"
    return _shape(value)


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        if not value:
            return "an object without keys"
        keys = ", ".join(repr(key[:40]) for key in list(value)[:_KEYS_SHOWN])
        more = f" and {len(value) - _KEYS_SHOWN} more" if len(value) > _KEYS_SHOWN else ""
        return f"an object with the keys {keys}{more}"
    if isinstance(value, list):
        return "an empty list" if not value else f"a list of {len(value)} elements"
    if value is None:
        return "null"
    words = {str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return words.get(type(value), "a value")

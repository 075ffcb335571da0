"""Inspect's chat messages as entries of a conversation. Pure.

Shapes: github.com/UKGovernmentBEIS/inspect_ai, `model/_chat_message.py` and `_util/content.py`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.model import Part, Reasoning, Text
from sandbox_judge.conversation.parts import as_text, error_told, listed, media
from sandbox_judge.errors import InputError

_REFERENCE: Final = re.compile(r"(?:attachment|tc)://([0-9a-f]{32})")
_REDACTED: Final = "(redacted by the provider)"
_MEDIA: Final = ("image", "audio", "video")
# How often a log may repeat its attachments on the whole, and what it may repeat anyway (characters).
_REPEATS: Final = 8
_FREE: Final = 64 << 20


class Attachments:
    """The long texts that a sample keeps once and refers to, and which it refers to without holding them.

    One for a whole log: what is put in altogether stays in proportion to what the log holds, so that a short
    log whose every word refers to one long text is refused.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.absent: dict[str, None] = {}
        self._room = _FREE

    def of_sample(self, *held: Any) -> None:
        """From here on the references are those of a sample that holds these."""
        self.absent = {}
        self.texts = {
            key: text
            for attachments in held
            if isinstance(attachments, dict)
            for key, text in attachments.items()
            if isinstance(text, str)
        }
        self._room += _REPEATS * sum(map(len, self.texts.values()))

    def resolved(self, value: Any) -> Any:
        """`value` with every reference replaced by what it stands for. Raises RecursionError, InputError."""
        if isinstance(value, str):
            return _REFERENCE.sub(self._text, value) if "://" in value else value
        if isinstance(value, list):
            return [self.resolved(item) for item in value]
        if isinstance(value, dict):
            return {key: self.resolved(item) for key, item in value.items()}
        return value

    def _text(self, found: re.Match[str]) -> str:
        text = self.texts.get(found[1])
        if text is None:
            self.absent[found[1]] = None
            return found[0]
        self._room -= len(text)
        if self._room < 0:
            raise InputError("The log refers to its attachments far more often than logs do.")
        return text


def add_message(build: ConversationBuilder, message: dict[str, Any], *, mark: str | None = None) -> None:
    """The entries of one chat message; `mark` says what happened to the turn."""
    role, time = message.get("role"), message.get("timestamp")
    content = message.get("content")
    if role == "tool":
        error = message.get("error")
        parts = [part for block in listed(content) if block != "" for part in _part(build, block)]
        told = error_told(error)
        if told is not None and not any(isinstance(p, Text) and p.text == told for p in parts):
            parts.append(Text(text=as_text(told)))
        build.tool_result(
            parts,
            id=message.get("tool_call_id"),
            name=message.get("function"),
            error=error is not None,
            time=time,
        )
        return
    said: list[Part] = []
    added = False
    for block in listed(content):
        if isinstance(block, dict) and block.get("type") == "tool_use":
            if said:
                build.message(role, said, time=time)
            said, added = [], True
            _served(build, block, time)
        else:
            said.extend(_part(build, block))
    calls = [call for call in listed(message.get("tool_calls")) if call is not None]
    if calls and said == [Text(text="")]:
        said = []
    if mark is not None:
        said.append(build.mark(mark))
    if said or not (calls or added):
        build.message(role, said, time=time)
    for call in calls:
        _call(build, call if isinstance(call, dict) else {"arguments": call}, time)


def _call(build: ConversationBuilder, call: dict[str, Any], time: Any) -> None:
    name = call.get("function")
    if isinstance(name, dict):
        call, name = {**call, "arguments": name.get("arguments")}, name.get("name")
    n = build.tool_call(name, call.get("arguments"), id=call.get("id"), time=time)
    if call.get("parse_error") is not None:
        build.warn(
            "arguments_not_read",
            f"the arguments were not read: {as_text(call['parse_error'])[:500]}",
            entry=n,
        )


def _served(build: ConversationBuilder, block: dict[str, Any], time: Any) -> None:
    """A tool that the provider ran: the call and its result in one block."""
    name = block.get("name") or block.get("tool_type")
    build.tool_call(name, block.get("arguments"), id=block.get("id"), time=time)
    error, result = block.get("error"), block.get("result")
    if error is not None or result is not None:
        told = [Text(text=as_text(value)) for value in (result, error) if value]
        build.tool_result(told, id=block.get("id"), name=name, error=error is not None, time=time)


def _part(build: ConversationBuilder, block: Any) -> Iterator[Part]:
    if isinstance(block, str):
        yield Text(text=block)
        return
    if not isinstance(block, dict):
        if block is not None:
            yield build.unknown("content", block)
        return
    kind = block.get("type")
    if kind == "text":
        yield Text(text=as_text(block.get("text")))
    elif kind == "reasoning":
        told = block.get("summary") if block.get("redacted") is True else block.get("reasoning")
        yield Reasoning(text=as_text(told) or _REDACTED)
    elif kind in _MEDIA:
        held, form = block.get(kind), block.get("format")
        mime = f"{kind}/{form}" if isinstance(form, str) else None
        yield media(kind, mime=mime, url=held)
    elif kind == "document":
        mime, name = block.get("mime_type"), block.get("filename")
        yield media("file", mime=mime, url=block.get("document"), name=name)
    else:
        yield build.unknown(kind, block)

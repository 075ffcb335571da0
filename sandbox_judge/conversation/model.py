"""The canonical conversation (`spec/conversation.md`): what every adapter gives and everything else reads.

Frozen values only. `msgspec` writes them as the JSON of the specification and reads that JSON back; keys
without a value are left out, but for `args` of a call and `call` of a result, whose null has a meaning.
Values of JSON have no cycles, so `gc=False` keeps a million of them out of the collector's way.
"""

from typing import Any, Final, Literal

import msgspec

SCHEMA: Final = "sandbox_judge.conversation/1"

Role = Literal["system", "user", "assistant"]
Status = Literal["completed", "failed", "cancelled"]
ResultStatus = Literal["ok", "error"]
MediaKind = Literal["image", "audio", "video", "file"]


class Text(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="text",
    tag_field="type",
):
    text: str


class Reasoning(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="reasoning",
    tag_field="type",
):
    text: str


class Refusal(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="refusal",
    tag_field="type",
):
    text: str


class Media(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="media",
    tag_field="type",
):
    """An image, audio, video or file that was there: never its bytes. `bytes` is their number where known."""

    media: MediaKind
    mime: str | None = None
    bytes: int | None = None
    name: str | None = None


class Unknown(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="unknown",
    tag_field="type",
):
    """Something that the adapter does not know, kept with the name that the format gives it."""

    label: str
    text: str | None = None


Part = Text | Reasoning | Refusal | Media | Unknown


class Message(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="message",
    tag_field="kind",
):
    n: int
    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    agent: str | None = None
    time: str | None = None


class ToolCall(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="tool_call",
    tag_field="kind",
):
    """A call. `args` is the parsed JSON; what was not JSON stands in `args_text` and `args` is None."""

    n: int
    name: str
    args: Any
    id: str | None = None
    args_text: str | None = None
    agent: str | None = None
    time: str | None = None


class ToolResult(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="tool_result",
    tag_field="kind",
):
    """A result. `call` is the entry number of its call, or None for an orphan."""

    n: int
    call: int | None
    status: ResultStatus
    parts: tuple[Part, ...]
    id: str | None = None
    agent: str | None = None
    time: str | None = None


class Feedback(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag="feedback",
    tag_field="kind",
):
    n: int
    name: str | None = None
    sentiment: str | None = None
    value: Any = None
    comments: str | None = None
    properties: dict[str, Any] | None = None
    user_id: str | None = None
    agent_name: str | None = None
    time: str | None = None


Entry = Message | ToolCall | ToolResult | Feedback


class Warning_(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A doubt that reading left. `entry` is the number of the entry it concerns."""

    code: str
    message: str
    entry: int | None = None


# The warning code for content that the format says exists but that was not given (an unresolved attachment,
# a previous response that is only referred to). Such a conversation yields `missing_context` nulls.
CONTENT_MISSING: Final = "content_missing"


class Conversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One conversation. `entries` are numbered from 1 in order."""

    source_format: str
    entries: tuple[Entry, ...]
    # Read back as any of the three; written always.
    status: Status
    warnings: tuple[Warning_, ...]
    schema: Literal["sandbox_judge.conversation/1"]
    id: str | None = None
    status_detail: str | None = None

    def missing_context(self) -> str | None:
        """Why no judge can grade this (`missing_context`), or None where there is something to grade."""
        for warning in self.warnings:
            if warning.code == CONTENT_MISSING:
                return warning.message
        if not any(isinstance(e, Message) and e.role in ("user", "assistant") for e in self.entries):
            return "the conversation has no user or assistant entry"
        return None

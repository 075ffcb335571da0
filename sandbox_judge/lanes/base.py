"""What a model lane is: one request in, one reply out, or a `ModelFailure` with its error type.

A lane knows the wire and nothing of judges, verdicts, retries or events. Fallbacks of the output mode and
parameters that a model refuses are settled inside one `complete` (design, section 12) and told in the reply.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from sandbox_judge.nulls import ErrorType

LaneName = Literal["openai_wire", "litellm", "local"]
OutputMode = Literal["schema", "json", "text"]
Finish = Literal["stop", "length", "content_filter", "tool_calls"]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call goes. `base_url` None means the provider's own. The key is read at each call by whoever
    makes the endpoint; `repr` never shows it."""

    base_url: str | None = None
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"Endpoint(base_url={self.base_url!r}, api_key={'…' if self.api_key else None})"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model. Messages are in the OpenAI chat shape (roles system, user, assistant, tool).

    `schema` is a JSON Schema for the reply; without one the reply is plain text. `temperature_authored` False
    means that the value is our default, which is left out for a model known to refuse it.
    """

    provider: str
    model: str
    endpoint: Endpoint
    messages: tuple[Mapping[str, Any], ...]
    schema: Mapping[str, Any] | None = None
    schema_name: str = "judgement"
    temperature: float | None = None
    temperature_authored: bool = False
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    input_tokens: int | None = None
    output_tokens: int | None = None


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that the model asks for; `arguments` is the text as the model wrote it."""

    id: str
    name: str
    arguments: str


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """What was really asked, for the event's `llm` record: parameters sent (no messages, no schema body),
    parameters dropped because the model refused them, the output mode in force, and how many HTTP requests
    it took (1 unless something was dropped)."""

    lane: LaneName
    output_mode: OutputMode = "schema"
    sent: Mapping[str, Any] = {}
    dropped: tuple[str, ...] = ()
    requests: int = 1


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer, untouched: reading it is not the lane's business.

    `reasoning` says that hidden reasoning came with it (its text is never kept). `finish` is None where the
    provider gave none or an unknown word: no proof of completeness.
    """

    wire: Wire
    text: str | None = None
    refusal: str | None = None
    finish: Finish | None = None
    reasoning: bool = False
    tool_calls: tuple[ToolUse, ...] = ()
    response_model: str | None = None
    usage: Usage | None = None


class ModelFailure(Exception):
    """A call that gave no reply. `retry_after_s` is what the server asked for, in seconds; `retryable` None
    means that the type decides (`nulls.RETRYABLE`). The message never holds a key."""

    def __init__(
        self,
        type: ErrorType,
        message: str,
        *,
        retry_after_s: float | None = None,
        retryable: bool | None = None,
        wire: Wire | None = None,
    ) -> None:
        super().__init__(message)
        self.type: ErrorType = type
        self.message = message
        self.retry_after_s = retry_after_s
        self.retryable = retryable
        self.wire = wire


class ChatModel(Protocol):
    """A lane. One instance serves a whole run (or server) and many calls at once."""

    @property
    def lane(self) -> LaneName: ...

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        """The model's reply to `call`. `deadline` is absolute, in seconds on anyio's clock
        (`anyio.current_time`). Raises `ModelFailure`; a passed deadline is `timeout`."""
        ...

    async def aclose(self) -> None: ...

"""Which parameters go out, under which name, and what is left out once a model has refused it. Pure.

The only state is a set of refusals: of this call, and of earlier ones (`lanes.memory`). From it and the call
follows what is sent, so that two runs that know the same send the same (design, section 12).
"""

import re
from collections.abc import Mapping, Set
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from sandbox_judge.lanes.base import Call, OutputMode
from sandbox_judge.lanes.failures import Upstream

MAX_REQUESTS: Final = 8  # one more than there is to refuse: the ends of the ladder and of each parameter
_TOKEN_NAMES: Final = ("max_tokens", "max_completion_tokens")
_LADDER: Final[tuple[OutputMode, ...]] = ("schema", "json", "text")
PARAMETERS: Final = ("temperature", *_TOKEN_NAMES, "reasoning_effort", "output_mode")
# OpenAI's reasoning models take `max_completion_tokens` only, and no temperature but 1. Their chat variants
# (gpt-5-chat-latest) are ordinary models, and gpt-35 is Azure's name for 3.5.
_REASONING: Final = re.compile(r"(?:o[1-9]\d?|gpt-(?:[5-9]|1\d)|codex)(?![a-z0-9])(?!.*-chat)")
# As OpenAI, Anthropic, Google and the common servers call it.
_ABOUT_OUTPUT: Final = re.compile(
    r"response_format|json_schema|json_object|json mode|structured[ _]outputs?|guided_json|grammar"
    r"|output_(?:format|config)|response_?(?:json_?)?schema|response_?mime_?type",
    re.I,
)
_NO_SUCH: Final = re.compile(
    r"unsupported_parameter|unknown_parameter|unsupported parameter|unrecognized"
    r"|unknown (?:parameter|field|name)"
    r"|extra (?:inputs|fields)|extra_forbidden|not permitted|unexpected keyword"
    r"|does not support (?:the )?(?:parameter )?['\"`]?\w+['\"`]?[.,]?(?: parameter)?$",
    re.I,
)
_THIS_SCHEMA: Final = re.compile(
    r"invalid schema|invalid_json_schema|schema .{0,80}(?:invalid|not permitted)", re.I
)


class Refusal(msgspec.Struct, frozen=True, order=True):
    """A parameter that a model does not take: at all (`value` None), or not with this value (its JSON text).

    `output_mode` stands for `response_format`; its values are `schema` and `json`. `lasting` False: true of
    this one call (its schema), and not worth remembering.
    """

    parameter: str
    value: str | None = None
    lasting: bool = True


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`parameters` are the keys of the request beside model, messages and tools. `sent` is the same for the
    record, without the schema's body; `dropped` names what the author or we wanted and the model refuses."""

    parameters: Mapping[str, Any]
    sent: Mapping[str, Any]
    dropped: tuple[str, ...]
    output_mode: OutputMode


def is_reasoning_model(model: str) -> bool:
    """Is `model` of OpenAI's families that refuse a temperature? Fine-tunes (`ft:`) and paths count."""
    name = model.lower().removeprefix("ft:").rpartition("/")[2]
    return _REASONING.match(name) is not None


def takes_completion_tokens(call: Call) -> bool:
    """Is the limit called `max_completion_tokens`? On OpenAI's own endpoint, and for its newer models."""
    if is_reasoning_model(call.model):
        return True
    own = call.endpoint.base_url
    return call.provider == "openai" and (own is None or urlsplit(own).hostname == "api.openai.com")


def plan(call: Call, refused: Set[Refusal]) -> Plan:
    """What to send for `call` to a model that refuses `refused`."""
    parameters: dict[str, Any] = {}
    dropped: list[str] = []

    def offer(name: str, value: Any) -> None:
        if _is_refused(refused, name, value):
            dropped.append(name)
        else:
            parameters[name] = value

    if call.temperature is not None and (call.temperature_authored or not is_reasoning_model(call.model)):
        offer("temperature", call.temperature)
    if call.max_tokens is not None:
        names = _TOKEN_NAMES[::-1] if takes_completion_tokens(call) else _TOKEN_NAMES
        name = next((n for n in names if not _is_refused(refused, n, call.max_tokens)), None)
        if name is None:
            dropped.append("max_tokens")
        else:
            parameters[name] = call.max_tokens
    if call.reasoning_effort is not None:
        offer("reasoning_effort", call.reasoning_effort)
    mode: OutputMode = "text"
    if call.schema is not None:
        mode = next(m for m in _LADDER if m == "text" or not _is_refused(refused, "output_mode", m))
        if mode == "text":
            dropped.append("response_format")
    sent = dict(parameters)
    if mode != "text":
        parameters["response_format"] = _response_format(call, mode)
        sent["response_format"] = parameters["response_format"]["type"]
    return Plan(parameters=parameters, sent=sent, dropped=tuple(dropped), output_mode=mode)


def refusal_in(said: Upstream, tried: Plan) -> Refusal | None:
    """The parameter of `tried` that a 400 or 422 names as refused; None where it is about something else.

    The server's own `param` counts before its words: a message may mention a limit that it does not refuse.
    """
    about = " ".join((said.message, *sorted(said.codes)))
    whole = _NO_SUCH.search(about) is not None
    named = said.param.split(".")[0].split("[")[0]
    if tried.output_mode != "text" and (named == "response_format" or _ABOUT_OUTPUT.search(said.message)):
        lasting = not _THIS_SCHEMA.search(about)
        return Refusal("output_mode", _text(tried.output_mode), lasting)
    names = [n for n in PARAMETERS if n in tried.parameters]
    if named:
        found = named if named in names else None
    else:
        found = next((n for n in names if re.search(rf"(?<!\w){n}(?!\w)", said.message)), None)
        if found is None and "temperature" in names and re.search(r"(?i)\btemperature\b", said.message):
            found = "temperature"
    if found is None:
        return None
    return Refusal(found, None if whole else _text(tried.parameters[found]))


def _is_refused(refused: Set[Refusal], name: str, value: Any) -> bool:
    text = _text(value)
    return any(r.parameter == name and r.value in (None, text) for r in refused)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _response_format(call: Call, mode: OutputMode) -> dict[str, Any]:
    if mode == "json":
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": call.schema_name, "strict": True, "schema": call.schema},
    }

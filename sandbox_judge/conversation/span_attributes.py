"""What a span's attributes say of a conversation, by every convention that is in use. Pure.

OpenTelemetry GenAI: `gen_ai.input.messages` and its kin (opentelemetry.io/docs/specs/semconv/gen-ai), the
older events and `gen_ai.prompt`/`gen_ai.completion` (OpenLLMetry's numbered ones too); OpenInference
(`llm.input_messages`); the AI SDK (`ai.prompt`, `ai.response`); what Pydantic AI and Google ADK add.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from sandbox_judge.conversation.acts import Act, Called, Said
from sandbox_judge.conversation.dialect_parts import loaded, plain_parts
from sandbox_judge.conversation.dialects import acts_of, marks_of
from sandbox_judge.conversation.model import Reasoning, Text
from sandbox_judge.conversation.parts import as_text
from sandbox_judge.conversation.span_records import Attributes, Happening, Record, unflat
from sandbox_judge.conversation.tool_runs import ToolRun

Sides = tuple["list[Act] | None", "list[Act] | None"]

_NO_TALK: Final = frozenset({"embeddings", "embedding", "rerank", "EMBEDDING", "RERANKER"})
_MODEL: Final = frozenset({"chat", "text_completion", "generate_content", "LLM", "completion", "message"})
_PIECES: Final = "llm.output_messages."
_FEW_PIECES: Final = 8
_PIECE_LENGTH: Final = 16
_AGENT_NAMES: Final = (
    "gen_ai.agent.name",
    "agent_name",
    "agent.name",
    "graph.node.name",
    "ai.telemetry.functionId",
)


class Content(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a span holds. `is_model`: it is a model's call and not a record around some."""

    inputs: list[Act] | None = None
    outputs: list[Act] | None = None
    is_model: bool = False
    run: ToolRun | None = None
    agent: str | None = None
    # Texts without roles, for use where nothing else tells.
    text_in: str | None = None
    text_out: str | None = None
    finish: tuple[str, ...] = ()
    # The output was recorded in part: its beginning is missing.
    partial: bool = False


def content_of(record: Record) -> Content:
    """What `record` holds of a conversation."""
    held = record.attributes
    kind = kind_of(held)
    agent = next((as_text(held[key]) for key in _AGENT_NAMES if held.get(key)), None)
    if kind in _NO_TALK or as_text(held.get("ai.operationId")).startswith("ai.embed"):
        return Content(agent=agent)
    if (run := tool_run(record, kind)) is not None:
        return Content(run=run, agent=agent)
    inputs = outputs = None
    for read in _CONVENTIONS:
        found_in, found_out = read(record)
        inputs = inputs if inputs is not None else found_in
        outputs = outputs if outputs is not None else found_out
        if inputs is not None and outputs is not None:
            break
    operation = as_text(held.get("ai.operationId"))
    return Content(
        inputs=inputs,
        outputs=outputs,
        is_model=kind in _MODEL or operation.endswith((".doGenerate", ".doStream")),
        agent=agent,
        text_in=_role_less(held.get("input.value")),
        text_out=_role_less(held.get("output.value")),
        finish=() if outputs is None else _finish(held),
        partial=outputs is not None and _begins_late(held),
    )


def kind_of(held: Attributes) -> str:
    """The span's kind, in the words of whichever convention names one."""
    for key in (
        "gen_ai.operation.name",
        "openinference.span.kind",
        "traceloop.span.kind",
        "llm.request.type",
    ):
        value = held.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def tool_run(record: Record, kind: str) -> ToolRun | None:
    """A tool's own span, or None for any other."""
    held = record.attributes
    named = held.get("ai.toolCall.name")
    if named is None and kind not in ("execute_tool", "TOOL", "tool"):
        return None
    keys = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "tool_call.function.name")
    name = named or next((held[key] for key in keys if held.get(key)), record.name)
    arguments = _first(
        held,
        "gen_ai.tool.call.arguments",
        "ai.toolCall.args",
        "ai.toolCall.input",
        "gcp.vertex.agent.tool_call_args",
        "tool_arguments",
        "tool_call.function.arguments",
        "traceloop.entity.input",
        "input.value",
        "tool.parameters",
    )
    result = _first(
        held,
        "gen_ai.tool.call.result",
        "ai.toolCall.result",
        "ai.toolCall.output",
        "gcp.vertex.agent.tool_response",
        "tool_response",
        "traceloop.entity.output",
        "output.value",
    )
    return ToolRun(
        name=as_text(name),
        arguments=arguments,
        result=None if result is None else plain_parts(_quoted(result)),
        id=as_text(_first(held, "gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id", "tool.id")) or None,
        error=record.error,
        start=record.start,
        end=record.end,
    )


def _quoted(value: Any) -> Any:
    """A result that is JSON text of one text is that text; all other text stands as it was written."""
    found = loaded(value)
    return found if isinstance(found, str) else value


def _first(held: Attributes, *keys: str) -> Any:
    return next((held[key] for key in keys if held.get(key) is not None), None)


def _read(value: Any, role: str) -> list[Act] | None:
    found = loaded(value)
    return acts_of(found, role) if isinstance(found, list | dict) and found else None


def _current(record: Record) -> Sides:
    """`gen_ai.input.messages`, `gen_ai.system_instructions`, `gen_ai.output.messages`, on the span or on its
    event of details; `pydantic_ai.all_messages` of an agent's run."""
    held = record.attributes
    for event in record.events:
        if event.name == "gen_ai.client.inference.operation.details":
            held = {**event.attributes, **(event.body if isinstance(event.body, dict) else {}), **held}
    whole = held.get("pydantic_ai.all_messages") or held.get("all_messages_events")
    inputs = _read(held.get("gen_ai.input.messages") or whole, "user")
    return _instructed(held, inputs), _read(held.get("gen_ai.output.messages"), "assistant")


def _instructed(held: Attributes, inputs: list[Act] | None) -> list[Act] | None:
    given = loaded(held.get("gen_ai.system_instructions"))
    if not given:
        return inputs
    system = acts_of({"role": "system", "content": given}, "system") or []
    repeated = inputs and inputs[0] in system
    return inputs if repeated else [*system, *(inputs or [])]


def _older(record: Record) -> Sides:
    """`gen_ai.prompt` and `gen_ai.completion`: JSON, or numbered attributes as OpenLLMetry writes them."""
    held = record.attributes
    given = unflat(held, "gen_ai.prompt")
    answer = unflat(held, "gen_ai.completion")
    return _numbered(given, "user"), _numbered(answer, "assistant")


def _numbered(value: Any, role: str) -> list[Act] | None:
    found = loaded(value)
    if isinstance(found, dict) and isinstance(found.get("text"), str) and "role" not in found:
        found = {**found, "role": role}
    if isinstance(found, list):
        found = [
            {"role": role, **item, "content": loaded_parts(item.get("content"))} if _has_talk(item) else item
            for item in found
        ]
    if isinstance(found, str) and found:
        return [Said(role=role, parts=(Text(text=found),))]
    return acts_of(found, role) if isinstance(found, list | dict) and found else None


def _has_talk(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and bool({"content", "tool_calls", "role", "finish_reason"} & set(item))
        and ("parts" not in item)
    )


def loaded_parts(content: Any) -> Any:
    """Content that is the JSON text of a list of parts, opened; any other text is what was said."""
    found = loaded(content)
    typed = isinstance(found, list) and found and all(isinstance(p, dict) and "type" in p for p in found)
    return found if typed else content


def _events(record: Record) -> Sides:
    """The older events, on the span, as log records, or in the attribute `events` (Pydantic AI)."""
    listed = loaded(record.attributes.get("events"))
    if isinstance(listed, list):
        happened = [
            Happening(name=as_text(e.get("event.name")), attributes={}, body=e)
            for e in listed
            if isinstance(e, dict)
        ]
    else:
        happened = record.events
    inputs: list[Act] = []
    outputs: list[Act] = []
    for event in happened:
        if event.name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            key = event.name.replace("content.", "")
            role = "user" if key.endswith("prompt") else "assistant"
            found = _numbered(event.attributes.get(key), role) or []
            (inputs if role == "user" else outputs).extend(found)
        elif event.name.startswith("gen_ai."):
            written = loaded(event.attributes.get("gen_ai.event.content") or event.body)
            body = {**event.attributes, **(written if isinstance(written, dict) else {})}
            opened = {k: loaded(v) if k in ("message", "tool_calls") else v for k, v in body.items()}
            opened["content"] = loaded_parts(opened.get("content"))
            found = acts_of({**opened, "event.name": event.name}, "user") or []
            (outputs if event.name == "gen_ai.choice" else inputs).extend(found)
    return inputs or None, outputs or None


def _openinference(record: Record) -> Sides:
    """`llm.input_messages` and `llm.output_messages`, numbered or nested; else the JSON of the two values."""
    held = record.attributes
    inputs = _inferred(unflat(held, "llm.input_messages"))
    outputs = _pieces_joined(_inferred(unflat(held, "llm.output_messages")), _begins_late(held))
    if inputs is None and (prompts := unflat(held, "llm.prompts")) is not None:
        texts = prompts if isinstance(prompts, list) else [prompts]
        inputs = [Said(role="user", parts=(Text(text=as_text(_prompt(text))),)) for text in texts]
    if inputs is None:
        inputs = _read(held.get("input.value"), "user")
    if outputs is None:
        outputs = _read(held.get("output.value"), "assistant")
    return inputs, outputs


def _prompt(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            value.get("prompt", value).get("text", value) if isinstance(value.get("prompt"), dict) else value
        )
    return value


def _begins_late(held: Attributes) -> bool:
    """Whether the first numbered output is missing: an exporter's limit cut a stream's pieces."""
    numbers = [
        int(number)
        for key in held
        if key.startswith(_PIECES) and (number := key[len(_PIECES) :].partition(".")[0]).isdecimal()
    ]
    return bool(numbers) and min(numbers) > 0


def _pieces_joined(acts: list[Act] | None, late: bool) -> list[Act] | None:
    """Outputs that are the pieces of a stream, a message each, as the one message that they are: `late` ones
    surely, others where they look so."""
    if acts is None or (len(acts) < _FEW_PIECES and not late):
        return acts
    texts = [
        act.parts[0].text
        for act in acts
        if isinstance(act, Said) and len(act.parts) == 1 and isinstance(act.parts[0], Text)
    ]
    spaced = sum(text[:1].isspace() for text in texts)
    short = sum(map(len, texts)) < len(texts) * _PIECE_LENGTH
    if len(texts) < len(acts) or not (late or (short and spaced * 4 >= len(texts))):
        return acts
    return [Said(role="assistant", parts=(Text(text="".join(texts)),))]


def _inferred(value: Any) -> list[Act] | None:
    value = loaded(value)
    if not isinstance(value, list) or not value:
        return None
    messages = []
    for item in value:
        message = item.get("message") if isinstance(item, dict) else None
        message = message if isinstance(message, dict) else item
        if not isinstance(message, dict) or not message:
            continue
        parts = message.get("contents")
        opened = {"content": "", **message}
        if isinstance(parts, list):
            blocks = [p.get("message_content", p) if isinstance(p, dict) else p for p in parts]
            own = message.get("content")
            opened["content"] = [*([own] if isinstance(own, str) and own else []), *blocks]
            opened.pop("contents")
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            opened["tool_calls"] = [c.get("tool_call", c) if isinstance(c, dict) else c for c in calls]
        if message.get("function_call_name"):
            opened["function_call"] = {
                "name": message["function_call_name"],
                "arguments": message.get("function_call_arguments_json"),
            }
        messages.append({"role": "assistant", **opened})
    return acts_of(messages, "assistant")


def _ai_sdk(record: Record) -> Sides:
    """`ai.prompt.messages` or `ai.prompt`, and `ai.response.*` (`ai.result.*` before version 4)."""
    held = record.attributes
    inputs = _read(held.get("ai.prompt.messages"), "user")
    if inputs is None:
        inputs = _read(held.get("ai.prompt"), "user")
    outputs: list[Act] = []
    for name in ("ai.response", "ai.result"):
        if thought := as_text(held.get(f"{name}.reasoning")):
            outputs.append(Said(role="assistant", parts=(Reasoning(text=thought),)))
        text = as_text(held.get(f"{name}.text")) or as_text(held.get(f"{name}.object"))
        if text:
            outputs.append(Said(role="assistant", parts=(Text(text=text),)))
        for key, kind in (("files", "file"), ("toolCalls", "tool-call")):
            listed = loaded(held.get(f"{name}.{key}"))
            blocks = (
                [{**b, "type": kind} for b in listed if isinstance(b, dict)]
                if isinstance(listed, list)
                else []
            )
            if blocks:
                outputs.extend(acts_of({"role": "assistant", "content": blocks}, "assistant") or [])
    answered = "ai.response.finishReason" in held or "ai.finishReason" in held
    return inputs, outputs if outputs or answered else None


def _adk(record: Record) -> Sides:
    """Google ADK's request and response."""
    held = record.attributes
    return (
        _read(held.get("gcp.vertex.agent.llm_request"), "user"),
        _read(held.get("gcp.vertex.agent.llm_response"), "assistant"),
    )


def _entity(record: Record) -> Sides:
    """OpenLLMetry's workflows and tasks, where they hold messages."""
    held = record.attributes
    return _read(held.get("traceloop.entity.input"), "user"), _read(
        held.get("traceloop.entity.output"), "assistant"
    )


_CONVENTIONS: Final[tuple[Callable[[Record], Sides], ...]] = (
    _current,
    _ai_sdk,
    _events,
    _older,
    _adk,
    _openinference,
    _entity,
)


def _finish(held: Attributes) -> tuple[str, ...]:
    reasons = loaded(held.get("gen_ai.response.finish_reasons") or held.get("ai.response.finishReason"))
    return marks_of(*(reasons if isinstance(reasons, list) else [reasons]))


def _role_less(value: Any) -> str | None:
    """A span's input or output that is plain text, told by nobody."""
    found = loaded(value)
    return found if isinstance(found, str) and found else None


def marked(acts: list[Act], marks: tuple[str, ...]) -> list[Act]:
    """`acts` with the last turn marked, unless it is already."""
    if not marks or any(isinstance(act, Said) and act.marks for act in acts):
        return acts
    if acts and isinstance(last := acts[-1], Said):
        return [*acts[:-1], msgspec.structs.replace(last, marks=marks)]
    return (
        [*acts, Said(role="assistant", parts=(), marks=marks)] if not isinstance(acts[-1:], Called) else acts
    )

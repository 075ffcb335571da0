"""Langfuse traces: a trace with its observations, as the export, the API and the SDKs write them, or a list
of observations or of traces.

The talk is read from the observations' input and output; where these are no messages, from the OpenTelemetry
attributes that Langfuse keeps in `metadata.attributes`. Scores that people gave become feedback.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sandbox_judge.conversation.acts import Act
from sandbox_judge.conversation.dialect_parts import loaded, plain_parts
from sandbox_judge.conversation.dialects import acts_of
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.feedback import instant
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.parts import as_text, without_blobs
from sandbox_judge.conversation.span_attributes import Content, content_of
from sandbox_judge.conversation.span_records import Attributes, Record, flat
from sandbox_judge.conversation.span_tree import Span, conversations
from sandbox_judge.conversation.tool_runs import ToolRun
from sandbox_judge.errors import InputError

NAME: Final = "langfuse"

_Trace = tuple[dict[str, Any], list[Any]]

_TYPES: Final = frozenset(
    {
        "SPAN",
        "GENERATION",
        "EVENT",
        "AGENT",
        "TOOL",
        "CHAIN",
        "RETRIEVER",
        "EVALUATOR",
        "EMBEDDING",
        "GUARDRAIL",
    }
)


def recognise(document: Document) -> bool:
    first = document.values[0]
    return bool(_is_observation(first) and document.many) or bool(_traces(_begun(first)))


def _begun(value: Any) -> Any:
    """A container with the first of its elements alone: enough to tell what it is."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        return {**value, "data": value["data"][:1]}
    return value[:1] if isinstance(value, list) else value


def read(document: Document) -> Iterator[Conversation]:
    spans: list[Span] = []
    for trace, observations in _traces(document.value):
        spans.extend(_spans(trace, observations))
    yield from conversations(spans, NAME)


def _traces(value: Any, depth: int = 0) -> list[_Trace]:
    """Each trace with its observations; an empty list for what is none. Raises InputError for a mixture."""
    if isinstance(value, dict):
        held = value.get("trace")
        trace = held if isinstance(held, dict) else value
        listed = value.get("observations", trace.get("observations"))
        if isinstance(listed, list) and listed and all(map(_is_observation, listed[:3])):
            return [(trace, listed)]
        return _traces(value["data"], depth + 1) if isinstance(value.get("data"), list) and not depth else []
    if not isinstance(value, list) or not value:
        return []
    if _is_observation(value[0]):
        return [({}, value)]
    found: list[_Trace] = []
    for index, item in enumerate(value, 1):
        inner = _traces(item, depth + 1) if isinstance(item, dict) else []
        if not inner:
            if found:
                where = f"element {index}"
                raise InputError(f"{where.capitalize()} is no Langfuse trace, as the first is.", where=where)
            return []
        found.extend(inner)
    return found


def _is_observation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(kind := value.get("type"), str)
        and kind in _TYPES
        and ("traceId" in value or "parentObservationId" in value or "startTime" in value)
    )


def _spans(trace: dict[str, Any], observations: list[Any]) -> Iterator[Span]:
    session = trace.get("sessionId")
    scores, evaluations = _scores(trace)
    whole = [o for o in observations if isinstance(o, dict)]
    known = {as_text(o["id"]) for o in whole if o.get("id") is not None}
    for index, observation in enumerate(whole):
        own = scores.get(as_text(observation.get("id")) or "-", [])
        if index == len(whole) - 1:
            own = [*own, *(item for of, items in scores.items() if of not in known for item in items)]
        span = _span(trace, observation, session, tuple(own))
        if index == 0 and evaluations:
            span.remark = f"{evaluations} scores of automatic evaluations are no feedback and were left out"
        yield span


def _scores(trace: dict[str, Any]) -> tuple[dict[str, list[Any]], int]:
    """The scores that people gave, by observation, and how many an evaluator gave: another judge's verdict
    would only sway the next."""
    scores: dict[str, list[Any]] = {}
    evaluations = 0
    for score in trace["scores"] if isinstance(trace.get("scores"), list) else ():
        if isinstance(score, dict) and score.get("source") == "EVAL":
            evaluations += 1
        elif isinstance(score, dict):
            scores.setdefault(as_text(score.get("observationId")), []).append(_feedback(score))
    return scores, evaluations


def _span(trace: dict[str, Any], observation: dict[str, Any], session: Any, scores: tuple[Any, ...]) -> Span:
    held = _held(observation)
    if session is not None:
        held["session.id"] = session
    start = instant(observation.get("startTime"))
    failed = observation.get("level") == "ERROR"
    record = Record(
        attributes=held,
        name=as_text(observation.get("name")),
        id=as_text(observation.get("id")) or None,
        parent=as_text(observation.get("parentObservationId")) or None,
        trace=as_text(observation.get("traceId") or trace.get("id")) or None,
        start=start,
        end=instant(observation.get("endTime")),
        error=(as_text(observation.get("statusMessage")) or "error") if failed else None,
    )
    return Span(record=record, content=_content(observation, record, trace), feedback=scores)


def _held(observation: dict[str, Any]) -> Attributes:
    metadata = loaded(observation.get("metadata"))
    held = metadata.get("attributes") if isinstance(metadata, dict) else None
    return flat(held) if isinstance(held, dict) else {}


def _content(observation: dict[str, Any], record: Record, trace: dict[str, Any]) -> Content:
    told = content_of(record)
    kind = observation.get("type")
    given, answer = loaded(observation.get("input")), loaded(observation.get("output"))
    if told.run is not None or kind == "TOOL":
        return _tool(observation, record, told, given)
    if kind in ("EMBEDDING", "RETRIEVER", "EVALUATOR", "GUARDRAIL"):
        return Content(agent=told.agent)
    is_model = kind == "GENERATION" or told.is_model
    inputs, outputs = _talk(given, "user"), _talk(answer, "assistant")
    if inputs is None or (told.inputs is not None and len(told.inputs) > len(inputs)):
        inputs = told.inputs
    outputs = outputs if outputs is not None else told.outputs
    text_in, text_out = _text(given, is_model) or told.text_in, _text(answer, is_model) or told.text_out
    if text_in is None and record.parent is None and isinstance(top := loaded(trace.get("input")), str):
        text_in = top
    if text_out is None and record.parent is None and isinstance(top := loaded(trace.get("output")), str):
        text_out = top
    return Content(
        inputs=inputs,
        outputs=outputs,
        is_model=is_model,
        agent=told.agent,
        text_in=text_in,
        text_out=None if text_out == "None" else text_out,
        finish=told.finish,
        partial=told.partial and outputs is told.outputs,
    )


def _text(value: Any, is_model: bool) -> str | None:
    """Text as it is; what else a model was given or gave, and is no message, as JSON."""
    if isinstance(value, str):
        return value or None
    return as_text(without_blobs(value)) if is_model and isinstance(value, dict | list) and value else None


def _talk(value: Any, role: str) -> list[Act] | None:
    return acts_of(value, role) if isinstance(value, dict | list) and value else None


def _tool(observation: dict[str, Any], record: Record, told: Content, given: Any) -> Content:
    run = told.run or ToolRun(name=record.name, error=record.error, start=record.start, end=record.end)
    name = record.attributes.get("gen_ai.tool.name") or run.name
    id = as_text(record.attributes.get("gen_ai.tool.call.id")) or run.id
    result = run.result
    if result is None and (answer := observation.get("output")) is not None:
        found = loaded(answer)
        result = plain_parts(found if isinstance(found, str) else answer)
    arguments = run.arguments if run.arguments is not None else given
    return Content(
        run=msgspec.structs.replace(run, name=as_text(name), id=id, result=result, arguments=arguments),
        agent=told.agent,
    )


def _feedback(score: dict[str, Any]) -> dict[str, Any]:
    text = score.get("stringValue")
    return {
        "name": score.get("name"),
        "value": text if isinstance(text, str) and text else score.get("value"),
        "comments": score.get("comment"),
        "user_id": score.get("authorUserId"),
        "time": score.get("timestamp") or score.get("createdAt"),
        "properties": {"source": score["source"]} if isinstance(score.get("source"), str) else {},
    }

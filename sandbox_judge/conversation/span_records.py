"""Spans out of what exporters write: OTLP JSON, the SDKs' own JSON in three languages, Phoenix's rows, bare
attributes. All become one record, whose attributes are flat. Pure.

Shapes: opentelemetry-proto's trace.proto and logs.proto (JSON encoding); `ReadableSpan.to_json` of Python;
`ReadableSpan` and the console exporter of JavaScript; Phoenix's span exports.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.feedback import instant
from sandbox_judge.conversation.parts import as_text

# Where containers hold what leads to spans: any of them may stand in any other.
_CONTAINERS: Final = (
    "spans",
    "resourceSpans",
    "resource_spans",
    "resourceLogs",
    "resource_logs",
    "data",
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "scopeLogs",
    "scope_logs",
    "logRecords",
    "log_records",
)
_CHILDREN: Final = ("children", "child_spans")
_OWN: Final = "attributes."
_CONTEXTS: Final = ("spanContext", "context", "_spanContext")
_NESTED: Final = ("gen_ai", "llm", "ai", "openinference", "tool", "input", "output", "session", "traceloop")
# Attributes that are objects themselves: their keys are no names of attributes.
_VALUES: Final = ("arguments", "args", "result", "parameters", "value", "messages", "instructions", "prompt")
_LEVELS: Final = 3
_MAX_DEPTH: Final = 12
_ERRORS: Final = frozenset({"2", "ERROR", "STATUS_CODE_ERROR", "Error"})

# Whose words attributes are, the more particular first: each may stand beside those after it.
_WORDS: Final = (
    (("ai.prompt", "ai.response", "ai.operationId", "ai.toolCall", "ai.result"), "ai_sdk"),
    (("openinference.", "llm.input_messages", "llm.output_messages", "llm.prompts"), "openinference"),
    (("gen_ai.", "traceloop."), "gen_ai"),
)
_LOOKED_AT: Final = 100

Attributes = dict[str, Any]


class Happening(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event of a span, or a log record that belongs to one."""

    name: str
    attributes: Attributes
    body: Any = None
    time: float | None = None


class Record(msgspec.Struct, kw_only=True, gc=False):
    """One span as it was written. `error` tells a status of failure."""

    attributes: Attributes
    name: str = ""
    id: str | None = None
    parent: str | None = None
    trace: str | None = None
    start: float | None = None
    end: float | None = None
    events: list[Happening] = msgspec.field(default_factory=list)
    error: str | None = None
    is_log: bool = False


def records_of(document: Document) -> list[Record]:
    """Every span of a document, in the order of writing; log records joined to their spans as events."""
    found: list[Record] = []
    seen: set[tuple[str | None, str]] = set()
    for row in _rows(list(document.values), 0):
        record = _record(row)
        if record is None:
            continue
        if record.id is not None and not record.is_log:
            if (record.trace, record.id) in seen:
                continue
            seen.add((record.trace, record.id))
        found.append(record)
    return _with_logs(found)


def speaks(document: Document) -> str | None:
    """Whose words the first spans use: `ai_sdk`, `openinference`, `gen_ai`; `otel` for spans that hold none
    of these, None where there are no spans. Looks at a few only."""
    seen: str | None = None
    found: set[str] = set()
    for row in islice(_rows(list(document.values[:_LOOKED_AT]), 0, _LOOKED_AT), _LOOKED_AT):
        seen = "otel"
        for key in _names(row):
            for prefixes, word in _WORDS:
                if key.startswith(prefixes):
                    found.add(word)
    return next((word for _, word in _WORDS if word in found), seen)


def _names(row: dict[str, Any]) -> Iterator[str]:
    """The names of a span's attributes, and of its events where those may carry the talk."""
    yield from _attributes(row)
    for event in row["events"][:_LOOKED_AT] if isinstance(row.get("events"), list) else ():
        yield as_text(event.get("name")) if isinstance(event, dict) else ""
    yield as_text(row.get("eventName"))


def _rows(value: Any, depth: int, most: int | None = None) -> Iterator[dict[str, Any]]:
    """The objects in a container that are spans, looking at no more than the `most` first of each list."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in value if most is None else value[:most]:
            yield from _rows(item, depth + 1, most)
        return
    if not isinstance(value, dict):
        return
    own = is_span(value)
    if own:
        yield value
    for key in _CHILDREN if own else _CONTAINERS:
        if isinstance(value.get(key), list):
            yield from _rows(value[key], depth + 1, most)


def is_span(value: Mapping[str, Any]) -> bool:
    """Whether an object is a span, a log record of one, or the bare attributes of one."""
    if isinstance(value.get("attributes"), dict | list) and any(
        key in value for key in ("name", "spanContext", "spanId", "span_id", "context", "traceId", "body")
    ):
        return True
    if "attributes" in value and isinstance(value["attributes"], dict) and len(value) <= 3:
        return True
    if "body" in value and isinstance(value.get("eventName", value.get("event_name")), str):
        return True
    if "context.span_id" in value or any(
        key.startswith(("gen_ai.", "llm.", "ai.", "attributes.", "openinference.")) for key in value
    ):
        return True
    llm = value.get("llm")
    return isinstance(value.get("gen_ai"), dict) or (
        isinstance(llm, dict) and any(key.startswith(("input_messages", "output_messages")) for key in llm)
    )


def _record(row: dict[str, Any]) -> Record | None:
    context: dict[str, Any] = next((held for key in _CONTEXTS if isinstance(held := row.get(key), dict)), {})
    id = _id(row, context, ("spanId", "span_id", "context.span_id", "id"))
    attributes = _attributes(row)
    status = row.get("status", {})
    code = (
        status.get("code", status.get("status_code")) if isinstance(status, dict) else row.get("status_code")
    )
    told = status.get("message", status.get("description")) if isinstance(status, dict) else None
    failed = as_text(code) in _ERRORS
    start = _time(row, ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp"))
    end = _time(row, ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime"))
    is_log = "body" in row and not ("startTimeUnixNano" in row or "startTime" in row or "start_time" in row)
    record = Record(
        attributes=attributes,
        name=as_text(row.get("name")),
        id=id,
        parent=_parent(row),
        trace=_id(row, context, ("traceId", "trace_id", "context.trace_id")),
        start=start,
        end=end,
        events=list(_events(row.get("events"))),
        error=(as_text(told or row.get("status_message")) or "error") if failed else None,
        is_log=is_log,
    )
    if is_log:
        name = as_text(row.get("eventName") or row.get("event_name") or attributes.get("event.name"))
        time = _time(row, ("timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "timestamp"))
        body = _plain(row.get("body"), 0)
        record.events = [Happening(name=name, attributes=attributes, body=body, time=time)]
        record.start = time
    return record


def _attributes(row: dict[str, Any]) -> Attributes:
    held = row.get("attributes")
    if isinstance(held, list):
        return flat(
            {
                item["key"]: _plain(item.get("value"), 0)
                for item in held
                if isinstance(item, dict) and isinstance(item.get("key"), str)
            }
        )
    if not isinstance(held, dict):
        prefixed = {key[len(_OWN) :]: value for key, value in row.items() if key.startswith(_OWN)}
        held = prefixed if prefixed or "context.span_id" in row else row
    return flat(held)


def flat(held: Mapping[str, Any]) -> Attributes:
    """Attributes under dotted names, also where the outermost levels are nested objects."""
    out: Attributes = {}
    for key, value in held.items():
        if isinstance(value, dict) and key.split(".")[0] in _NESTED and not key.endswith(_VALUES):
            _flatten(key, value, out, 0)
        else:
            out[key] = value
    return out


def _flatten(prefix: str, value: dict[str, Any], out: Attributes, depth: int) -> None:
    for key, item in value.items():
        name = f"{prefix}.{key}"
        if isinstance(item, dict) and depth < _LEVELS and not name.endswith(_VALUES):
            _flatten(name, item, out, depth + 1)
        else:
            out[name] = item


def unflat(attributes: Attributes, prefix: str) -> Any:
    """The value under `prefix`: itself, or what `prefix.0.message.role` and its like add up to."""
    if attributes.get(prefix) is not None:
        return opened(attributes[prefix])
    under = f"{prefix}."
    inner = {key[len(under) :]: value for key, value in attributes.items() if key.startswith(under)}
    return opened(inner) if inner else None


def opened(value: Any, depth: int = 0) -> Any:
    """`value` with dotted keys nested and objects that are numbered through turned into lists."""
    if depth > _MAX_DEPTH * 2:
        return value
    if isinstance(value, list):
        return [opened(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    grouped: dict[str, Any] = {}
    for key, item in value.items():
        head, dot, rest = key.partition(".")
        if not dot:
            held = grouped.get(key)
            grouped[key] = {**held, **item} if isinstance(held, dict) and isinstance(item, dict) else item
        else:
            inner = grouped.setdefault(head, {})
            if isinstance(inner, dict):
                inner[rest] = item
    if grouped and all(key.isascii() and key.isdecimal() and len(key) < 10 for key in grouped):
        return [opened(grouped[key], depth + 1) for key in sorted(grouped, key=int)]
    return {
        key: opened(item, depth + 1) if isinstance(item, dict | list) else item
        for key, item in grouped.items()
    }


def _plain(value: Any, depth: int) -> Any:
    """OTLP's `AnyValue` as JSON."""
    if not isinstance(value, dict) or depth > _MAX_DEPTH * 4:
        return value
    for key in ("stringValue", "boolValue", "doubleValue", "bytesValue", "string_value", "bool_value"):
        if key in value:
            return value[key]
    for key in ("intValue", "int_value"):
        if key in value:
            number = value[key]
            return int(number) if isinstance(number, str) and number.lstrip("-").isdecimal() else number
    listed = value.get("arrayValue", value.get("array_value"))
    if isinstance(listed, dict):
        items = listed.get("values")
        return [_plain(item, depth + 1) for item in items] if isinstance(items, list) else []
    pairs = value.get("kvlistValue", value.get("kvlist_value"))
    if isinstance(pairs, dict):
        items = pairs.get("values")
        return {
            item["key"]: _plain(item.get("value"), depth + 1)
            for item in (items if isinstance(items, list) else ())
            if isinstance(item, dict) and isinstance(item.get("key"), str)
        }
    return value if value else None


def _events(value: Any) -> Iterator[Happening]:
    for event in value if isinstance(value, list) else ():
        if isinstance(event, dict):
            yield Happening(
                name=as_text(event.get("name")),
                attributes=_attributes({"attributes": {}, **event}),
                body=_plain(event.get("body"), 0),
                time=_time(event, ("timeUnixNano", "time_unix_nano", "timestamp", "time")),
            )


def _id(row: dict[str, Any], context: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    for held in (context, row):
        for key in keys:
            value = held.get(key)
            if isinstance(value, str) and value.strip("0x"):
                return value.removeprefix("0x").lower()
            if isinstance(value, int) and value:
                return f"{value:x}"
    return None


def _parent(row: dict[str, Any]) -> str | None:
    context = row.get("parentSpanContext")
    keys = ("parentSpanId", "parent_span_id", "parentId", "parent_id", "spanId", "span_id")
    return _id(row, context, keys) if isinstance(context, dict) else _id(row, {}, keys[:4])


def _time(row: dict[str, Any], keys: Iterable[str]) -> float | None:
    for key in keys:
        value = row.get(key)
        if isinstance(value, str) and value.isdecimal() and len(value) < 30:
            value = int(value)
        if isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value):
            return float(value[0] + value[1] / 1e9)
        if value is not None and (found := instant(value)) is not None:
            return found
    return None


def _with_logs(records: list[Record]) -> list[Record]:
    """The spans, with log records as events of the spans that they name; those of no span stay together."""
    if not any(record.is_log for record in records):
        return records
    spans = {record.id: record for record in records if not record.is_log and record.id is not None}
    kept = [record for record in records if not record.is_log]
    alone: Record | None = None
    for record in records:
        if not record.is_log:
            continue
        owner = spans.get(record.id) if record.id is not None else alone
        if owner is None:
            owner = Record(attributes={}, name="log", id=record.id, trace=record.trace, start=record.start)
            kept.append(owner)
            if record.id is None:
                alone = owner
            else:
                spans[record.id] = owner
        owner.events.extend(record.events)
    return kept

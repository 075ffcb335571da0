"""LangSmith runs: a run with its child runs, a list of runs (`list_runs`), JSON Lines of an export.

Runs of type `llm` are a model's calls, `tool` runs the tools; chains around them add what they alone hold.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.acts import Act, Answered
from sandbox_judge.conversation.dialect_parts import loaded, plain_parts
from sandbox_judge.conversation.dialects import acts_of, as_message, message_acts
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.feedback import instant
from sandbox_judge.conversation.model import Conversation, Part
from sandbox_judge.conversation.parts import as_text, without_blobs
from sandbox_judge.conversation.span_attributes import Content
from sandbox_judge.conversation.span_records import Record
from sandbox_judge.conversation.span_tree import Span, conversations
from sandbox_judge.conversation.tool_runs import ToolRun

NAME: Final = "langsmith"

_TYPES: Final = frozenset({"llm", "chain", "tool", "retriever", "prompt", "parser", "embedding", "agent"})
_THREADS: Final = ("session_id", "thread_id", "conversation_id")
_HOLDERS: Final = ("runs", "data")
_TEXT_KEYS: Final = ("input", "output", "question", "query", "answer", "text", "result", "prompt")


def recognise(document: Document) -> bool:
    return _is_run(_first(document))


def read(document: Document) -> Iterator[Conversation]:
    spans: list[Span] = []
    first = document.value
    stack = [iter(first if isinstance(first, list) else _listed(first))]
    while stack:
        run = next(stack[-1], None)
        if run is None:
            stack.pop()
        elif isinstance(run, dict):
            spans.append(_span(run))
            if isinstance(run.get("child_runs"), list):
                stack.append(iter(run["child_runs"]))
    yield from conversations(spans, NAME)


def _first(document: Document) -> Any:
    first = document.values[0]
    listed = first if isinstance(first, list) else _listed(first)
    return listed[0] if listed else None


def _listed(value: Any) -> list[Any]:
    if isinstance(value, dict) and not _is_run(value):
        return next((held for key in _HOLDERS if isinstance(held := value.get(key), list)), [])
    return [value]


def _is_run(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(kind := value.get("run_type"), str)
        and kind in _TYPES
        and ("inputs" in value or "outputs" in value or "child_runs" in value)
    )


def _span(run: dict[str, Any]) -> Span:
    error = run.get("error")
    record = Record(
        attributes=_thread(run),
        name=as_text(run.get("name")),
        id=as_text(run.get("id")) or None,
        parent=as_text(run.get("parent_run_id")) or None,
        trace=as_text(run.get("trace_id")) or None,
        start=instant(run.get("start_time")),
        end=instant(run.get("end_time")),
        error=as_text(error)[:2000] if error else None,
    )
    return Span(record=record, content=_content(run, record), feedback=tuple(_feedback(run)))


def _thread(run: dict[str, Any]) -> dict[str, Any]:
    """The thread that a run's metadata names (its own `session_id` is the project)."""
    extra = run.get("extra")
    held = extra.get("metadata") if isinstance(extra, dict) else run.get("metadata")
    if not isinstance(held, dict):
        return {}
    named = next((held[key] for key in _THREADS if held.get(key)), None)
    return {"session.id": as_text(named)} if named else {}


def _content(run: dict[str, Any], record: Record) -> Content:
    kind, given, answer = run.get("run_type"), run.get("inputs"), run.get("outputs")
    extra = run.get("extra")
    metadata = extra.get("metadata") if isinstance(extra, dict) else None
    node = metadata.get("lc_agent_name") if isinstance(metadata, dict) else None
    agent = as_text(node) or None
    if kind == "tool":
        return Content(run=_tool(record, given, answer), agent=agent)
    if kind not in ("llm", "chain", "agent"):
        return Content(agent=agent)
    return Content(
        inputs=_talk(given, "user"),
        outputs=_talk(answer, "assistant"),
        is_model=kind == "llm",
        agent=agent,
        text_in=_text(given) if kind == "llm" or record.parent is None else None,
        text_out=_text(answer) if kind == "llm" or record.parent is None else None,
    )


def _talk(value: Any, role: str) -> list[Act] | None:
    """The messages of a run's inputs or outputs: by the known keys, or of the one object that it wraps."""
    if not isinstance(value, dict) or not value:
        return None
    found = acts_of(value, role)
    if found is None and len(value) == 1:
        inner = next(iter(value.values()))
        found = acts_of(inner, role) if isinstance(inner, dict | list) and inner else None
    return found


def _text(value: Any) -> str | None:
    if not isinstance(value, dict):
        return value if isinstance(value, str) and value else None
    prompts = value.get("prompts")
    if isinstance(prompts, list) and prompts and all(isinstance(item, str) for item in prompts):
        return "\n".join(prompts)
    told = next((held for key in _TEXT_KEYS if isinstance(held := value.get(key), str) and held), None)
    return told or (as_text(without_blobs(value)) if value else None)


def _tool(record: Record, given: Any, answer: Any) -> ToolRun:
    """A tool's run: its input is an object, or the text of one (of JSON, or of a Python literal: kept)."""
    arguments = given
    if (
        isinstance(given, dict)
        and set(given) <= {"input", "tool_call_id"}
        and isinstance(given.get("input"), str)
    ):
        arguments = loaded(given["input"])
    result: tuple[Part, ...] | None = None
    id: str | None = None
    failed = record.error
    if answer is not None:
        held = answer["output"] if isinstance(answer, dict) and set(answer) == {"output"} else answer
        message = as_message(held) if isinstance(held, dict) else None
        acts = message_acts(message, "tool") if message is not None else []
        if acts and isinstance(first := acts[0], Answered):
            result, id = first.parts, first.id
            failed = failed or ("error" if first.error else None)
        else:
            result = plain_parts(held)
    return ToolRun(
        name=record.name,
        arguments=arguments,
        result=result,
        id=id,
        error=failed,
        start=record.start,
        end=record.end,
    )


def _feedback(run: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Feedback that people or the application gave to a run; an evaluator's is another judge's verdict."""
    listed = run.get("feedback")
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, dict):
            continue
        source = item.get("feedback_source")
        if isinstance(source, dict) and source.get("type") in ("model", "auto_eval"):
            continue
        yield {
            "name": item.get("key"),
            "value": item.get("value") if item.get("value") is not None else item.get("score"),
            "comments": item.get("comment"),
            "time": item.get("created_at"),
        }
    stats = run.get("feedback_stats")
    for key, item in stats.items() if isinstance(stats, dict) and not listed else ():
        yield {"name": key, "value": item.get("avg") if isinstance(item, dict) else item}

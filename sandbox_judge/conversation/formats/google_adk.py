"""Google ADK: sessions (the newer and the older shape), eval sets, their results, and the old lists of turns.

Shapes: github.com/google/adk-python, `sessions/session.py`, `events/event.py`, `evaluation/eval_case.py`.
Contents are Gemini's (`gemini_parts`). The first agent that speaks is the conversation's own; the turns of
others are marked with their name. What an eval set expects of an agent is read as what was said, with a
warning: it is a reference, not a recording.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.gemini_parts import add_content, answer_parts
from sandbox_judge.conversation.model import Conversation, Text, Unknown
from sandbox_judge.conversation.parts import as_text, listed
from sandbox_judge.conversation.rows import alike, rows_of
from sandbox_judge.errors import InputError

NAME: Final = "google_adk"

Json = dict[str, Any]

_USER: Final = "user"
# Authors that are no agent's name.
_NO_AGENT: Final = (_USER, "model", "", None)
_MARKS: Final = {
    "MAX_TOKENS": "truncated",
    "SAFETY": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "BLOCKLIST": "content_filter",
    "SPII": "content_filter",
    "RECITATION": "content_filter",
}


def recognise(document: Document) -> bool:
    first = document.values[0]
    if not document.many and isinstance(first, list):
        return bool(first) and (_is_turn(first[0]) or _is_own(first[0]))
    return _is_known(first)


def read(document: Document) -> Iterator[Conversation]:
    first = document.values[0]
    if not document.many and isinstance(first, list) and _is_turn(first[0]):
        yield _turns(first, None)
        return
    for _, row in alike(document, rows_of(document), _is_own, "ADK session or eval set"):
        if _is_named_turns(row):
            yield _turns(row["data"], row.get("name"))
        else:
            yield from _known(row)


def _is_own(value: Any) -> bool:
    return _is_named_turns(value) or _is_known(value)


def _is_session(value: Any) -> bool:
    events = value.get("events") if isinstance(value, dict) else None
    if not isinstance(events, list):
        return False
    if not events:
        return any(key in value for key in ("app_name", "appName"))
    event = events[0]
    return (
        isinstance(event, dict)
        and isinstance(event.get("author"), str)
        and any(key in event for key in ("invocation_id", "invocationId", "content", "actions"))
    )


def _is_set(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(_of(value, "eval_cases"), list)


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(_of(value, "eval_case_results"), list)


def _is_case(value: Any) -> bool:
    turns = value.get("conversation") if isinstance(value, dict) else None
    return isinstance(turns, list) and bool(turns) and _is_invocation(turns[0])


def _is_invocation(value: Any) -> bool:
    return isinstance(value, dict) and _of(value, "user_content") is not None


def _is_known(value: Any) -> bool:
    return _is_session(value) or _is_set(value) or _is_result(value) or _is_case(value)


def _is_turn(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("query"), str)
        and any(key in value for key in ("expected_tool_use", "expected_intermediate_agent_responses"))
    )


def _is_named_turns(value: Any) -> bool:
    data = value.get("data") if isinstance(value, dict) else None
    return isinstance(data, list) and bool(data) and _is_turn(data[0])


def _known(value: Json) -> Iterator[Conversation]:
    if _is_session(value):
        yield _session(value)
    elif _is_set(value):
        for case in _of(value, "eval_cases"):
            yield _case(case if isinstance(case, dict) else {})
    elif _is_result(value):
        for result in _of(value, "eval_case_results"):
            yield _result(result if isinstance(result, dict) else {})
    else:
        yield _case(value)


def _session(session: Json) -> Conversation:
    build = ConversationBuilder(NAME, id=session.get("id"))
    events = [e for key in ("past_events", "pastEvents", "events") for e in listed(session.get(key))]
    main = next((e.get("author") for e in events if _speaks(e)), None)
    for told in _instructions(session):
        build.message("system", told)
    pieces = 0
    for number, event in enumerate(events, 1):
        if not isinstance(event, dict):
            raise InputError(f"Event {number} of the session is no object.", where=f"event {number}")
        if event.get("partial") is True:
            pieces += 1
            continue
        _event(build, event, main)
    if pieces:
        build.warn(
            "rows_left_out", f"{pieces} streamed pieces were left out: what they add up to follows them"
        )
    last = events[-1] if events else {}
    if _error(last) is not None:
        build.failed(_error(last))
    return build.build()


def _speaks(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and event.get("author") not in _NO_AGENT
        and isinstance(event.get("author"), str)
    )


def _instructions(session: Json) -> list[str]:
    """The system instructions that an older session's log of model requests holds, each once."""
    found: dict[str, None] = {}
    for log in listed(session.get("event_logs")):
        request = log.get("model_request") if isinstance(log, dict) else None
        config = request.get("config") if isinstance(request, dict) else None
        told = config.get("system_instruction") if isinstance(config, dict) else None
        if told:
            found[as_text(told)] = None
    return list(found)


def _event(build: ConversationBuilder, event: Json, main: Any) -> None:
    author, time = event.get("author"), event.get("timestamp")
    content = event.get("content")
    agent = None if author == main or author in _NO_AGENT else author
    role = _USER if author == _USER else "assistant"
    for key in ("input_transcription", "output_transcription"):
        heard = _of(event, key)
        if isinstance(heard, dict) and heard.get("text"):
            build.message(
                _USER if key.startswith("input") else "assistant",
                as_text(heard["text"]),
                agent=agent,
                time=time,
            )
    mark = _MARKS.get(as_text(_of(event, "finish_reason")))
    if event.get("interrupted") is True:
        mark = "interrupted"
    if isinstance(content, dict) and (content.get("parts") is not None or mark is not None):
        if author not in (_USER, "model") and content.get("role") == "system":
            role = "system"
        add_content(build, role, content.get("parts"), agent=agent, time=time, mark=mark)
    elif content is not None and not isinstance(content, dict):
        build.message(role, [build.unknown("content", content)], agent=agent, time=time)
    elif mark is not None:
        build.message(role, [build.mark(mark)], agent=agent, time=time)
    if (error := _error(event)) is not None:
        build.message(role, [build.mark("error", error)], agent=agent, time=time)
    actions = event.get("actions")
    compaction = actions.get("compaction") if isinstance(actions, dict) else None
    if isinstance(compaction, dict):
        summary = _texts(_of(compaction, "compacted_content"))
        build.message("system", [Unknown(label="compacted", text=summary or None)], time=time)


def _error(event: Any) -> str | None:
    if not isinstance(event, dict):
        return None
    told = [as_text(_of(event, key)) for key in ("error_code", "error_message")]
    return " ".join(filter(None, told)) or None


def _texts(content: Any) -> str:
    parts = listed(content.get("parts")) if isinstance(content, dict) else []
    return "\n".join(as_text(p.get("text")) for p in parts if isinstance(p, dict) and p.get("text"))


def _reference(build: ConversationBuilder) -> None:
    build.warn("reference", "an eval set holds what is expected of the agent, not what it did")


def _case(case: Json) -> Conversation:
    build = ConversationBuilder(NAME, id=_of(case, "eval_id"))
    turns = listed(case.get("conversation"))
    if not turns and _of(case, "conversation_scenario") is not None:
        build.missing("the eval case gives a scenario to play, and no conversation")
    _reference(build)
    for turn in turns:
        _invocation(build, turn)
    return build.build()


def _invocation(build: ConversationBuilder, turn: Any) -> None:
    if not isinstance(turn, dict):
        raise InputError("An invocation of the eval case is no object.")
    time = _of(turn, "creation_timestamp")
    _content(build, _USER, _of(turn, "user_content"), time=time)
    between = _of(turn, "intermediate_data")
    between = between if isinstance(between, dict) else {}
    for event in listed(_of(between, "invocation_events")):
        if isinstance(event, dict):
            author = event.get("author")
            agent = None if author in _NO_AGENT else author
            _content(build, "assistant", event.get("content"), agent=agent, time=time)
    for call in listed(_of(between, "tool_uses")):
        held = call if isinstance(call, dict) else {"args": call}
        build.tool_call(held.get("name"), held.get("args"), id=held.get("id"), time=time)
    for answer in listed(_of(between, "tool_responses")):
        held = answer if isinstance(answer, dict) else {"response": answer}
        parts, failed = answer_parts(build, held)
        build.tool_result(parts, id=held.get("id"), name=held.get("name"), error=failed, time=time)
    for said in listed(_of(between, "intermediate_responses")):
        author, parts = said if isinstance(said, list) and len(said) == 2 else (None, said)
        agent = None if author in _NO_AGENT or not isinstance(author, str) else author
        add_content(build, "assistant", parts, agent=agent, time=time)
    _content(build, "assistant", _of(turn, "final_response"), time=time)


def _content(
    build: ConversationBuilder, role: str, content: Any, *, agent: Any = None, time: Any = None
) -> None:
    if content is None:
        return
    if not isinstance(content, dict):
        build.message(role, [Text(text=as_text(content))], agent=agent, time=time)
        return
    add_content(build, role, content.get("parts"), agent=agent, time=time)


def _result(result: Json) -> Conversation:
    """A case of an eval run: the session where it is kept, else its invocations as they were."""
    id = _of(result, "session_id") or _of(result, "eval_id")
    details = _of(result, "session_details")
    if _is_session(details):
        return _session({**details, "id": details.get("id") or id})
    build = ConversationBuilder(NAME, id=id)
    for metric in listed(_of(result, "eval_metric_result_per_invocation")):
        actual = _of(metric, "actual_invocation") if isinstance(metric, dict) else None
        if actual is not None:
            _invocation(build, actual)
    return build.build()


def _turns(turns: list[Any], id: Any) -> Conversation:
    """The old list of turns: a query, the tools and words expected, a reference answer."""
    build = ConversationBuilder(NAME, id=id)
    _reference(build)
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict) or "query" not in turn:
            raise InputError(
                f"Element {number} of the eval data has no query, as the first has.",
                where=f"element {number}",
            )
        build.message(_USER, as_text(turn["query"]))
        for call in listed(turn.get("expected_tool_use")):
            held = call if isinstance(call, dict) else {"tool_input": call}
            build.tool_call(held.get("tool_name"), held.get("tool_input"))
            if held.get("mock_tool_output") is not None:
                build.tool_result(as_text(held["mock_tool_output"]), name=held.get("tool_name"))
        for said in listed(turn.get("expected_intermediate_agent_responses")):
            held = said if isinstance(said, dict) else {"text": said}
            build.message("assistant", as_text(held.get("text")), agent=held.get("author"))
        if turn.get("reference") is not None:
            build.message("assistant", as_text(turn["reference"]))
    return build.build()


def _of(value: Json, key: str) -> Any:
    """What stands under `key`, in snake_case or in camelCase, as pydantic models write either."""
    found = value.get(key)
    if found is None:
        head, *tail = key.split("_")
        found = value.get(head + "".join(word.capitalize() for word in tail))
    return found

"""Conversations out of spans: which belong together, which are calls of a model, which stand around those.

Spans of one trace are one conversation, and so are traces of one session. Within it the calls that no other
call lies in carry the talk; what encloses them (an agent's run) adds only what they do not show. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from sandbox_judge.conversation.acts import Act, Called, Said
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.history import History, ModelCall
from sandbox_judge.conversation.model import Conversation, Text
from sandbox_judge.conversation.span_attributes import Content, content_of, marked
from sandbox_judge.conversation.span_records import Record
from sandbox_judge.conversation.tool_runs import ToolRun

_SESSIONS: Final = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.threadId",
    "thread_id",
)
# A transcript in one text: its first line names a role.
_SYSTEM_FIRST: Final = re.compile(r"(?:system|developer|System): ")
_ROLE_LINE: Final = re.compile(
    r"^(?:system|developer|user|assistant|tool|function|System|Human|AI|Tool|Function): ", re.MULTILINE
)
_MAX_DEPTH: Final = 200


class Span(msgspec.Struct, kw_only=True, eq=False):
    """A span with what it holds. `feedback` are scores given to it."""

    record: Record
    content: Content
    feedback: tuple[Any, ...] = ()
    # What a reader left out.
    remark: str | None = None
    parent: "Span | None" = None
    # Calls of a model lie within it.
    encloses: bool = False

    def agent(self) -> str | None:
        span: Span | None = self
        for _ in range(_MAX_DEPTH):
            if span is None:
                return None
            if span.content.agent:
                return span.content.agent
            span = span.parent
        return None


def spans_of(records: Sequence[Record]) -> list[Span]:
    return [Span(record=record, content=content_of(record)) for record in records]


def conversations(spans: Sequence[Span], name: str) -> Iterator[Conversation]:
    """One conversation a session, or a trace; spans that hold no talk at all make none."""
    for of, group in _groups(spans).items():
        built = _conversation(group, name, of)
        if built.entries:
            yield built


def _groups(spans: Sequence[Span]) -> dict[str | None, list[Span]]:
    sessions: dict[str | None, set[str]] = {}
    for span in spans:
        held = span.record.attributes
        for key in _SESSIONS:
            value = held.get(key)
            # A response's id stands there too (Azure's agents): it names no conversation.
            if isinstance(value, str) and value and not value.startswith("resp_"):
                sessions.setdefault(span.record.trace, set()).add(value)
                break
    groups: dict[str | None, list[Span]] = {}
    for span in spans:
        own = sessions.get(span.record.trace, set())
        groups.setdefault(next(iter(own)) if len(own) == 1 else span.record.trace, []).append(span)
    if None in groups and len(groups) == 2:
        # Spans without a trace beside one trace: records of the same run.
        rest = groups.pop(None)
        groups[next(iter(groups))].extend(rest)
    return groups


def _conversation(spans: list[Span], name: str, of: str | None) -> Conversation:
    build = ConversationBuilder(name, id=of)
    _link(spans)
    for span in spans:
        if span.content.is_model:
            span.content = _with_texts(span, build)
    calls, history, named = _calls(spans), History(), _names_agents(spans)
    leaves = _leaves(calls)
    ranges = _replay(leaves, history, named)
    own = {id(span) for span in leaves}
    for span in sorted(calls, key=lambda span: span.content.partial):
        if id(span) not in own or span.content.partial:
            _around(span, history, ranges.get(id(span), (0, len(history))), named, build)
    if not len(history):
        _texts(spans, history)
    history.tell(build, _runs(spans, named))
    _outcome(spans, leaves, build)
    for span in spans:
        if span.remark is not None:
            build.warn("left_out", span.remark)
        for item in span.feedback:
            build.feedback(item)
    return build.build()


def _around(
    span: Span, history: History, place: tuple[int, int], named: bool, build: ConversationBuilder
) -> None:
    """A record that is no call by itself: it adds what stands nowhere."""
    call = _model_call(span, named)
    if not span.content.partial or span.encloses:
        history.around(call, place)
        return
    outputs = [act for act in call.outputs if not history.holds(act)]
    if len(outputs) < len(call.outputs):
        build.warn("partial_output", "a call's output was recorded in part; the whole stands elsewhere")
    if outputs:
        history.put_first(marked(outputs, ("partial",)), call, place[1])


def _link(spans: list[Span]) -> None:
    by_id = {(span.record.trace, span.record.id): span for span in spans if span.record.id is not None}
    for span in spans:
        parent = by_id.get((span.record.trace, span.record.parent)) if span.record.parent else None
        span.parent = parent if parent is not span else None


def _ancestors(span: Span) -> Iterator[Span]:
    above = span.parent
    for _ in range(_MAX_DEPTH):
        if above is None or above is span:
            return
        yield above
        above = above.parent


def _calls(spans: list[Span]) -> list[Span]:
    """The spans with talk, in time order (those without a time where they were written)."""
    found = [span for span in spans if span.content.inputs is not None or span.content.outputs is not None]
    latest, keyed = 0.0, []
    for index, span in enumerate(found):
        start = span.record.start
        latest = latest if start is None else start
        keyed.append((latest, index, span))
    keyed.sort(key=lambda item: item[:2])
    return [span for _, _, span in keyed]


def _leaves(calls: list[Span]) -> list[Span]:
    """The calls that carry the talk: a model's that no other lies in. Where no span is a model's (an agent's
    run alone was recorded), those that no other lies in."""
    models = [span for span in calls if span.content.is_model] or calls
    for span in models:
        for above in _ancestors(span):
            if above.encloses:
                break
            above.encloses = True
    return [span for span in models if not span.encloses]


def _with_texts(span: Span, build: ConversationBuilder) -> Content:
    """A model's call whose input or output is plain text: that is what was said, unless what lies around the
    call tells it by messages. A prompt's text that repeats them is left out, which is told."""
    content = span.content
    inputs, outputs = content.inputs, content.outputs
    if inputs is None and content.text_in:
        if any(above.content.inputs is not None for above in _ancestors(span)):
            build.warn(
                "prompt_text", f"the text of a prompt of {span.record.name!r} repeats messages: left out"
            )
        else:
            inputs = _transcript(content.text_in)
    if outputs is None and content.text_out:
        recorded = (above.content for above in _ancestors(span))
        if not any(around.is_model and around.outputs is not None for around in recorded):
            outputs = [_said("assistant", content.text_out)]
    return msgspec.structs.replace(content, inputs=inputs, outputs=outputs)


def _transcript(text: str) -> list[Act]:
    """A prompt in one text. Roles are taken from it only where nobody's words could have made them: a
    system's text and one user's. Anything longer stays one message, since its lines may be forged."""
    lines = list(islice(_ROLE_LINE.finditer(text), 3))
    if len(lines) == 2 and _SYSTEM_FIRST.match(text) and lines[1].group() in ("user: ", "Human: "):
        system = text[lines[0].end() : lines[1].start()].rstrip("\n")
        return [_said("system", system), _said("user", text[lines[1].end() :])]
    return [_said("user", text)]


def _names_agents(spans: list[Span]) -> bool:
    """Whether entries say whose they are: where more than one agent had a part."""
    return len({span.content.agent for span in spans if span.content.agent}) > 1


def _model_call(span: Span, named: bool) -> ModelCall:
    record, content = span.record, span.content
    ended = record.end if record.end is not None else record.start
    return ModelCall(
        inputs=[_at(act, record.start) for act in content.inputs or ()],
        outputs=[_at(act, ended) for act in marked(content.outputs or [], content.finish)],
        start=record.start,
        end=record.end,
        agent=span.agent() if named else None,
        error=record.error,
    )


def _at(act: Act, time: float | None) -> Act:
    return act if time is None or act.time is not None else msgspec.structs.replace(act, time=time)


def _replay(leaves: list[Span], history: History, named: bool) -> dict[int, tuple[int, int]]:
    """Take the calls into `history` as they began and ended; gives, for every span around some, from where
    to where their acts stand. An output that was recorded in part waits: its place is given likewise."""
    calls = [
        msgspec.structs.replace(call, outputs=()) if span.content.partial else call
        for span in leaves
        for call in (_model_call(span, named),)
    ]
    moments: list[tuple[float, int]] = []
    latest = 0.0
    for index, call in enumerate(calls):
        latest = call.start if call.start is not None else latest
        moments.append((latest, 2 * index))
        moments.append((max(call.end if call.end is not None else latest, latest), 2 * index + 1))
    moments.sort()
    nodes: dict[int, Any] = {}
    ranges: dict[int, tuple[int, int]] = {}
    for _, moment in moments:
        index, ends = divmod(moment, 2)
        before = len(history)
        if ends:
            history.finish(nodes.pop(index), calls[index])
            if leaves[index].content.partial:
                ranges[id(leaves[index])] = (before, before)
        else:
            nodes[index] = history.begin(calls[index])
        for above in _ancestors(leaves[index]):
            if above.content.inputs is not None or above.content.outputs is not None:
                low, _ = ranges.get(id(above), (before, 0))
                ranges[id(above)] = (low, len(history))
    return ranges


def _texts(spans: list[Span], history: History) -> None:
    """The plain input and output of the outermost span, where no span holds a message."""
    for span in spans:
        content = span.content
        if span.parent is None and (content.text_in or content.text_out):
            call = ModelCall(
                inputs=[_said("user", content.text_in)] if content.text_in else [],
                outputs=[_said("assistant", content.text_out)] if content.text_out else [],
                start=span.record.start,
                end=span.record.end,
            )
            history.finish(history.begin(call), call)


def _said(role: str, text: str) -> Said:
    return Said(role=role, parts=(Text(text=text),))


def _runs(spans: list[Span], named: bool) -> list[ToolRun]:
    """The tools' records in time order. One that holds nothing beside one that does is none."""
    found: list[tuple[float, int, ToolRun]] = []
    latest = 0.0
    full: Mapping[str | None, int] = {
        span.record.parent: 1 for span in spans if span.content.run is not None and span.content.run.result
    }
    for index, span in enumerate(spans):
        run = span.content.run
        if run is None:
            continue
        if run.result is None and run.error is None and run.id is None and span.record.parent in full:
            continue
        latest = run.start if run.start is not None else latest
        found.append((latest, index, msgspec.structs.replace(run, agent=span.agent() if named else None)))
    return [run for _, _, run in sorted(found, key=lambda item: item[:2])]


def _outcome(spans: list[Span], calls: list[Span], build: ConversationBuilder) -> None:
    """A run that ended in an error failed; an error before was got over, which is told."""
    last_outermost = next((span for span in reversed(spans) if span.parent is None), None)
    last = calls[-1] if calls else None
    for span in spans:
        error = span.record.error
        if error is None or span.content.run is not None:
            continue
        if span is last_outermost or (span is last and not _spoke(span)):
            build.failed(error)
        elif span.content.is_model:
            build.warn("call_failed", f"a call of the model failed: {error[:500]}")


def _spoke(span: Span) -> bool:
    return any(
        isinstance(act, Called) or (isinstance(act, Said) and act.parts) for act in span.content.outputs or ()
    )

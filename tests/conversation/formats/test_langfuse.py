"""Langfuse traces: the recordings against their normalised twins, and what traces of our own must give."""

import json
import time

import pytest
from conversation.formats import made_spans as made
from conversation.formats.test_spans import WHOLE, told
from conversation.shown import shown

from sandbox_judge.conversation.model import Feedback, ToolCall
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view


def said_in(twin):
    """(texts, called names) of the twin's messages, where upstream could normalise them."""
    texts, names = [], []
    for sides in twin.values():
        for side in sides.values():
            for message in side["data"] if side["success"] else ():
                if message.get("role") not in ("system", "user", "assistant", "tool", "model"):
                    continue
                content = message.get("content")
                for part in [content] if isinstance(content, str) else content or []:
                    if isinstance(part, str) or "text" in part:
                        texts.append(part if isinstance(part, str) else part["text"])
                names += [call["name"] for call in message.get("tool_calls") or []]
    return texts, names


def test_recordings_hold_what_their_twins_do(shared):
    traces = sorted((shared / "data/conversations/langfuse_traces").glob("*.trace.json"))
    assert traces
    for path in traces:
        twin = json.loads(path.with_name(path.name.replace(".trace.", ".chatml.")).read_bytes())
        texts, names = said_in(twin)
        conversation = read_conversation(path.read_bytes())
        view = build_view(conversation).text
        for text in filter(str.strip, texts):
            assert shown(text.strip()) in view, path.name
        assert set(names) <= {e.name for e in conversation.entries if isinstance(e, ToolCall)}, path.name
        assert not [w for w in conversation.warnings if w.code in ("unknown_part", "orphan_result")], (
            path.name
        )


def chat(message):
    said = {"role": message["role"], "content": message["text"]}
    if "calls" in message:
        said["tool_calls"] = made.chat_calls(message)
    if "id" in message:
        said["tool_call_id"] = message["id"]
    return said


def observation(id, kind, start, end, *, parent="root", input=None, output=None, **others):
    return {
        "id": id,
        "traceId": "t-1",
        "type": kind,
        "name": id,
        "parentObservationId": parent,
        "startTime": f"2026-04-02T08:00:{start:02}.000Z",
        "endTime": f"2026-04-02T08:00:{end:02}.000Z",
        "level": "DEFAULT",
        "input": input,
        "output": output,
        **others,
    }


def trace(*, as_text=False, extra=()):
    rows = [observation("root", "AGENT", 0, 50, parent=None)]
    for n, (inputs, outputs) in enumerate(made.MODEL_CALLS):
        given, answer = {"messages": [chat(m) for m in inputs]}, chat(outputs[0])
        if as_text:
            given, answer = json.dumps(given), json.dumps(answer)
        start = 10 * n + 1
        rows.append(observation(f"g{n}", "GENERATION", start, start + 4, input=given, output=answer))
    scores = [
        {
            "id": "s1",
            "name": "thumbs",
            "value": 1,
            "source": "API",
            "comment": "quick",
            "observationId": "g1",
        },
        {"id": "s2", "name": "toxicity", "value": 0, "source": "EVAL", "comment": "a judge said so"},
        {"id": "s3", "name": "tone", "stringValue": "warm", "value": None, "source": "ANNOTATION"},
    ]
    return {"id": "t-1", "name": "mend", "sessionId": None, "scores": scores, "observations": [*rows, *extra]}


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda t: t,
        lambda t: {
            "trace": {k: v for k, v in t.items() if k != "observations"},
            "observations": t["observations"],
        },
        lambda t: [t],
        lambda t: {"data": [t]},
    ],
    ids=["api", "export", "list", "page"],
)
def test_a_trace_in_each_wrapper(wrap, as_text):
    conversation = read_conversation(wrap(trace(as_text=as_text)))
    assert told(conversation) == WHOLE
    assert (conversation.source_format, conversation.id) == ("langfuse", "t-1")


def test_people_give_feedback_and_evaluators_do_not():
    conversation = read_conversation(trace())
    found = [entry for entry in conversation.entries if isinstance(entry, Feedback)]
    assert [(f.name, f.value, f.comments) for f in found] == [("thumbs", 1, "quick"), ("tone", "warm", None)]
    assert [w.code for w in conversation.warnings] == ["left_out"]
    assert "toxicity" not in build_view(conversation).text


def test_observations_alone_are_a_trace():
    rows = trace()["observations"]
    assert told(read_conversation(rows)) == WHOLE
    assert told(read_conversation("\n".join(map(json.dumps, reversed(rows))).encode())) == WHOLE


def test_tools_observations_and_errors():
    tool = observation("wear_limit", "TOOL", 6, 7, input=json.dumps(made.WEAR), output='"kept"')
    failed = observation(
        "frame_record", "TOOL", 6, 7, input={"number": "PX-77"}, level="ERROR", statusMessage="no such table"
    )
    first = trace(extra=[tool, failed])
    first["observations"] = [o for o in first["observations"] if o["id"] not in ("g1", "g2")]
    conversation = read_conversation(first)
    assert told(conversation)[5:] == [("result", 4, "kept"), ("result", 5, "no such table")]
    assert [e.status for e in conversation.entries if hasattr(e, "call")] == ["ok", "error"]
    first["observations"][0].update(level="ERROR", statusMessage="the loop ended")
    conversation = read_conversation(first)
    assert (conversation.status, conversation.status_detail) == ("failed", "the loop ended")


def test_text_alone_is_what_was_said():
    rows = [observation("g", "GENERATION", 1, 2, parent=None, input="Name a knot.", output="A bowline.")]
    assert told(read_conversation(rows)) == [("user", "Name a knot."), ("assistant", "A bowline.")]
    top = {"id": "t", "input": '"Name a knot."', "output": '"A bowline."'}
    rows = [observation("s", "SPAN", 1, 2, parent=None)]
    assert told(read_conversation({**top, "observations": rows})) == [
        ("user", "Name a knot."),
        ("assistant", "A bowline."),
    ]


def test_traces_of_a_session_are_one_conversation():
    turns = []
    for n, part in enumerate((made.MODEL_CALLS[:2], made.MODEL_CALLS[2:])):
        rows = []
        for m, (inputs, outputs) in enumerate(part):
            start = 20 * n + 5 * m + 1
            row = observation(f"g{n}{m}", "GENERATION", start, start + 3, parent=None)
            row.update(traceId=f"t-{n}", input=[chat(i) for i in inputs], output=chat(outputs[0]))
            rows.append(row)
        turns.append({"id": f"t-{n}", "sessionId": "bench", "observations": rows})
    conversation = read_conversation(turns)
    assert told(conversation) == WHOLE and conversation.id == "bench"
    for turn, name in zip(turns, ("a", "b"), strict=True):
        turn["sessionId"] = name
    assert [c.id for c in read_conversations(turns)] == ["a", "b"]
    with pytest.raises(InputError, match="Element 2 is no Langfuse trace"):
        read_conversations([turns[0], {"id": "x"}])


def test_many_observations_are_read_in_linear_time():
    def cost(count):
        rows = [
            observation(f"g{n}", "GENERATION", 1, 1, parent=f"g{n - 1}", input=f"q{n}", output=f"a{n}")
            for n in range(count)
        ]
        begun = time.process_time()
        read_conversations(rows)
        return time.process_time() - begun

    assert cost(2000) < 10 * max(cost(500), 0.01)

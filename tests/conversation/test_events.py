import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.events import gate_events
from sandbox_judge.conversation.model import Media, Reasoning, Refusal, Text
from sandbox_judge.conversation.read import read_conversation


@pytest.fixture(scope="module")
def events():
    build = ConversationBuilder("made")
    build.message("developer", "Be brief.")
    build.message(
        "user", [Text(text="Hi"), Media(media="image", mime="image/png"), Text(text="there")], name="Ana"
    )
    build.message("assistant", [Reasoning(text="secret"), Refusal(text="No.")])
    build.tool_call(
        "pay", {"to": {"iban": "X"}, "lines": [{"n": 1}, {"n": 2}], "a.b": 5, "no": None}, id="c1"
    )
    build.tool_call("wait", "{broken", id="c2")
    build.tool_call("never", None)
    build.tool_result([Text(text="paid"), Text(text="twice")], id="c1")
    build.tool_result("", id="c2", error=True)
    build.tool_result("who asked?", id="zz")
    build.feedback(
        {"name": "csat", "value": 2, "properties": {"tags": ["slow", "rude"], "by": {"team": "x"}}}
    )
    return list(gate_events(build.build()))


def test_kinds_entries_and_order(events):
    assert [(e.kind, e.entry) for e in events] == [
        ("message", 1),
        ("message", 2),
        ("message", 3),
        ("tool", 4),
        ("tool", 5),
        ("tool", 6),
        ("tool", 9),
        ("feedback", 10),
    ]


@pytest.mark.parametrize(
    ("index", "path", "values"),
    [
        (0, "role", ["system"]),
        (1, "text", ["Hi\nthere"]),
        (1, "name", ["Ana"]),
        (0, "name", []),
        (2, "text", []),
        (1, "parts.type", ["text", "media", "text"]),
        (1, "parts.mime", ["image/png"]),
        (1, "parts.1.media", ["image"]),
        (2, "parts.text", ["secret", "No."]),
        (1, "args.x", []),
        (1, "status", []),
        (1, "text.x", []),
        (3, "name", ["pay"]),
        (3, "id", ["c1"]),
        (3, "text", ["paid\ntwice"]),
        (3, "status", ["ok"]),
        (3, "args.to.iban", ["X"]),
        (3, "args.lines.n", [1, 2]),
        (3, "args.lines.1.n", [2]),
        (3, "args.lines.7.n", []),
        (3, "args.a.b", [5]),
        (3, "args.no", [None]),
        (3, "args.missing", []),
        (3, "args.to.iban.deeper", []),
        (3, "role", []),
        (4, "args", ["{broken"]),
        (4, "args.x", []),
        (4, "status", ["error"]),
        (4, "text", [""]),
        (5, "status", ["missing"]),
        (5, "text", []),
        (5, "id", []),
        (5, "args", []),
        (6, "status", ["ok"]),
        (6, "text", ["who asked?"]),
        (6, "id", ["zz"]),
        (6, "name", []),
        (6, "args", []),
        (7, "name", ["csat"]),
        (7, "value", [2]),
        (7, "sentiment", []),
        (7, "text", []),
        (7, "properties.tags", ["slow", "rude"]),
        (7, "properties.by.team", ["x"]),
        (7, "properties.missing", []),
        (7, "", []),
    ],
)
def test_fields(events, index, path, values):
    assert events[index].values(path) == values


def test_keys_with_dots_are_found_at_any_depth():
    call = {"a.b": {"c": 1}, "a": {"b.c": 2, "b": {"c": 3}}}
    data = [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": call}}]}]
    (event,) = gate_events(read_conversation(json.dumps(data).encode()))
    assert sorted(event.values("args.a.b.c")) == [1, 2, 3]


def test_a_call_with_two_results_is_one_event():
    entries = [
        {"n": 1, "kind": "tool_call", "name": "f", "args": {}},
        {"n": 2, "kind": "tool_result", "call": 1, "status": "ok", "parts": [{"type": "text", "text": "a"}]},
        {
            "n": 3,
            "kind": "tool_result",
            "call": 1,
            "status": "error",
            "parts": [{"type": "text", "text": "b"}],
        },
    ]
    data = {
        "schema": "sandbox_judge.conversation/1",
        "status": "completed",
        "source_format": "x",
        "warnings": [],
    }
    (event,) = gate_events(read_conversation(json.dumps({**data, "entries": entries}).encode()))
    assert event.values("text") == ["a\nb"] and event.values("status") == ["error"]


@given(st.text(alphabet="args.01ab_é*[]", max_size=12))
def test_any_path_gives_a_list(path):
    build = ConversationBuilder("made")
    build.message("user", "x")
    build.tool_call("f", [[{"a": [1, {"b": 2}]}], "s"])
    build.feedback({"properties": {"a": 1}})
    for event in gate_events(build.build()):
        assert isinstance(event.values(path), list)

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

TEXT = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda i: st.lists(i) | st.dictionaries(TEXT, i),
    max_leaves=5,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("message"), st.sampled_from(["system", "user", "assistant", "odd"]), TEXT),
        st.tuples(st.just("tool_call"), TEXT, JSON),
        st.tuples(st.just("tool_result"), TEXT),
        st.tuples(st.just("feedback"), JSON),
    ),
    max_size=8,
)


@given(STEPS, st.sampled_from(["completed", "errored", "odd"]), st.none() | TEXT)
def test_reading_the_canonical_form_again_is_the_identity(steps, status, id):
    build = ConversationBuilder("made", id=id)
    build.status(status)
    for name, *arguments in steps:
        getattr(build, name)(*arguments)
    conversation = build.build()
    again = read_conversation(canonical_json(conversation))
    assert canonical_json(again) == canonical_json(conversation)
    assert build_view(again).sequence_hash == build_view(conversation).sequence_hash


def example(**changes):
    return {
        "schema": "sandbox_judge.conversation/1",
        "status": "completed",
        "source_format": "made",
        "entries": [
            {"n": 1, "kind": "message", "role": "user", "parts": [{"type": "text", "text": "hi"}]},
            {"n": 2, "kind": "tool_call", "name": "f", "args": None},
            {"n": 3, "kind": "tool_result", "call": 2, "status": "ok", "parts": []},
        ],
        "warnings": [],
        **changes,
    }


def test_stands_alone_in_rows_and_inside_what_view_prints():
    conversation = read_conversation(json.dumps(example()).encode())
    for data in (
        json.dumps([example()]),
        json.dumps({"conversation": example(), "view": "x"}),
        json.dumps({"kind": "judge_fixture", "id": "r1", "conversation": example(), "expected": "pass"}),
    ):
        assert read_conversations(data.encode()) == [conversation]
    assert read_conversations("\n".join([json.dumps(example())] * 2).encode()) == [conversation] * 2
    assert msgspec.json.decode(msgspec.json.encode(conversation)) == example()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schema": "sandbox_judge.conversation/2"}, "schema"),
        ({"status": "done"}, "status"),
        ({"colour": 1}, "colour"),
        ({"entries": [{"n": 2, "kind": "message", "role": "user", "parts": []}]}, "numbered 2"),
        (
            {"entries": [{"n": 1, "kind": "tool_result", "call": 1, "status": "ok", "parts": []}]},
            "no earlier",
        ),
        ({"entries": [{"n": 1, "kind": "message", "role": "critic", "parts": []}]}, "role"),
    ],
)
def test_what_is_wrong_with_it_is_told(changes, told):
    with pytest.raises(InputError) as caught:
        read_conversation(json.dumps(example(**changes)).encode())
    assert told in caught.value.paragraph()

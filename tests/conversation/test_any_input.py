"""Any JSON either reads or gives the clear error: shapes near the formats', with wrong values everywhere."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.events import gate_events
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

WORDS = re.findall(
    r"\S+",
    """
    user assistant system tool function text thinking image tool_use tool_result document server_tool_use
    web_search_tool_result web_fetch_result image_url input_audio file refusal message message_start custom
    content_block_delta progress agent_progress attachment queued_command summary compact_boundary api_error
    1 2 length max_tokens base64 url {} [1] data:image/png;base64,QUJD
    """,
)
KEYS = re.findall(
    r"\S+",
    """
    role content type text tool_calls function name arguments id tool_call_id tool_use_id input
    messages request response choices message delta finish_reason stop_reason traj system
    interactions status error feedback uuid parentUuid logicalParentUuid sessionId isSidechain
    isMeta timestamp data attachment prompt source subtype image_url input_audio file refusal audio
    function_call reasoning_content thinking is_error schema entries conversation task_id trial
    index partial_json content_block properties value time custom title
    """,
)
LEAF = (
    st.sampled_from(WORDS)
    | st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.just(1.5)
    | st.text(max_size=3)
)
NEAR = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "x"]), "content": NEAR},
    optional=dict.fromkeys(("tool_calls", "function_call", "audio", "name", "tool_call_id", "refusal"), NEAR),
)
ROW = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["user", "assistant", "system", "progress", "attachment", "tool_use", "tool_result"]
        ),
        "uuid": st.sampled_from(["1", "2", "3"]) | NEAR,
        "parentUuid": st.sampled_from(["1", "2", "3", None]) | NEAR,
        "message": st.fixed_dictionaries({"content": NEAR}, optional={"id": NEAR, "role": NEAR}) | NEAR,
    },
    optional=dict.fromkeys(
        ("data", "attachment", "isSidechain", "isMeta", "subtype", "content", "error"), NEAR
    ),
)
PAIR = st.fixed_dictionaries(
    {"request": st.fixed_dictionaries({"messages": st.lists(MESSAGE)}), "response": NEAR}
)


@pytest.mark.parametrize(
    "shape",
    [
        NEAR,
        st.lists(MESSAGE),
        st.lists(MESSAGE | NEAR),
        PAIR,
        st.fixed_dictionaries(
            {"messages": st.lists(MESSAGE)},
            optional={"system": NEAR, "error": NEAR, "status": NEAR, "feedback": NEAR},
        ),
    ],
    ids=["anything", "messages", "mixture", "pair", "request"],
)
def test_a_document(shape):
    @given(shape)
    @settings(max_examples=40)
    def holds(value):
        reads_or_tells(json.dumps(value).encode())

    holds()


@given(st.lists(ROW | MESSAGE | NEAR, max_size=8))
@settings(max_examples=40)
def test_json_lines(rows):
    reads_or_tells("\n".join(map(json.dumps, rows)).encode())


def reads_or_tells(data):
    try:
        found = read_conversations(data)
    except InputError as error:
        assert error.message and "\n" not in error.paragraph()
        return
    for conversation in found:
        view = build_view(conversation)
        assert [e.n for e in conversation.entries] == list(range(1, len(conversation.entries) + 1))
        assert sum(line.startswith("[") for line in view.text.split("\n")) == len(conversation.entries)
        for event in gate_events(conversation):
            for path in ("text", "args.name", "parts.text", "status", "properties.text"):
                event.values(path)
        again = read_conversation(canonical_json(conversation))
        assert canonical_json(again) == canonical_json(conversation)
        assert build_view(again) == view


@pytest.mark.parametrize(
    "make",
    [
        lambda deep: [{"role": "user", "content": deep}],
        lambda deep: [{"role": "tool", "content": [deep]}],
        lambda deep: [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": deep}}]}],
        lambda deep: [{"role": "user", "content": [{"type": "tool_result", "content": [deep]}]}],
        lambda deep: {"messages": [], "feedback": [{"value": deep, "properties": {"a": deep}}]},
        lambda deep: [{"type": "user", "uuid": "1", "message": {"content": [deep]}}],
        lambda deep: {"messages": [], "error": deep},
    ],
)
@pytest.mark.parametrize("depth", [90, 300, 900])
def test_what_is_nested_deeply_reads_or_is_told(make, depth):
    deep: object = "core"
    for level in range(depth):
        deep = [deep] if level % 2 else {"a": deep}
    reads_or_tells(json.dumps(make(deep)).encode())

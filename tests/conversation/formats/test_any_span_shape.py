"""Any JSON near the shapes of spans, traces, runs and UI messages either reads or gives the clear error."""

import contextlib
import json
import re
import time

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.document import document_of
from sandbox_judge.conversation.formats import (
    ai_sdk_spans,
    langchain,
    langfuse,
    langsmith,
    openinference,
    otel_genai,
    ui_messages,
)
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

ADAPTERS = [ai_sdk_spans, langchain, langfuse, langsmith, openinference, otel_genai, ui_messages]
WORDS = re.findall(
    r"\S+",
    """
    user assistant system tool model human ai chat text reasoning tool_call tool_call_response tool-call
    tool-result image file blob uri refusal tool_use tool_result thinking non_standard GENERATION SPAN
    TOOL AGENT ERROR EVAL llm chain execute_tool invoke_agent LLM length stop gen_ai.choice
    gen_ai.user.message gen_ai.tool.message tool-x dynamic-tool tool-invocation output-available
    output-error step-start data-x source-url error-text json HumanMessage AIMessage ToolMessage
    constructor 1 2 0x1 {} [1 [] ["a"] {"a":1} 2026-01-01T00:00:00Z 1790000000000000000
    """,
)
KEYS = re.findall(
    r"\S+",
    """
    resourceSpans scopeSpans spans resourceLogs scopeLogs logRecords attributes key value stringValue
    arrayValue kvlistValue values events name body eventName spanContext traceId spanId parentSpanId
    parentSpanContext context trace_id span_id parent_id context.span_id startTimeUnixNano endTimeUnixNano
    startTime endTime start_time end_time status code message role content parts type text tool_calls
    function arguments id tool_call_id args input output inputs outputs toolCallId toolName
    toolInvocations result response state errorText approval metadata observations trace traceId
    parentObservationId level statusMessage scores source observationId run_type child_runs parent_run_id
    error extra feedback feedback_stats generations prompts messages choices lc kwargs data
    additional_kwargs url mediaType blob modality finish_reason sessionId prompt system contents
    """,
)
NAMES = re.findall(
    r"\S+",
    """
    gen_ai.operation.name gen_ai.input.messages gen_ai.output.messages gen_ai.system_instructions
    gen_ai.prompt gen_ai.completion gen_ai.prompt.0.role gen_ai.prompt.0.content gen_ai.prompt.x.content
    gen_ai.completion.1.content gen_ai.prompt.0.tool_calls.0.name gen_ai.tool.name gen_ai.tool.call.id
    gen_ai.tool.call.arguments gen_ai.tool.call.result gen_ai.agent.name gen_ai.conversation.id
    llm.input_messages llm.input_messages.0.message.role llm.input_messages.0.message.content
    llm.output_messages.3.message.content
    llm.output_messages.0.message.tool_calls.0.tool_call.function.name llm.prompts input.value
    output.value openinference.span.kind tool.name tool.parameters ai.operationId ai.prompt
    ai.prompt.messages ai.response.text ai.response.toolCalls ai.response.object ai.response.finishReason
    ai.toolCall.name ai.toolCall.args ai.toolCall.result events pydantic_ai.all_messages
    gcp.vertex.agent.llm_request traceloop.entity.input llm gen_ai gen_ai.response.finish_reasons
    session.id
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
    max_leaves=8,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "x"]) | NEAR},
    optional=dict.fromkeys(
        ("content", "parts", "tool_calls", "tool_call_id", "finish_reason", "message"), NEAR
    ),
)
TALK = st.lists(MESSAGE | NEAR, max_size=3)
VALUE = NEAR | TALK | TALK.map(json.dumps)
ATTRIBUTES = st.dictionaries(st.sampled_from(NAMES), VALUE, max_size=6)
PAIRS = ATTRIBUTES.map(
    lambda held: [{"key": key, "value": {"stringValue": json.dumps(v)}} for key, v in held.items()]
)
ID = st.sampled_from(["a", "b", "c", None]) | NEAR
SPAN = st.fixed_dictionaries(
    {"name": NEAR, "attributes": ATTRIBUTES | PAIRS | NEAR},
    optional={
        "spanContext": st.fixed_dictionaries({"traceId": ID, "spanId": ID}) | NEAR,
        "spanId": ID,
        "parentSpanId": ID,
        "startTime": NEAR,
        "endTimeUnixNano": NEAR,
        "events": st.lists(st.fixed_dictionaries({"name": LEAF, "attributes": ATTRIBUTES | NEAR})) | NEAR,
        "status": NEAR,
        "body": NEAR,
    },
)
OBSERVATION = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["GENERATION", "SPAN", "TOOL", "AGENT"]),
        "id": ID,
        "startTime": NEAR,
        "input": VALUE,
    },
    optional={
        "output": VALUE,
        "parentObservationId": ID,
        "traceId": ID,
        "level": NEAR,
        "metadata": st.fixed_dictionaries({"attributes": ATTRIBUTES | NEAR}) | NEAR,
    },
)
RUN_FIELDS = {
    "run_type": st.sampled_from(["llm", "chain", "tool"]),
    "inputs": VALUE,
    "outputs": VALUE,
    "id": ID,
}
BESIDE = dict.fromkeys(("parent_run_id", "error", "extra", "feedback", "feedback_stats", "start_time"), NEAR)
LEAF_RUN = st.fixed_dictionaries(RUN_FIELDS, optional=BESIDE)
RUN = LEAF_RUN | st.fixed_dictionaries(
    {**RUN_FIELDS, "child_runs": st.lists(LEAF_RUN, max_size=3)}, optional=BESIDE
)
UI = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "x"]), "parts": st.lists(NEAR, max_size=4) | NEAR},
    optional=dict.fromkeys(
        ("content", "toolInvocations", "experimental_attachments", "createdAt", "id"), NEAR
    ),
)
SHAPES = {
    "spans": st.lists(SPAN | NEAR, max_size=4),
    "otlp": st.fixed_dictionaries(
        {
            "resourceSpans": st.lists(
                st.fixed_dictionaries(
                    {
                        "scopeSpans": st.lists(
                            st.fixed_dictionaries({"spans": st.lists(SPAN, max_size=3)}), max_size=2
                        )
                    }
                ),
                max_size=2,
            )
        }
    ),
    "bare": ATTRIBUTES,
    "observations": st.fixed_dictionaries(
        {"observations": st.lists(OBSERVATION, max_size=4)},
        optional={"scores": NEAR, "trace": NEAR, "input": NEAR},
    ),
    "runs": RUN | st.lists(RUN, max_size=3),
    "ui": st.lists(UI | NEAR, max_size=4),
    "langchain": st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["human", "ai", "tool"]), "content": NEAR},
            optional=dict.fromkeys(("tool_calls", "additional_kwargs", "data", "id"), NEAR),
        )
        | NEAR,
        max_size=4,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_reads_or_tells(shape):
    @given(SHAPES[shape])
    @settings(max_examples=60, phases=[Phase.generate, Phase.shrink])
    def holds(value):
        document = document_of(value)
        for adapter in ADAPTERS:
            assert adapter.recognise(document) in (True, False)
            try:
                found = list(adapter.read(document))
            except InputError as error:
                assert error.message and "\n" not in error.paragraph()
                continue
            for conversation in found:
                check(conversation)
        with contextlib.suppress(InputError):
            read_conversations(value)

    holds()


def check(conversation):
    view = build_view(conversation)
    assert [e.n for e in conversation.entries] == list(range(1, len(conversation.entries) + 1))
    again = read_conversation(canonical_json(conversation))
    assert canonical_json(again) == canonical_json(conversation)
    assert build_view(again) == view


@pytest.mark.parametrize("depth", [90, 300, 900])
@pytest.mark.parametrize(
    "make",
    [
        lambda deep: {"gen_ai.input.messages": [{"role": "user", "parts": [deep]}]},
        lambda deep: {"gen_ai.input.messages": [{"role": "user", "parts": deep}]},
        lambda deep: {"llm.input_messages": deep, "openinference.span.kind": "LLM"},
        lambda deep: {"llm.input_messages.0.message.content": deep},
        lambda deep: {
            "ai.prompt.messages": [{"role": "tool", "content": [{"type": "tool-result", "output": deep}]}]
        },
        lambda deep: [
            {"type": "GENERATION", "traceId": "t", "input": deep, "output": {"role": "x", "content": deep}}
        ],
        lambda deep: {"run_type": "llm", "inputs": {"messages": deep}, "outputs": deep},
        lambda deep: [
            {"role": "assistant", "parts": [{"type": "tool-x", "state": "output-available", "output": deep}]}
        ],
        lambda deep: [
            {"type": "human", "content": [deep]},
            {"type": "ai", "content": "", "tool_calls": [{"args": deep}]},
        ],
        lambda deep: {"resourceSpans": deep},
        lambda deep: [{"name": "s", "attributes": [{"key": "gen_ai.prompt", "value": deep}], "spanId": "1"}],
    ],
)
def test_what_is_nested_deeply_reads_or_is_told(make, depth):
    deep: object = "core"
    for level in range(depth):
        deep = [deep] if level % 2 else {"type": "text", "content": deep}
    try:
        found = read_conversations(json.dumps(make(deep)).encode())
    except InputError as error:
        assert error.message
        return
    for conversation in found:
        check(conversation)


def test_runs_within_runs_without_end():
    deep = {"run_type": "llm", "inputs": {"prompt": "a"}, "outputs": None, "id": "r", "parent_run_id": "r"}
    for n in range(400):
        deep = {"run_type": "chain", "id": f"c{n}", "inputs": {}, "outputs": {}, "child_runs": [deep]}
    begun = time.process_time()
    conversation = read_conversation(deep)
    assert len(conversation.entries) == 1 and time.process_time() - begun < 5


def test_spans_that_are_their_own_ancestors():
    rows = [
        {
            "name": "s",
            "spanContext": {"traceId": "t1", "spanId": id},
            "parentSpanId": parent,
            "attributes": {
                "gen_ai.prompt": f"q{id}",
                "gen_ai.completion": f"a{id}",
                "gen_ai.operation.name": "chat",
            },
        }
        for id, parent in [("a1", "b1"), ("b1", "a1"), ("c1", "c1")]
    ]
    assert {e.parts[0].text for e in read_conversation(rows).entries} >= {"qc1", "ac1"}

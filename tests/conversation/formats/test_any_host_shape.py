"""Any JSON near the shapes of hosts' transcripts, logs and exports either reads or gives the clear error."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.document import Document, document_of
from sandbox_judge.conversation.formats import (
    atif,
    cline,
    codex,
    copilot,
    cursor,
    google_adk,
    inspect_ai,
    opencode,
    openhands,
    pi,
    platform_items,
    trajectory_v1,
)
from sandbox_judge.conversation.inspect_archive import unpack
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view


def words(text):
    return st.sampled_from(re.findall(r"\S+", text))


VALUES = words(
    """
    user assistant system tool agent meta reasoning environment session message session_meta
    response_item event_msg compacted function_call function_call_output custom_tool_call
    web_search_call web_search_end turn_aborted error thread_rolled_back session.start
    assistant.message tool.execution_start tool.execution_complete subagent.started user.message
    abort toolCall toolResult bashExecution compaction branch_summary text thinking image tool_use
    file tool_result tool-result step-start completed running say ask task command MessageEvent
    ActionEvent running ObservationEvent AgentErrorEvent SystemPromptEvent Condensation
    ConversationErrorEvent run recall system finish ATIF-v1.6 ATIF-v1.7 tool_call tool_call_response
    compaction binary uri execute_tool invoke_agent Error Ok MAX_TOKENS max_tokens <task>\\nx
    <environment_details> <user_query>q</user_query> {"tool":"readFile"} {"_raw":"x"} {} [1
    attachment://0123456789abcdef0123456789abcdef a b -cont-1
    """
)
KEYS = words(
    """
    type role payload content text id parentId message data timestamp toolRequests toolCallId
    toolName name arguments input output call_id summary action results num_turns
    replacement_history base_instructions parentToolCallId agentName success result error kind
    source llm_message tool_call tool_name tool_call_id observation action_id args thought cause
    extras agent_state key value events items steps step_id agent session_id schema_version
    tool_calls function_name observation source_call_id subagent_trajectory_ref
    continued_trajectory_ref is_copied_context extra subagent_trajectories info parts state status
    callID revert messageID parentID synthetic messages samples epoch eval uuid target scores
    choices stop_reason attachments transcript limit run_id author invocation_id actions partial
    eval_cases conversation user_content final_response intermediate_data tool_uses tool_responses
    query intermediate_responses expected_tool_use reference function_call function_response
    response attributes gen_ai trace_id start_time messages system_instructions finish_reason
    operation say ask ts images stopReason usage
    """
)
LEAF = VALUES | st.none() | st.booleans() | st.integers(-2, 2) | st.just(1.5) | st.text(max_size=3)
NEAR = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=6,
)


def near(**fixed):
    return st.builds(
        lambda own, other: {**other, **own},
        st.fixed_dictionaries(fixed),
        st.dictionaries(KEYS, NEAR, max_size=3),
    )


def any_of(text):
    return words(text) | NEAR


TURN = near(role=any_of("user assistant toolResult meta reasoning tool"), content=NEAR)
PART = near(type=any_of("text tool reasoning file tool_call tool_call_response function_call"))
SHAPES = {
    codex: near(
        type=words("session_meta response_item event_msg compacted"),
        payload=near(
            type=any_of("message reasoning function_call function_call_output thread_rolled_back error")
        ),
    ),
    copilot: near(
        type=words(
            "session.start assistant.message user.message tool.execution_start tool.execution_complete"
        ),
        data=near(
            toolCallId=any_of("a b"), toolRequests=st.lists(near(toolCallId=any_of("a b")) | NEAR, max_size=3)
        ),
        timestamp=NEAR,
    ),
    pi: near(
        type=words("message message session compaction"),
        id=any_of("a b"),
        parentId=any_of("a b"),
        message=near(
            role=any_of("user assistant toolResult bashExecution"), content=st.lists(PART, max_size=3) | NEAR
        ),
    ),
    openhands: near(
        kind=words("MessageEvent ActionEvent ObservationEvent AgentErrorEvent Condensation OtherEvent"),
        source=words("user agent environment"),
    )
    | near(source=words("user agent environment"), action=words("message run think system condensation"))
    | near(source=words("user agent environment"), observation=words("run error agent_state_changed recall")),
    cursor: near(role=words("user assistant"), message=near(content=st.lists(PART, max_size=3) | NEAR)),
    cline: near(
        type=words("say ask"),
        say=any_of("task text tool command error"),
        ask=any_of("tool followup"),
        ts=NEAR,
    )
    | near(
        role=words("user"),
        content=st.just(
            [{"type": "text", "text": "<task>x"}, {"type": "text", "text": "<environment_details>"}]
        ),
    ),
    opencode: near(
        info=near(role=words("user assistant"), id=any_of("a b")), parts=st.lists(PART | NEAR, max_size=4)
    )
    | near(
        info=near(revert=NEAR),
        messages=st.lists(
            near(info=near(role=words("user assistant")), parts=st.lists(PART, max_size=3)), max_size=3
        ),
    ),
    trajectory_v1: near(
        role=words("meta user assistant tool reasoning"), tool_calls=st.lists(NEAR, max_size=2) | NEAR
    ),
    platform_items: near(
        trace_id=NEAR,
        attributes=near(
            gen_ai=near(
                input=near(
                    messages=st.lists(
                        near(role=NEAR, parts=st.lists(PART | NEAR, max_size=3)) | NEAR, max_size=2
                    )
                ),
                output=near(messages=st.lists(TURN, max_size=2) | NEAR),
                tool=near(call=NEAR) | NEAR,
            )
        ),
    ),
    atif: near(
        schema_version=words("ATIF-v1.6"),
        session_id=any_of("a b a-cont-1"),
        steps=st.lists(
            near(
                source=any_of("user agent system"),
                observation=near(
                    results=st.lists(near(subagent_trajectory_ref=any_of("a b")) | NEAR, max_size=2)
                )
                | NEAR,
            )
            | NEAR,
            max_size=3,
        ),
    ),
    google_adk: near(
        events=st.lists(
            near(author=any_of("user a b"), content=near(parts=st.lists(PART, max_size=3)) | NEAR), max_size=3
        )
    )
    | near(
        eval_cases=st.lists(
            near(conversation=st.lists(near(user_content=NEAR, intermediate_data=NEAR))) | NEAR
        )
    )
    | near(query=words("q"), expected_tool_use=NEAR),
    inspect_ai: near(
        id=NEAR,
        epoch=NEAR,
        input=NEAR,
        messages=st.lists(TURN | NEAR, max_size=3),
        output=near(choices=st.lists(near(message=TURN) | NEAR, max_size=2)) | NEAR,
    )
    | near(
        eval=near(task=NEAR), status=NEAR, samples=st.lists(near(id=NEAR, messages=NEAR) | NEAR, max_size=2)
    ),
}


def hold(found):
    for conversation in found:
        view = build_view(conversation)
        again = read_conversation(canonical_json(conversation))
        assert canonical_json(again) == canonical_json(conversation)
        assert build_view(again) == view
        assert "None" not in view.text


@pytest.mark.parametrize("adapter", list(SHAPES), ids=lambda adapter: adapter.NAME)
@pytest.mark.parametrize("many", [False, True])
def test_what_is_recognised_reads_or_is_refused(adapter, many):
    read = 0

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(SHAPES[adapter], min_size=1, max_size=3), st.lists(NEAR, max_size=1), st.booleans())
    def run(rows, strange, alone):
        nonlocal read
        values = rows[:1] if alone else [*rows, *strange]
        plain = document_of(values[0] if alone else values)
        document = Document(values=tuple(values), many=True) if many else plain
        if not adapter.recognise(document):
            return
        try:
            hold(adapter.read(document))
        except InputError as told:
            assert told.message
        else:
            read += 1

    run()
    assert read


@settings(max_examples=60)
@given(NEAR)
def test_nothing_else_is_raised_through_detection(value):
    try:
        hold(read_conversations(value))
    except InputError as told:
        assert told.message


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_bytes_that_begin_like_an_archive(tail):
    with pytest.raises(InputError):
        unpack(b"PK\x03\x04" + tail)

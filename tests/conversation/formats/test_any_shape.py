"""Any JSON near the shapes of the providers' formats either reads or gives the clear error."""

import json
import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.document import document_of
from sandbox_judge.conversation.formats import (
    bedrock_converse,
    gemini,
    gemini_cli,
    openai_assistants,
    openai_responses,
)
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

ADAPTERS = [bedrock_converse, gemini, gemini_cli, openai_assistants, openai_responses]
WORDS = re.findall(
    r"\S+",
    """
    user assistant system model gemini info message reasoning function_call function_call_output refusal
    input_text output_text input_image input_file web_search_call file_search_call code_interpreter_call
    mcp_call
    shell_call shell_call_output image_generation_call computer_call_output custom_tool_call item_reference
    compaction mcp_list_tools mcp_approval_response response list conversation response.created logs image
    response.output_text.delta response.output_item.done response.completed error completed incomplete failed
    cancelled success STOP MAX_TOKENS max_tokens end_turn thread thread.message thread.run thread.run.step
    thread.message.delta tool_calls function code_interpreter file_search text image_file requires_action
    1 2 {} [1
    """,
)
KEYS = re.findall(
    r"\S+",
    """
    type role content id call_id name arguments output input instructions previous_response_id response
    request
    object data items status error incomplete_details summary encrypted_content action sources results outputs
    queries code result tools approve has_more delta item output_index content_index event interactions model
    contents parts text thought functionCall functionResponse function_call inlineData fileData executableCode
    codeExecutionResult toolCall args systemInstruction candidates finishReason promptFeedback blockReason
    groundingMetadata webSearchQueries groundingChunks mimeType sessionId projectHash messages toolCalls
    thoughts
    $set $rewindTo history kind timestamp resultDisplay toolUse toolResult toolUseId reasoningContent document
    image source bytes format stopReason messageStart contentBlockStart contentBlockDelta messageStop json
    contentBlockIndex inferenceConfig guardContent created_at thread_id run_id step_details message_creation
    message_id tool_calls function required_action submit_tool_outputs last_error runs steps attachments value
    tool_outputs tool_call_id conversation prompt
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
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=5,
)


def some(**required):
    """Objects with these keys, mostly as the format has them, and any others."""
    fixed = st.fixed_dictionaries({key: value | NEAR for key, value in required.items()})
    return st.builds(
        lambda one, more: {**more, **one}, fixed, st.dictionaries(st.sampled_from(KEYS), NEAR, max_size=2)
    )


WORD = st.sampled_from(WORDS)
ITEM = some(type=WORD, role=st.just("user"), content=st.lists(some(type=WORD)), call_id=WORD, output=NEAR)
EVENT = some(
    type=st.sampled_from([w for w in WORDS if w.startswith("response")]), item=ITEM, response=NEAR, delta=WORD
)
CONTENT = some(role=WORD, parts=st.lists(NEAR, max_size=3))
RECORD = some(id=WORD, type=WORD, content=NEAR, toolCalls=st.lists(some(id=WORD, result=NEAR)), thoughts=NEAR)
BLOCK = some(role=WORD, content=st.lists(some(toolUse=NEAR) | some(toolResult=NEAR) | some(document=NEAR)))
THREAD = some(
    object=st.sampled_from([w for w in WORDS if w.startswith("thread")]),
    id=WORD,
    content=st.lists(NEAR, max_size=3),
    step_details=some(tool_calls=st.lists(some(type=WORD, function=NEAR)), message_creation=NEAR),
    created_at=st.integers(0, 3),
)


@pytest.mark.parametrize(
    "shape",
    [
        NEAR,
        st.lists(ITEM, max_size=3),
        some(
            input=st.lists(ITEM, max_size=3),
            response=some(object=st.just("response"), output=st.lists(ITEM, max_size=3)),
        ),
        st.fixed_dictionaries(
            {"request": some(input=st.lists(ITEM, max_size=3)), "response": st.lists(EVENT, max_size=3)}
        ),
        st.lists(EVENT, max_size=3),
        st.lists(some(input=st.lists(ITEM, max_size=3), previous_response_id=WORD)),
        some(object=st.just("list"), data=st.lists(ITEM | THREAD)),
        some(
            contents=st.lists(CONTENT, max_size=3), response=some(candidates=st.lists(some(content=CONTENT)))
        ),
        st.lists(some(candidates=st.lists(some(content=CONTENT)))),
        st.lists(CONTENT, max_size=3),
        st.lists(
            RECORD
            | some(**{"$rewindTo": WORD})
            | some(**{"$set": some(messages=st.lists(RECORD, max_size=3))})
        ),
        some(messages=st.lists(RECORD, max_size=3), sessionId=WORD, projectHash=WORD)
        | some(history=st.lists(CONTENT, max_size=3)),
        some(messages=st.lists(BLOCK, max_size=3), inferenceConfig=NEAR),
        st.lists(some(messageStart=NEAR) | some(contentBlockDelta=NEAR) | some(contentBlockStart=NEAR)),
        st.lists(THREAD, max_size=3),
        some(messages=st.lists(THREAD, max_size=3), runs=st.lists(THREAD, max_size=3), tool_outputs=NEAR),
    ],
)
def test_reads_or_tells(shape):
    # Shrinking such shapes takes minutes: what fails is shown as it was found.
    @settings(max_examples=15, phases=[Phase.explicit, Phase.reuse, Phase.generate])
    @given(shape)
    def holds(value):
        reads_or_tells(value)

    holds()


def reads_or_tells(value):
    lines = [value] + (
        [b"\n".join(json.dumps(row).encode() for row in value)] if isinstance(value, list) else []
    )
    for given_form in lines:
        if given_form == b"":
            continue
        held = given_form if isinstance(given_form, bytes) else json.dumps(given_form).encode()
        for conversation in read_or_refuse(read_conversations, held):
            text = build_view(conversation).text
            again = read_conversation(canonical_json(conversation))
            assert build_view(again).text == text
        for adapter in ADAPTERS:
            document = document_of(held)
            if adapter.recognise(document):
                read_or_refuse(adapter.read, document)


def read_or_refuse(read, value):
    try:
        return list(read(value))
    except InputError as fault:
        assert fault.message
        return []

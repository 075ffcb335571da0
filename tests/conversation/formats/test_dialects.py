"""Messages of many libraries as acts: the same exchange, however the traced library writes it."""

import pytest

from sandbox_judge.conversation.acts import Answered, Called, Said
from sandbox_judge.conversation.dialects import acts_of
from sandbox_judge.conversation.model import Reasoning, Text, Unknown

OPENAI = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "rain"},
    ],
}
ANTHROPIC = {
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {"x": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "rain"}]},
    ],
}
GEMINI = {
    "config": {"system_instruction": {"parts": [{"text": "Be brief."}]}},
    "contents": [
        {"parts": [{"text": "Weather?"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "look", "args": {"x": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "look", "response": "rain"}}]},
    ],
}
BEDROCK = {
    "system": [{"text": "Be brief."}],
    "messages": [
        {"role": "user", "content": [{"text": "Weather?"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "c", "name": "look", "input": {"x": 1}}}],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "rain"}]}}]},
    ],
}
RESPONSES = {
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "c", "id": "fc_1", "name": "look", "arguments": '{"x": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "rain"},
    ],
}
LLAMA_INDEX = {
    "messages": [
        {"role": "system", "blocks": [{"block_type": "text", "text": "Be brief."}], "additional_kwargs": {}},
        {"role": "user", "blocks": [{"block_type": "text", "text": "Weather?"}], "additional_kwargs": {}},
        {
            "role": "assistant",
            "blocks": [],
            "additional_kwargs": {
                "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": '{"x": 1}'}}]
            },
        },
        {"role": "tool", "blocks": [{"block_type": "text", "text": "rain"}], "tool_call_id": "c"},
    ]
}
AI_SDK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
    {
        "role": "assistant",
        "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "look", "args": {"x": 1}}],
    },
    {
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "look", "result": "rain"}],
    },
]
STRINGS = {"model": "m", "contents": ["Weather?"], "config": {"system_instruction": "Be brief."}}


def plain(acts):
    found = []
    for act in acts:
        if isinstance(act, Called):
            arguments = act.arguments if isinstance(act.arguments, dict) else {"x": 1}
            found.append(("call", act.name, arguments, act.id))
        elif isinstance(act, Answered):
            found.append(("result", "".join(part.text for part in act.parts), act.id))
        else:
            found.append((act.role.replace("developer", "system"), "".join(part.text for part in act.parts)))
    return found


@pytest.mark.parametrize(
    "request_", [OPENAI, ANTHROPIC, GEMINI, BEDROCK, RESPONSES, LLAMA_INDEX, AI_SDK], ids=str
)
def test_a_request_of_each_library(request_):
    assert plain(acts_of(request_, "user")) == [
        ("system", "Be brief."),
        ("user", "Weather?"),
        ("call", "look", {"x": 1}, "c"),
        ("result", "rain", "c"),
    ]


def test_words_as_mere_strings():
    assert plain(acts_of(STRINGS, "user")) == [("system", "Be brief."), ("user", "Weather?")]


@pytest.mark.parametrize(
    "response",
    [
        {
            "choices": [
                {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "Rain"}}
            ]
        },
        {"candidates": [{"content": {"parts": [{"text": "Rain"}]}, "finishReason": "MAX_TOKENS"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "Rain"}],
            "stop_reason": "max_tokens",
        },
        {"content": {"role": "model", "parts": [{"text": "Rain"}]}, "finish_reason": "MAX_TOKENS"},
        {
            "generations": [
                [
                    {
                        "text": "Rain",
                        "message": {
                            "type": "ai",
                            "content": "Rain",
                            "response_metadata": {"finish_reason": "length"},
                        },
                    }
                ]
            ]
        },
        {"message": {"role": "assistant", "content": "Rain"}, "finish_reason": "length"},
        {
            "message": {"role": "assistant", "blocks": [{"block_type": "text", "text": "Rain"}]},
            "finish_reason": "length",
        },
    ],
)
def test_a_response_of_each_library_that_was_cut_off(response):
    (act,) = acts_of(response, "assistant")
    assert isinstance(act, Said) and act.role in ("assistant", "model")
    assert act.parts == (Text(text="Rain"),) and act.marks == ("truncated",)


def test_what_stands_among_messages_and_is_none_is_kept():
    acts = acts_of(
        [
            {"role": "user", "content": "Search."},
            {"type": "web_search_call", "id": "w", "action": {"query": "rain"}},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"role": "tool", "content": {"type": "function", "function": {"name": "f", "parameters": {}}}},
            {"tools": [{"name": "f"}]},
            "and more",
        ],
        "user",
    )
    assert [act.parts for act in acts] == [
        (Text(text="Search."),),
        (
            Unknown(
                label="web_search_call", text='{"type":"web_search_call","id":"w","action":{"query":"rain"}}'
            ),
        ),
        (Reasoning(text="hm"),),
        (Text(text="and more"),),
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"query": "rain"},
        {"input": "rain"},
        {"messages": ["a", 5]},
        [1, 2],
        ["a"],
        {"a": {"role": "user"}},
        {"output": "x"},
    ],
)
def test_what_is_no_message_is_told_apart(value):
    assert acts_of(value, "user") is None

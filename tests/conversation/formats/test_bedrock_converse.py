"""Bedrock Converse: blocks by their key, streams, how answers ended."""

import json

import pytest

from sandbox_judge.conversation.model import Media, Reasoning, Text, Unknown
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view


def read(value):
    conversation = read_conversation(json.dumps(value).encode())
    assert conversation.source_format == "bedrock_converse"
    return conversation


def lines(value):
    return build_view(read(value)).text.split("\n")[1:]


def turn(role, *content):
    return {"role": role, "content": list(content)}


def answer(*content, reason="end_turn"):
    return {"output": {"message": turn("assistant", *content)}, "stopReason": reason}


CALL = {"toolUse": {"toolUseId": "t", "name": "tide", "input": {"port": "Ems"}}}


def result(*content, status="success"):
    return {"toolResult": {"toolUseId": "t", "content": list(content), "status": status}}


def test_a_request_with_its_response():
    messages = [
        turn("user", {"text": "Tide?"}),
        turn("assistant", {"text": "Hm."}, CALL),
        turn("user", result({"json": {"h": 9}})),
    ]
    value = {
        "request": {
            "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
            "messages": messages,
        }
    }
    assert lines({**value, "response": answer({"text": "Nine."})}) == [
        "[1] message system: Be brief.",
        "[2] message user: Tide?",
        "[3] message assistant: Hm.",
        '[4] tool_call tide: {"port":"Ems"}',
        '[5] tool_result of 4 (ok): {"h":9}',
        "[6] message assistant: Nine.",
    ]
    assert len(read(messages).entries) == 4 and len(read(answer({"text": "a"})).entries) == 1


def test_a_failed_result():
    value = [
        turn("user", {"text": "a"}),
        turn("assistant", CALL),
        turn("user", result({"text": "no"}, status="error")),
    ]
    assert lines(value)[-1] == "[3] tool_result of 2 (error): no"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"reasoningContent": {"reasoningText": {"text": "hm"}}}, (Reasoning(text="hm"),)),
        ({"reasoningContent": {"redactedContent": "AA"}}, (Reasoning(text="(redacted by the provider)"),)),
        (
            {"image": {"format": "png", "source": {"bytes": "QUJD"}}},
            (Media(media="image", mime="image/png", bytes=3),),
        ),
        (
            {"document": {"format": "pdf", "name": "d", "source": {"s3Location": {"uri": "s3://b/d"}}}},
            (Media(media="file", mime="application/pdf", name="d"),),
        ),
        ({"document": {"name": "d", "source": {"text": "words"}}}, (Text(text="d\nwords"),)),
        ({"guardContent": {"text": {"text": "guarded"}}}, (Text(text="guarded"),)),
        ({"citationsContent": {"content": [{"text": "cited"}]}}, (Text(text="cited"),)),
        ({"hologram": 3}, (Unknown(label="hologram", text='{"hologram":3}'),)),
    ],
)
def test_blocks(block, expected):
    assert read([turn("assistant", CALL), turn("assistant", block)]).entries[1].parts == expected


@pytest.mark.parametrize(
    ("reason", "mark"),
    [("max_tokens", "truncated"), ("guardrail_intervened", "content_filter"), ("odd", "odd")],
)
def test_how_an_answer_ended(reason, mark):
    assert lines(answer({"text": "Ni"}, reason=reason)) == ["[1] message assistant: Ni", f"| [{mark}]"]


@pytest.mark.parametrize("whole", [True, False])
def test_streams(whole):
    start = {"toolUse": {"toolUseId": "t", "name": "tide"}}
    events = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Ni"}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "ne."}}},
        {"contentBlockStart": {"contentBlockIndex": 1, "start": start}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"port":'}}}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '"Ems"}'}}}},
        *([{"messageStop": {"stopReason": "tool_use"}}] if whole else []),
    ]
    assert lines(events) == [
        "[1] message assistant: Nine.",
        '[2] tool_call tide (no result): {"port":"Ems"}',
        *([] if whole else ["[3] message assistant: [interrupted]"]),
    ]


def test_a_mixture_names_the_element_that_does_not_fit():
    with pytest.raises(InputError, match="Element 2"):
        read_conversations(json.dumps([turn("assistant", CALL), {"x": 1}]).encode())


@pytest.mark.parametrize("messages", [5, True, "Hi.", {"role": "user"}])
def test_a_request_whose_messages_are_no_list_is_told(messages):
    with pytest.raises(InputError):
        read_conversations([{"request": {"messages": messages}, "response": answer({"text": "Hi."})}])


def test_an_error_and_a_host_that_tells_more():
    row = {
        "request": {"messages": [turn("assistant", CALL)]},
        "response": {"message": "throttled"},
        "status": 429,
    }
    assert "throttled" in read({"interactions": [row]}).status_detail
    told = read({"messages": [turn("assistant", CALL)], "status": "aborted", "feedback": [{"value": 1}]})
    assert told.status == "cancelled" and told.entries[-1].value == 1

"""Gemini's generateContent: parts in both spellings, streams, how answers ended."""

import json

import pytest

from sandbox_judge.conversation.model import Media, Reasoning, Text, Unknown
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view


def read(value):
    conversation = read_conversation(json.dumps(value).encode())
    assert conversation.source_format == "gemini"
    return conversation


def lines(value):
    return build_view(read(value)).text.split("\n")[1:]


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def candidate(*parts, **more):
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", **more}]
    }


CALL = {"functionCall": {"name": "tide", "args": {"port": "Ems"}}, "thoughtSignature": "c2ln"}
RESULT = {"functionResponse": {"name": "tide", "response": {"output": "high at\nnine"}}}


def test_a_request_with_its_response():
    value = {
        "request": {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                user({"text": "Tide?"}),
                {"role": "model", "parts": [{"text": "Hm."}, CALL]},
                user(RESULT),
            ],
        },
        "response": candidate({"text": "secret", "thought": True}, {"text": "Nine."}),
    }
    assert lines(value) == [
        "[1] message system: Be brief.",
        "[2] message user: Tide?",
        "[3] message assistant: Hm.",
        '[4] tool_call tide: {"port":"Ems"}',
        "[5] tool_result of 4 (ok): high at",
        "| nine",
        "[6] message assistant: [reasoning left out]",
        "| Nine.",
    ]


def test_calls_without_ids_are_answered_in_order_and_with_ids_by_them():
    def step(kind, name, id, **more):
        return {kind: {"name": name, **({"id": id} if id else {}), **more}}

    for ids in (("", ""), ("a", "b")):
        calls = [step("functionCall", "f", id) for id in ids]
        results = [step("functionResponse", "f", id, response={"n": n}) for n, id in enumerate(ids)]
        conversation = read([user({"text": "go"}), {"role": "model", "parts": calls}, user(*results)])
        assert [r.call for r in conversation.entries[3:]] == [2, 3]


def test_the_names_of_the_python_sdk():
    snake = [
        user({"text": "go"}),
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": None}}]},
        user({"function_response": {"name": "f", "response": {"error": "no"}}}),
        user({"inline_data": {"mime_type": "image/png", "data": "QUJD"}}),
    ]
    conversation = read({"contents": snake, "config": {"system_instruction": "Be brief."}})
    assert conversation.entries[0].role == "system" and conversation.entries[3].status == "error"
    assert conversation.entries[4].parts == (Media(media="image", mime="image/png", bytes=3),)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"text": "think", "thought": True}, Reasoning(text="think")),
        (
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}},
            Media(media="video", mime="video/mp4", name="gs://b/v"),
        ),
        ({"fileData": {"fileUri": "gs://b/v"}}, Media(media="file", name="gs://b/v")),
        ({"hologram": {"depth": 3}}, Unknown(label="hologram", text='{"hologram":{"depth":3}}')),
    ],
)
def test_parts(part, expected):
    assert read([user({"text": "a"}, part)]).entries[0].parts == (Text(text="a"), expected)


def test_code_that_the_service_ran():
    code = {"executableCode": {"language": "PYTHON", "code": "1/0"}}
    failed = {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}}
    assert lines(candidate(code, failed, {"text": "Oh."})) == [
        '[1] tool_call code_execution: {"code":"1/0","language":"PYTHON"}',
        "[2] tool_result of 1 (error): ZeroDivisionError",
        "[3] message assistant: Oh.",
    ]


def test_a_search_that_grounds_an_answer_is_a_call():
    grounding = {
        "webSearchQueries": ["tide"],
        "groundingChunks": [{"web": {"uri": "https://t", "title": "T"}}],
    }
    assert lines(candidate({"text": "Nine."}, groundingMetadata=grounding)) == [
        '[1] tool_call google_search: {"queries":["tide"]}',
        "[2] tool_result of 1 (ok): T https://t",
        "[3] message assistant: Nine.",
    ]


@pytest.mark.parametrize(
    ("reason", "mark"),
    [
        ("MAX_TOKENS", "truncated"),
        ("SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "malformed_function_call"),
    ],
)
def test_how_an_answer_ended(reason, mark):
    assert lines(candidate({"text": "Ni"}, finishReason=reason))[-1] == f"| [{mark}]"


def test_a_blocked_prompt_and_cached_content():
    blocked = read(
        {"contents": [user({"text": "a"})], "response": {"promptFeedback": {"blockReason": "SAFETY"}}}
    )
    assert blocked.entries[1].parts == (Unknown(label="content_filter", text="SAFETY"),)
    assert read({"contents": [user({"text": "a"})], "cachedContent": "cachedContents/1"}).missing_context()


def test_streams_are_joined():
    chunks = [candidate({"text": "Ni"}), candidate({"text": "ne."}), candidate(CALL), candidate({"text": ""})]
    text = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)
    expected = ["[1] message assistant: Nine.", '[2] tool_call tide (no result): {"port":"Ems"}']
    assert lines(chunks) == expected
    assert build_view(read_conversation(text.encode())).text.split("\n")[1:] == expected
    pair = lines({"request": {"contents": [user({"text": "Tide?"})]}, "response": text})
    assert pair[0] == "[1] message user: Tide?" and len(pair) == 3


def test_responses_of_several_ids_are_several_conversations():
    rows = [{**candidate({"text": text}), "responseId": text} for text in "ab"]
    found = read_conversations(b"\n".join(json.dumps(row).encode() for row in rows))
    assert [c.id for c in found] == ["a", "b"]


def test_alternatives_are_named():
    two = {"candidates": [*candidate({"text": "a"})["candidates"], *candidate({"text": "b"})["candidates"]]}
    conversation = read(two)
    assert conversation.entries[1].name == "candidate 2"
    assert [w.code for w in conversation.warnings] == ["alternative"]


def test_a_mixture_names_the_element_that_does_not_fit():
    with pytest.raises(InputError, match="Element 2"):
        read_conversations(json.dumps([user({"text": "a"}), {"role": "user", "content": "b"}]).encode())
    rows = [{"contents": [user({"text": "a"})]}, {"x": 1}]
    with pytest.raises(InputError, match="Line 2"):
        read_conversations(b"\n".join(json.dumps(row).encode() for row in rows))

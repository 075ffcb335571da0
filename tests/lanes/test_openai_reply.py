"""Reading a chat completion: what it holds, and nothing that it does not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.lanes.base import ModelFailure, Reply, ToolUse, Usage, Wire
from sandbox_judge.lanes.openai_reply import read_reply
from sandbox_judge.testing.answers import chat_body

WIRE = Wire(lane="openai_wire")


def read(value: object) -> Reply:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_reply(body, WIRE, secrets=("sk-canary-123456",), now=0.0)


def test_an_ordinary_reply() -> None:
    reply = read(chat_body("hello", model="m-2", usage=(3, 4)))
    assert reply == Reply(
        wire=WIRE,
        text="hello",
        finish="stop",
        response_model="m-2",
        usage=Usage(input_tokens=3, output_tokens=4),
    )


@pytest.mark.parametrize(
    ("content", "text", "refusal", "reasoning"),
    [
        (None, None, None, False),
        ("", "", None, False),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", None, False),
        ([{"type": "output_text", "text": "a"}, "b"], "ab", None, False),
        ([{"text": "a"}], "a", None, False),
        ([{"type": "thinking", "thinking": "hidden"}, {"type": "text", "text": "a"}], "a", None, True),
        ([{"type": "refusal", "refusal": "I cannot"}], None, "I cannot", False),
        ([{"type": "image_url"}, 5, None, {"type": "text", "text": 5}], None, None, False),
        ([], None, None, False),
    ],
)
def test_content(content: object, text: str | None, refusal: str | None, reasoning: bool) -> None:
    reply = read(chat_body(content))
    assert (reply.text, reply.refusal, reply.reasoning) == (text, refusal, reasoning)


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        (None, None),
        (5, None),
        ("", None),
        ("abort", None),
        (["stop"], None),
    ],
)
def test_a_finish_is_a_known_word_or_none(word: object, finish: str | None) -> None:
    assert read(chat_body("x", finish=word)).finish == finish


def test_hidden_reasoning_is_noted_and_not_kept() -> None:
    for key in ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"):
        reply = read(chat_body("", message={key: "secret thoughts"}))
        assert reply.reasoning is True
        assert "secret" not in repr(reply)
    assert read(chat_body("x", message={"reasoning_content": ""})).reasoning is False


def test_tool_calls_keep_their_arguments_as_written() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1'}},
        {"function": {"name": "g", "arguments": {"y": 2}}},
        {"function": {"name": 5}},
        "nonsense",
    ]
    reply = read(chat_body(None, finish="tool_calls", message={"tool_calls": calls}))
    assert reply.tool_calls == (
        ToolUse(id="a", name="f", arguments='{"x": 1'),
        ToolUse(id="call_1", name="g", arguments='{"y": 2}'),
    )


@pytest.mark.parametrize(
    "usage", [None, [], "x", {}, {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": "9"}]
)
def test_usage_that_is_none(usage: object) -> None:
    assert read({**chat_body("x"), "usage": usage}).usage is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"<!doctype html><html></html>",
        b"plain text",
        b'{"choices": [',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        {},
        [],
        "text",
        7,
        None,
        {"choices": []},
        {"choices": {}},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"message": "x"}]},
        {"choices": [{"message": {"content": {"verdict": "pass"}}}]},
        {"choices": [{"message": {"content": 5}}]},
        {"error": {"message": "overloaded"}},
        {"error": "overloaded", "choices": [{"message": {"content": "x"}}]},
        {"choices": [{"error": {"code": 502, "message": "upstream"}, "message": {"content": "half"}}]},
    ],
)
def test_a_200_without_a_completion_is_the_providers_error(body: object) -> None:
    with pytest.raises(ModelFailure) as caught:
        read(body)
    assert caught.value.type == "provider_error"
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": 429, "message": "slow"}, "rate_limited"),
        ({"code": "401", "message": "sk-canary-123456"}, "auth"),
        ({"code": "context_length_exceeded"}, "context_overflow"),
        ({"code": 4000000000, "message": "x"}, "provider_error"),
    ],
)
def test_an_error_under_200_means_what_its_code_means(error: dict[str, object], expected: str) -> None:
    with pytest.raises(ModelFailure) as caught:
        read({"error": error})
    assert caught.value.type == expected
    assert "canary" not in caught.value.message


_KEYS = st.sampled_from(
    ["choices", "message", "content", "finish_reason", "refusal", "tool_calls", "function", "name", "usage"]
) | st.sampled_from(["type", "text", "error", "code", "model", "prompt_tokens", "arguments"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(
    _VALUES | st.builds(lambda m: {"choices": [{"message": m}]}, st.dictionaries(_KEYS, _VALUES, max_size=5))
)
def test_whatever_the_json_it_is_a_reply_or_a_failure(value: object) -> None:
    try:
        reply = read(value)
    except ModelFailure:
        return
    assert reply.text is None or isinstance(reply.text, str)


@given(st.binary(max_size=200))
def test_whatever_the_bytes_it_is_a_reply_or_a_failure(body: bytes) -> None:
    with pytest.raises(ModelFailure):
        read(body)

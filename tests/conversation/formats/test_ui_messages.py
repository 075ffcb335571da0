"""UI messages of the AI SDK: tool parts with their states, sources, files, data; versions 4 and 5."""

import json

import pytest
from conversation.formats.test_spans import told

from sandbox_judge.conversation.model import Media, Reasoning, Text, ToolResult, Unknown
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

USER = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Dial the lighthouse."}]}


def answer(*parts):
    return {"id": "a", "role": "assistant", "parts": [{"type": "step-start"}, *parts]}


def tool(state, **others):
    return {"type": "tool-dial", "toolCallId": "c1", "state": state, "input": {"number": 7}, **others}


@pytest.mark.parametrize(
    "wrap",
    [
        list,
        lambda ms: {"id": "chat-1", "messages": ms},
        lambda ms: [{"id": "chat-1", "messages": ms}],
        lambda ms: "\n".join(map(json.dumps, ms)).encode(),
    ],
    ids=["list", "chat", "chats", "lines"],
)
def test_a_chat_in_each_wrapper(wrap):
    parts = [tool("output-available", output={"line": "open"}), {"type": "text", "text": "It answers."}]
    conversation = read_conversation(wrap([USER, answer(*parts)]))
    assert conversation.source_format == "ui_messages"
    assert told(conversation) == [
        ("user", "Dial the lighthouse."),
        ("call", "dial", {"number": 7}),
        ("result", 2, '{"line":"open"}'),
        ("assistant", "It answers."),
    ]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (tool("output-available", output="open"), ("ok", "open")),
        (tool("output-error", errorText="no tone"), ("error", "no tone")),
        (tool("output-denied", approval={"approved": False, "reason": "not now"}), ("error", "not now")),
        (tool("output-denied"), ("error", "(the execution was denied)")),
        (tool("input-available"), None),
        (tool("input-streaming"), None),
        (tool("approval-requested", approval={"id": "p"}), None),
        (
            {**tool("output-available", output="open"), "type": "dynamic-tool", "toolName": "dial"},
            ("ok", "open"),
        ),
        (
            {
                "type": "tool-invocation",
                "toolInvocation": {
                    "state": "result",
                    "toolCallId": "c1",
                    "toolName": "dial",
                    "args": {"number": 7},
                    "result": "open",
                },
            },
            ("ok", "open"),
        ),
    ],
)
def test_states_of_a_tool_part(part, expected):
    conversation = read_conversation([USER, answer(part)])
    assert told(conversation)[1] == ("call", "dial", {"number": 7})
    results = [(e.status, e.parts[0].text) for e in conversation.entries if isinstance(e, ToolResult)]
    assert results == ([expected] if expected else [])
    assert ("(no result)" in build_view(conversation).text) is (expected is None)


def test_the_other_parts():
    conversation = read_conversation(
        [
            {
                **USER,
                "parts": [
                    *USER["parts"],
                    {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,QUJD"},
                ],
            },
            answer(
                {"type": "reasoning", "text": "hm", "state": "done"},
                {"type": "text", "text": "See there."},
                {"type": "source-url", "sourceId": "s", "url": "https://example.org/l", "title": "Lights"},
                {
                    "type": "source-document",
                    "sourceId": "d",
                    "mediaType": "application/pdf",
                    "title": "Almanac",
                },
                {"type": "data-dial", "id": "x", "data": {"turns": 3}},
                {"type": "hologram", "depth": 1},
            ),
        ]
    )
    assert conversation.entries[0].parts[1] == Media(media="image", mime="image/png", bytes=3)
    assert conversation.entries[1].parts == (
        Reasoning(text="hm"),
        Text(text="See there."),
        Unknown(label="source", text="Lights https://example.org/l"),
        Unknown(label="source", text="Almanac application/pdf"),
        Unknown(label="data-dial", text='{"turns":3}'),
        Unknown(label="hologram", text='{"depth":1}'),
    )
    assert [(w.code, w.entry) for w in conversation.warnings] == [("unknown_part", 2)]


def test_version_4_repeats_its_content():
    invocation = {"state": "result", "toolCallId": "c1", "toolName": "dial", "args": {}, "result": "open"}
    old = {
        "id": "a",
        "role": "assistant",
        "content": "It answers.",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "toolInvocations": [invocation],
        "parts": [
            {"type": "tool-invocation", "toolInvocation": invocation},
            {"type": "text", "text": "It answers."},
        ],
    }
    expected = [("call", "dial", {}), ("result", 1, "open"), ("assistant", "It answers.")]
    conversation = read_conversation([old])
    assert told(conversation) == expected and conversation.entries[0].time == "2026-01-01T00:00:00.000Z"
    # The oldest have no parts: what was said stands before the calls.
    del old["parts"]
    assert told(read_conversation([old])) == [
        ("assistant", "It answers."),
        ("call", "dial", {}),
        ("result", 2, "open"),
    ]


def test_a_mixture_names_the_element():
    with pytest.raises(InputError, match="Element 2"):
        read_conversations([USER, {"uuid": 4}])

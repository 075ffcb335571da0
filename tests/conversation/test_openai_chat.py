import json

import pytest

from sandbox_judge.conversation.model import (
    Media,
    Message,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Unknown,
)
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

USER = {"role": "user", "content": "Where is my parcel?"}


def read(value):
    conversation = read_conversation(json.dumps(value).encode())
    assert conversation.source_format == "openai_chat"
    return conversation


def parts(*blocks):
    # After a call as only chat messages write it: some blocks alone would make it another format's message.
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
    return read([call, {"role": "tool", "tool_call_id": "c", "content": list(blocks)}]).entries[1].parts


@pytest.mark.parametrize(
    "value",
    [
        [USER],
        {"messages": [USER]},
        {"model": "m", "messages": [USER], "temperature": 1},
        {"request": {"messages": [USER]}},
        {"request": json.dumps({"messages": [USER]}), "response": None},
        {"traj": [USER]},
        {"object": "list", "data": [USER]},
    ],
)
def test_wrappings_of_one_message(value):
    assert [e.parts for e in read(value).entries] == [(Text(text="Where is my parcel?"),)]


def test_json_lines_of_messages_are_one_conversation():
    data = b'{"role":"user","content":"a"}\n{"role":"assistant","content":"b"}\n'
    assert len(read_conversation(data).entries) == 2


def test_several_conversations_are_listed_and_chosen():
    rows = [
        {"task_id": n % 2, "trial": n // 2, "traj": [{"role": "user", "content": str(n)}]} for n in range(3)
    ]
    found = read_conversations(json.dumps(rows).encode())
    assert [c.id for c in found] == ["0/0", "1/0", "0/1"]
    lines = "\n".join(map(json.dumps, rows)).encode()
    assert read_conversations(lines) == found
    with pytest.raises(InputError) as caught:
        read_conversation(lines)
    assert "0/0, 1/0, 0/1" in caught.value.message and "--id" in caught.value.remedy
    assert read_conversation(lines, id="0/1") == found[2]
    assert read_conversation(lines, id="#2") == found[1]
    for missing in ("#0", "#4", "#x", "9", "#²", "#" + "9" * 5000):
        with pytest.raises(InputError):
            read_conversation(lines, id=missing)
    lists = read_conversations(
        b'[[{"role":"user","content":"a"}],[{"role":"user","content":"b"}]]'[1:-1].replace(b"],[", b"]\n[")
    )
    assert len(lists) == 2


def test_ids_that_repeat_are_chosen_by_position():
    data = json.dumps([{"id": "x", "messages": [USER]}, {"id": "x", "messages": [USER]}]).encode()
    with pytest.raises(InputError, match="2 conversations have the id"):
        read_conversation(data, id="x")


@pytest.mark.parametrize("value", [[], {"messages": []}])
def test_a_conversation_of_nothing_has_no_context(value):
    conversation = read(value)
    assert conversation.entries == () and conversation.missing_context() is not None


def test_the_response_of_a_request_belongs_to_it():
    response = {"choices": [{"message": {"role": "assistant", "content": "Soon."}, "finish_reason": "stop"}]}
    for value in (
        {"request": {"messages": [USER]}, "response": response},
        {"messages": [USER], "response": response},
        {
            "interactions": [
                {"request": {"messages": []}},
                {"request": {"messages": [USER]}, "response": response},
            ]
        },
        {"messages": [USER], **response},
    ):
        assert [e.role for e in read(value).entries] == ["user", "assistant"]
    assert [e.role for e in read(response).entries] == ["assistant"]


def test_further_choices_are_shown_as_alternatives():
    choices = [{"message": {"content": text}} for text in ("one", "two")]
    conversation = read({"request": {"messages": [USER]}, "response": {"choices": choices}})
    assert [(e.name, e.parts[0].text) for e in conversation.entries[1:]] == [
        (None, "one"),
        ("choice 2", "two"),
    ]
    assert [w.code for w in conversation.warnings] == ["alternative"]


@pytest.mark.parametrize(("reason", "label"), [("length", "truncated"), ("content_filter", "content_filter")])
def test_turns_that_were_cut_are_marked(reason, label):
    choice = {"message": {"content": "It is"}, "finish_reason": reason}
    entry = read({"request": {"messages": [USER]}, "response": {"choices": [choice]}}).entries[-1]
    assert entry.parts == (Text(text="It is"), Unknown(label=label))


def test_a_failed_response_fails_the_conversation():
    error = {"error": {"message": "Rate limit", "type": "rate_limit"}}
    conversation = read({"request": {"messages": [USER]}, "status": 429, "response": error})
    assert (conversation.status, conversation.status_detail) == ("failed", "Rate limit")
    conversation = read({"messages": [USER], "status": "errored", "error": "401 from provider"})
    assert (conversation.status, conversation.status_detail) == ("failed", "401 from provider")
    assert read({"messages": [USER], "status": "aborted", "error": "x"}).status == "cancelled"


def test_a_streamed_response_is_put_together():
    def chunk(delta, reason=None):
        return (
            "data: "
            + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
            + "\n\n"
        )

    stream = (
        chunk({"role": "assistant", "content": "Let me "})
        + chunk({"content": "look\u2028."})
        + chunk(
            {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "track", "arguments": '{"n"'}}]}
        )
        + chunk({"tool_calls": [{"index": 0, "function": {"arguments": ": 7}"}}]})
        + chunk({}, "tool_calls")
        + "data: [DONE]\n\n"
    )
    entries = read({"request": {"messages": [USER]}, "response": stream}).entries
    assert entries[1].parts == (Text(text="Let me look\u2028."),)
    assert isinstance(entries[2], ToolCall) and (entries[2].id, entries[2].args) == ("c1", {"n": 7})


def test_calls_and_results():
    conversation = read(
        [
            USER,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
                    {"id": "b", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}},
                    "not a call",
                ],
            },
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "total 0"}]},
            {"role": "tool", "tool_call_id": "a", "content": None, "status": "error"},
            {"role": "assistant", "content": None, "function_call": {"name": "g", "arguments": "{}"}},
            {"role": "function", "name": "g", "content": "9"},
        ]
    )
    calls = [e for e in conversation.entries if isinstance(e, ToolCall)]
    results = [e for e in conversation.entries if isinstance(e, ToolResult)]
    assert [(c.n, c.name, c.args, c.args_text) for c in calls] == [
        (2, "f", {"x": 1}, None),
        (3, "shell", None, "ls -l"),
        (6, "g", {}, None),
    ]
    assert [(r.call, r.status) for r in results] == [(3, "ok"), (2, "error"), (6, "ok")]
    assert {w.code for w in conversation.warnings} == {"arguments_not_json", "call_unreadable"}
    assert "None" not in build_view(conversation).text


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("bare", Text(text="bare")),
        ({"text": "no type"}, Text(text="no type")),
        ({"type": "text", "text": 5}, Text(text="5")),
        ({"type": "refusal", "refusal": "No."}, Refusal(text="No.")),
        ({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, Reasoning(text="hm")),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
            Media(media="image", mime="image/png", bytes=3),
        ),
        ({"type": "image_url", "image_url": "https://h/i"}, Media(media="image", name="https://h/i")),
        (
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
            Media(media="audio", mime="audio/wav", bytes=3),
        ),
        ({"type": "file", "file": {"file_id": "file-7"}}, Media(media="file", name="file-7")),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
            Media(media="file", mime="application/pdf", bytes=3, name="a.pdf"),
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "QUI="}},
            Media(media="image", mime="image/jpeg", bytes=2),
        ),
        ({"type": "hologram", "depth": 3}, Unknown(label="hologram", text='{"type":"hologram","depth":3}')),
        (["nested"], Unknown(label="part", text='["nested"]')),
        (5, Unknown(label="part", text="5")),
    ],
)
def test_parts(block, expected):
    assert parts(block) == (expected,)


@pytest.mark.parametrize("block", [None, {"type": "text", "text": None}, {"type": "text"}])
def test_parts_of_nothing_are_nothing(block):
    assert parts(block, "x") == (Text(text="x"),)


def test_what_else_a_message_may_hold():
    message = {
        "role": "assistant",
        "name": "clerk",
        "content": "Hello",
        "refusal": "I cannot say.",
        "reasoning_content": "secret",
        "audio": {"id": "au_1", "data": "QUJD", "transcript": "Hello indeed"},
    }
    entry = read([USER, message]).entries[1]
    assert isinstance(entry, Message) and entry.name == "clerk"
    assert entry.parts == (
        Reasoning(text="secret"),
        Text(text="Hello"),
        Refusal(text="I cannot say."),
        Media(media="audio", bytes=3, name="au_1"),
        Text(text="Hello indeed"),
    )


def test_a_mixture_names_the_first_element_that_does_not_fit():
    with pytest.raises(InputError) as caught:
        read([USER, {"role": "assistant", "content": "a"}, {"type": "function_call", "call_id": "c"}, USER])
    assert "Element 3" in caught.value.message and "call_id" in caught.value.message
    with pytest.raises(InputError, match="Line 2"):
        read_conversations(b'{"messages": []}\n{"prompt": "x"}')
    with pytest.raises(InputError, match="Element 2"):
        read_conversations(b'[{"messages": []}, 7]')

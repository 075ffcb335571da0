import json

import pytest

from sandbox_judge.conversation.model import Media, Reasoning, Text, ToolCall, ToolResult, Unknown
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

USER = {"role": "user", "content": "Where is my parcel?"}
USE = {"type": "tool_use", "id": "t1", "name": "track", "input": {"n": 7}}
RESPONSE = {
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Soon."}],
}


def read(value):
    conversation = read_conversation(json.dumps(value).encode())
    assert conversation.source_format == "anthropic_messages"
    return conversation


def kinds(conversation):
    return [getattr(e, "role", type(e).__name__) for e in conversation.entries]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"system": "Be kind.", "messages": [USER]}, ["system", "user"]),
        ({"system": [{"type": "text", "text": "Be kind."}], "messages": [USER]}, ["system", "user"]),
        ({"request": {"messages": [USER]}, "response": RESPONSE}, ["user", "assistant"]),
        ({"request": [USER], "response": RESPONSE}, ["user", "assistant"]),
        ({"messages": [USER], "response": RESPONSE}, ["user", "assistant"]),
        ({"interactions": [{"request": {}}, {"request": {"messages": [USER]}, "response": RESPONSE}]}, None),
        (RESPONSE, ["assistant"]),
        ([USER, {"role": "assistant", "content": [USE]}], ["user", "ToolCall"]),
        ({"messages": [USER, {"role": "assistant", "content": [USE]}]}, ["user", "ToolCall"]),
    ],
)
def test_recognised_by_what_only_it_has(value, expected):
    assert kinds(read(value)) == (expected or ["user", "assistant"])


def test_text_alone_reads_as_chat_messages_and_chat_tools_are_not_taken():
    for value in (
        [USER],
        {"system": "x", "messages": [{"role": "tool", "tool_call_id": "c", "content": "r"}]},
        [{"role": "tool", "content": [{"type": "image", "source": {"data": "QQ=="}}]}],
    ):
        assert read_conversation(json.dumps(value).encode()).source_format == "openai_chat"


def test_blocks_keep_their_order_around_calls():
    conversation = read(
        [
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "abc"},
                    {"type": "redacted_thinking", "data": "QUJD"},
                    {"type": "text", "text": "Let me look."},
                    USE,
                    {"type": "text", "text": "And again."},
                    {**USE, "id": "t2"},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": "broken"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [
                            {"type": "text", "text": "at the depot"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
                            },
                        ],
                    },
                    {"type": "text", "text": "Hurry."},
                ],
            },
        ]
    )
    assert kinds(conversation) == [
        "user",
        "assistant",
        "ToolCall",
        "assistant",
        "ToolCall",
        "ToolResult",
        "ToolResult",
        "user",
    ]
    assert [type(p) for p in conversation.entries[1].parts] == [Reasoning, Reasoning, Text]
    results = [e for e in conversation.entries if isinstance(e, ToolResult)]
    assert [(r.call, r.status) for r in results] == [(5, "error"), (3, "ok")]
    assert results[1].parts[1] == Media(media="image", mime="image/png", bytes=3)
    text = build_view(conversation).text
    assert "hm" not in text.replace("[reasoning left out]", "") and "QUJD" not in text


def test_tools_of_the_server():
    def result(kind, content):
        return {"type": f"{kind}_tool_result", "tool_use_id": "s1", "content": content}

    def parts(kind, content):
        blocks = [{"type": "server_tool_use", "id": "s1", "name": kind, "input": {}}, result(kind, content)]
        conversation = read([USER, {"role": "assistant", "content": blocks}])
        call, answer = conversation.entries[1:]
        assert isinstance(call, ToolCall) and isinstance(answer, ToolResult) and answer.call == call.n
        return answer.status, answer.parts

    found = {
        "type": "web_search_result",
        "title": "Tides",
        "url": "https://t",
        "encrypted_content": "QUJD" * 500,
    }
    assert parts("web_search", [found]) == ("ok", (Text(text="Tides https://t"),))
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert parts("web_search", error) == (
        "error",
        (Unknown(label="web_search_tool_result_error", text="max_uses_exceeded"),),
    )
    ran = {
        "type": "bash_code_execution_result",
        "stdout": "4",
        "stderr": "warn",
        "return_code": 1,
        "content": [],
    }
    assert parts("bash_code_execution", ran) == (
        "ok",
        (Text(text="4"), Text(text="warn"), Unknown(label="return_code", text="1")),
    )
    fetched = {
        "type": "web_fetch_result",
        "url": "https://t",
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "high at 9"},
        },
    }
    assert parts("web_fetch", fetched)[1][::2] == (Text(text="https://t"), Text(text="high at 9"))


def test_documents_and_unknown_blocks():
    blocks = [
        {
            "type": "document",
            "title": "Terms",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
        },
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "inner"}]}},
        {
            "type": "search_result",
            "title": "T",
            "source": "S",
            "content": [{"type": "text", "text": "found"}],
        },
        {"type": "container_upload", "file_id": "f1"},
        {"type": "hologram", "depth": 3},
        {"type": "text", "text": None},
        None,
        7,
    ]
    conversation = read([{"role": "user", "content": blocks}])
    assert conversation.entries[0].parts == (
        Media(media="file", mime="application/pdf", bytes=3, name="Terms"),
        Media(media="file"),
        Text(text="inner"),
        Text(text="T S"),
        Text(text="found"),
        Media(media="file", name="f1"),
        Unknown(label="hologram", text='{"type":"hologram","depth":3}'),
        Unknown(label="block", text="7"),
    )
    assert [w.code for w in conversation.warnings] == ["unknown_part"] * 2


@pytest.mark.parametrize(
    ("reason", "label"), [("max_tokens", "truncated"), ("refusal", "refused"), ("end_turn", None)]
)
def test_turns_that_were_cut_or_refused_are_marked(reason, label):
    entry = read({"request": {"messages": [USER]}, "response": {**RESPONSE, "stop_reason": reason}}).entries[
        -1
    ]
    assert entry.parts == (Text(text="Soon."), *([Unknown(label=label)] if label else []))


def test_a_streamed_response_is_put_together():
    events = [
        {"type": "message_start", "message": {**RESPONSE, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}},
        {"type": "content_block_start", "index": 1, "content_block": {**USE, "input": {}}},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"n":'},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": " 7}"},
        },
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    ]
    stream = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    for response in (stream, events):
        conversation = read({"request": {"messages": [USER]}, "response": response})
        assert kinds(conversation) == ["user", "assistant", "ToolCall", "assistant"]
        assert conversation.entries[1].parts == (Text(text="Let me look."),)
        assert conversation.entries[2].args == {"n": 7}
        assert conversation.entries[3].parts == (Unknown(label="truncated"),)


def test_an_error_body_fails_the_conversation():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    conversation = read({"request": {"system": "x", "messages": [USER]}, "status": 529, "response": error})
    assert (conversation.status, conversation.status_detail) == ("failed", "Overloaded")


def test_rows_of_requests_are_several_conversations():
    rows = [{"id": str(n), "system": "s", "messages": [USER]} for n in range(3)]
    assert [c.id for c in read_conversations("\n".join(map(json.dumps, rows)).encode())] == ["0", "1", "2"]
    with pytest.raises(InputError, match="Line 2"):
        read_conversations(json.dumps(rows[0]).encode() + b"\n7")


@pytest.mark.parametrize("request_", ["Where is it?", "null", {"messages": 5}, {"messages": "Hi."}])
def test_a_row_whose_request_holds_no_messages_is_named(request_):
    rows = [{"system": "Be kind.", "messages": [USER]}, {"request": request_}]
    with pytest.raises(InputError, match=r"^Element 2 is no Anthropic request, as the first is") as told:
        read_conversations(rows)
    assert told.value.where == "element 2"


def test_what_does_not_fit_is_named():
    with pytest.raises(InputError, match="Element 2"):
        read({"system": "x", "messages": [USER, {"content": "no role"}]})
    deep: object = "x"
    for _ in range(300):
        deep = {"type": "web_fetch_result", "url": "u", "content": deep}
    assert read([{"role": "user", "content": [{"type": "tool_result", "content": [deep]}]}]).entries

"""Streams of providers that speak much like OpenAI's chat."""

import json

from sandbox_judge.conversation.model import Reasoning, Text, ToolCall
from sandbox_judge.conversation.read import read_conversation


def read(events):
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    conversation = read_conversation(text.encode())
    assert conversation.source_format == "openai_chat"
    return conversation


def cohere(kind, index=0, end=None, **message):
    return {
        "type": kind,
        "index": index,
        "delta": {"message": message, **({"finish_reason": end} if end else {})},
    }


def test_cohere():
    call = {"id": "c", "type": "function", "function": {"name": "tide", "arguments": ""}}
    conversation = read(
        [
            cohere("message-start", role="assistant"),
            cohere("tool-plan-delta", tool_plan="Look it "),
            cohere("tool-plan-delta", tool_plan="up."),
            cohere("tool-call-start", tool_calls=call),
            cohere("tool-call-delta", tool_calls={"function": {"arguments": '{"port":'}}),
            cohere("tool-call-delta", tool_calls={"function": {"arguments": ' "Ems"}'}}),
            cohere("content-delta", content={"text": "One "}),
            cohere("content-delta", content={"text": "moment."}),
            cohere("message-end", end="MAX_TOKENS"),
        ]
    )
    message, made = conversation.entries
    assert message.parts[:2] == (Reasoning(text="Look it up."), Text(text="One moment."))
    assert message.parts[2].label == "truncated"
    assert isinstance(made, ToolCall) and (made.name, made.args, made.id) == ("tide", {"port": "Ems"}, "c")


def test_mistral_thinking_comes_in_blocks():
    def chunk(content):
        return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": content}}]}

    def thinking(text):
        return [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]

    conversation = read([chunk(thinking("Hm, ")), chunk(thinking("nine.")), chunk("Ni"), chunk("ne.")])
    assert conversation.entries[0].parts == (Reasoning(text="Hm, nine."), Text(text="Nine."))


def test_a_stream_without_a_message_is_told():
    conversation = read([{"ping": 1}])
    assert not conversation.entries and conversation.missing_context()
    assert [w.code for w in conversation.warnings] == ["response_unreadable"]

"""Recorded conversations of the formats that stand here: what was said appears, once, in order.

The readers below walk the raw JSON by each format's own rules and know nothing of the adapters.
"""

import json

import pytest
from shown import in_order, shown

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.model import CONTENT_MISSING, ToolCall
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.grading.view import build_view


def words_of_chat(messages):
    """(texts in order, tool names, argument values) of chat messages or Anthropic ones."""
    texts, names, values = [], [], []
    for message in messages:
        content = message.get("content")
        for block in [content] if isinstance(content, str) else content or []:
            if isinstance(block, str):
                texts.append(block)
            elif block.get("type") == "text":
                texts.append(block["text"])
            elif block.get("type") == "tool_use":
                names.append(block["name"])
                values.append(block["input"])
            elif block.get("type") == "tool_result":
                inner = block.get("content")
                texts += (
                    [inner]
                    if isinstance(inner, str)
                    else [b["text"] for b in inner or [] if b["type"] == "text"]
                )
        for call in message.get("tool_calls") or []:
            names.append(call["function"]["name"])
            values.append(json.loads(call["function"]["arguments"]))
    return texts, names, values


def hold(conversation, messages):
    """The check written once for all recordings."""
    texts, names, values = words_of_chat(messages)
    view = build_view(conversation)
    assert view.left_out_chars == 0
    assert in_order(view.text, texts) is None
    calls = [entry for entry in conversation.entries if isinstance(entry, ToolCall)]
    assert [call.name for call in calls] == names
    assert [call.args for call in calls] == values
    assert all(f"tool_call {name}" in view.text for name in names)
    # Nothing appears more often than it was said.
    everything = "\0".join(map(shown, texts))
    for text in {shown(text) for text in texts if len(text) > 40}:
        assert view.text.count(text) == everything.count(text)
    assert not [w for w in conversation.warnings if w.code in ("unknown_part", CONTENT_MISSING)]
    again = read_conversation(canonical_json(conversation))
    assert build_view(again) == view and canonical_json(again) == canonical_json(conversation)


def test_tau_bench(shared):
    path = shared / "data/conversations/tau_bench/gpt-4o-airline.json"
    rows = json.loads(path.read_bytes())
    found = read_conversations(path.read_bytes())
    assert len(found) == len(rows) == len({c.id for c in found})
    for row, conversation in zip(rows, found, strict=True):
        hold(conversation, row["traj"])
        assert not conversation.warnings


def test_chat_completions_in_two_files(shared):
    folders = sorted((shared / "data/conversations/openai_conformance/ChatCompletions").iterdir())
    assert folders
    for folder in folders:
        request = json.loads((folder / "request.json").read_bytes())
        response = json.loads((folder / "response.json").read_bytes())
        conversation = read_conversation({"request": request, "response": response})
        hold(conversation, [*request["messages"], *(choice["message"] for choice in response["choices"])])


@pytest.mark.parametrize("provider", ["openai_chat", "openrouter", "huggingface", "cohere", "anthropic"])
def test_recorded_calls_of_providers(shared, provider):
    paths = sorted((shared / "data/conversations/provider_api_recordings" / provider).glob("*.json"))
    assert paths
    for path in paths:
        last = json.loads(path.read_bytes())["interactions"][-1]
        request, response = last["request"], last["response"]
        messages = list(request["messages"])
        if request.get("system"):
            messages.insert(0, {"content": request["system"]})
        if response.get("type") == "message":
            messages.append(response)
        messages += [choice["message"] for choice in response.get("choices", [])]
        messages += [response["message"]] if "message" in response else []
        conversation = read_conversation(path.read_bytes())
        expected = "anthropic_messages" if provider == "anthropic" else "openai_chat"
        assert conversation.source_format == expected
        hold(conversation, messages)


def session_rows(path):
    rows = [json.loads(line) for line in path.read_text().split("\n") if line.strip()]
    return [row for row in rows if isinstance(row, dict)]


def test_claude_code_sessions(shared):
    folders = (shared / "data/conversations/claude_code_jsonl", shared / "data/hosts/claude-code")
    paths = sorted(path for folder in folders for path in folder.rglob("*.jsonl"))
    assert paths
    for path in paths:
        conversation = read_conversation(path.read_bytes())
        assert conversation.source_format == "claude_code"
        messages = [
            row["message"]
            for row in session_rows(path)
            if row.get("type") in ("user", "assistant") and isinstance(row.get("message"), dict)
        ]
        texts, names, values = words_of_chat(messages)
        view = build_view(conversation, allowance=10**9)
        assert in_order(view.text, texts) is None, path
        # Rows of a drifted shape, which name a tool directly, come on top.
        calls = [e for e in conversation.entries if isinstance(e, ToolCall)]
        direct = [row["name"] for row in session_rows(path) if row.get("type") == "tool_use"]
        assert [call.name for call in calls] == (names or direct), path
        assert [call.args for call in calls if names] == values
        if any(row.get("isSidechain") for row in session_rows(path)):
            assert all(getattr(entry, "agent", None) for entry in conversation.entries)

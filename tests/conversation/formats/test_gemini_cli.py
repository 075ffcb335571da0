"""Gemini CLI sessions: JSON, JSON Lines with changes and rewinds, saved chats."""

import json

import pytest

from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

HEAD = {"sessionId": "s-1", "projectHash": "h", "startTime": "2026-05-01T09:00:00.000Z", "kind": "main"}


def user(id, text, **more):
    return {"id": id, "timestamp": "2026-05-01T09:00:01.000Z", "type": "user", "content": text, **more}


def gemini(id, text, **more):
    return {"id": id, "timestamp": "2026-05-01T09:00:02.000Z", "type": "gemini", "content": text, **more}


def call(status, **more):
    return {"id": "c-1", "name": "read_file", "args": {"path": "/a"}, "status": status, **more}


def done(**response):
    return {"result": [{"functionResponse": {"id": "c-1", "name": "read_file", "response": response}}]}


def read(*rows):
    data = json.dumps(rows[0]) if len(rows) == 1 else "\n".join(map(json.dumps, rows))
    conversation = read_conversation(data.encode())
    assert conversation.source_format == "gemini_cli"
    return conversation


def lines(*rows):
    return build_view(read(*rows)).text.split("\n")[1:]


def test_a_session_and_its_lines_read_the_same():
    records = [
        user("u", [{"text": "Read /a"}], displayContent="Read /a"),
        gemini(
            "g",
            "Sure.",
            thoughts=[{"subject": "Plan", "description": "open it"}],
            toolCalls=[call("success", **done(output="one\ntwo"), resultDisplay="2 lines")],
        ),
        {"id": "i", "timestamp": "2026-05-01T09:00:03.000Z", "type": "error", "content": "quota"},
    ]
    expected = [
        "[1] message user: Read /a",
        "[2] message assistant: [reasoning left out]",
        "| Sure.",
        '[3] tool_call read_file: {"path":"/a"}',
        "[4] tool_result of 3 (ok): one",
        "| two",
        "[5] message system name=error: quota",
    ]
    whole, log = read({**HEAD, "messages": records}), read(HEAD, *records)
    assert build_view(whole) == build_view(log) and whole.id == log.id == "s-1"
    assert [line.split(" at ")[0] for line in build_view(whole).text.split("\n")[1:]] == expected


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        (call("error", **done(error="no such file")), ["(error): no such file"]),
        (call("cancelled", **done(error="stopped")), ["(error): stopped", "| [cancelled]"]),
        (call("success", resultDisplay="2 lines"), ["(ok): 2 lines"]),
        (call("success", result=None), ["(ok): [not_recorded] the tool ran and its result was not recorded"]),
    ],
)
def test_how_a_call_ended(more, shown):
    found = lines(gemini("g", "", toolCalls=[more]))
    assert found[0] == '[1] tool_call read_file: {"path":"/a"}'
    assert [line.removeprefix("[2] tool_result of 1 ") for line in found[1:]] == shown


def test_a_call_that_waits_has_no_result():
    assert lines(gemini("g", "", toolCalls=[call("awaiting_approval")])) == [
        '[1] tool_call read_file (no result): {"path":"/a"}'
    ]


def test_a_later_line_of_an_id_stands_in_its_place():
    log = [HEAD, user("u", "Hm?"), gemini("g", "par"), user("v", "And?"), gemini("g", "partial, whole")]
    assert lines(*log) == [
        "[1] message user: Hm?",
        "[2] message assistant: partial, whole",
        "[3] message user: And?",
    ]


def test_a_rewind_takes_back_what_followed():
    log = [HEAD, user("u", "Hm?"), gemini("g", "wrong"), {"$rewindTo": "g"}, gemini("k", "right")]
    assert lines(*log) == ["[1] message user: Hm?", "[2] message assistant: right"]
    assert [w.code for w in read(*log).warnings] == ["branch_left_out"]
    assert lines(*log[:3], {"$rewindTo": "unknown"}, user("w", "anew")) == ["[1] message user: anew"]


def test_a_set_changes_what_is_known_and_may_give_all_records_anew():
    log = [
        HEAD,
        user("u", "old"),
        {"$set": {"sessionId": "s-2", "messages": [user("v", "new")]}},
        gemini("g", "yes"),
    ]
    conversation = read(*log)
    assert conversation.id == "s-2"
    assert lines(*log) == ["[1] message user: new", "[2] message assistant: yes"]


def test_a_result_that_a_user_record_repeats_is_shown_once():
    repeated = user("v", done(output="once")["result"])
    found = lines(
        HEAD, user("u", "go"), gemini("g", "", toolCalls=[call("success", **done(output="once"))]), repeated
    )
    assert sum("once" in line for line in found) == 1


def test_a_subagent_is_named_and_a_strange_row_is_counted():
    conversation = read({**HEAD, "kind": "subagent"}, user("u", "go"), {"odd": 1}, 7)
    assert conversation.entries[0].agent == "subagent"
    assert [w.message for w in conversation.warnings] == [
        "2 rows are no records and were left out (line 3, line 4)"
    ]


def test_a_saved_chat():
    saved = {
        "history": [{"role": "user", "parts": [{"text": "a"}]}, {"role": "gemini", "parts": [{"text": "b"}]}]
    }
    assert lines(saved) == ["[1] message user: a", "[2] message assistant: b"]
    with pytest.raises(InputError, match="Element 3"):
        read_conversations(json.dumps({"history": [*saved["history"], {"x": 1}]}).encode())


def test_a_session_without_messages_lacks_context():
    assert read({**HEAD, "messages": []}).missing_context() and read(HEAD).missing_context()


def test_a_mixture_names_the_element_that_does_not_fit():
    with pytest.raises(InputError, match="Element 2"):
        read_conversations(json.dumps({**HEAD, "messages": [user("u", "a"), {"x": 1}]}).encode())

import json

from sandbox_judge.conversation.model import Media, Message, Reasoning, ToolCall, ToolResult, Unknown
from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.grading.view import build_view


def row(kind, uuid, parent, content, *, id=None, **more):
    message = {"role": kind, "content": content, **({"id": id} if id else {})}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s1", "message": message, **more}


def said(text):
    return [{"type": "text", "text": text}]


def use(id, name="Read", **arguments):
    return [{"type": "tool_use", "id": id, "name": name, "input": arguments}]


def gave(id, text, **more):
    return [{"type": "tool_result", "tool_use_id": id, "content": text, **more}]


def read(*rows):
    conversation = read_conversation("\n".join(map(json.dumps, rows)).encode())
    assert conversation.source_format == "claude_code"
    return conversation


def texts(conversation):
    out = []
    for entry in conversation.entries:
        if isinstance(entry, ToolCall):
            out.append(f"call {entry.name}")
        else:
            out.append(" ".join(getattr(p, "text", None) or type(p).__name__ for p in entry.parts))
    return out


def test_a_plain_session():
    conversation = read(
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        row("user", "1", None, "Fix the login"),
        row("assistant", "2", "1", said("Looking."), id="m1"),
        row("assistant", "3", "2", use("t1"), id="m1"),
        {"type": "progress", "uuid": "p", "parentUuid": "3", "data": {"type": "hook_progress"}},
        row("user", "4", "p", gave("t1", "source"), toolUseResult={"file": "x"}),
        row("assistant", "5", "4", said("Fixed."), id="m2"),
        {"type": "summary", "summary": "Login", "leafUuid": "5"},
    )
    assert conversation.id == "s1"
    assert texts(conversation) == ["Fix the login", "Looking.", "call Read", "source", "Fixed."]
    result = conversation.entries[3]
    assert isinstance(result, ToolResult) and result.call == 3
    assert [w.code for w in conversation.warnings] == ["rows_left_out"]
    assert "1 file-history-snapshot, 1 progress, 1 summary" in conversation.warnings[0].message


def test_an_abandoned_branch_is_not_the_conversation():
    conversation = read(
        row("user", "1", None, "Write a poem"),
        row("assistant", "2", "1", said("Roses"), id="m1"),
        row("user", "3", "2", "Longer"),
        row("assistant", "4", "3", said("Long roses"), id="m2"),
        row("user", "5", "2", "Shorter"),
        row("assistant", "6", "5", said("Rose"), id="m3"),
    )
    assert texts(conversation) == ["Write a poem", "Roses", "Shorter", "Rose"]
    assert [(w.code, w.message[:6]) for w in conversation.warnings] == [("branch_left_out", "2 rows")]


def test_calls_side_by_side_are_no_branches():
    conversation = read(
        row("user", "1", None, "Compare"),
        row("assistant", "2", "1", use("t1"), id="m1"),
        row("assistant", "3", "2", use("t2", "Grep"), id="m1"),
        row("user", "4", "3", gave("t2", "second")),
        row("user", "5", "2", gave("t1", "first")),
        row("assistant", "6", "5", said("Same."), id="m2"),
    )
    assert texts(conversation) == ["Compare", "call Read", "call Grep", "second", "first", "Same."]
    assert [e.call for e in conversation.entries if isinstance(e, ToolResult)] == [3, 2]
    assert not conversation.warnings


def test_rows_that_repeat_what_their_message_said_add_only_what_is_new():
    conversation = read(
        row("user", "1", None, "Go"),
        row("assistant", "2", "1", said("Going"), id="m1"),
        row("assistant", "3", "2", said("Going") + use("t1"), id="m1"),
        row("assistant", "4", "3", use("t1"), id="m1"),
        row("user", "5", "4", gave("t1", "done")),
        row("user", "5", "4", gave("t1", "done")),
    )
    assert texts(conversation) == ["Go", "Going", "call Read", "done"]


def test_a_compaction_keeps_what_came_before():
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b",
        "parentUuid": None,
        "logicalParentUuid": "2",
        "content": "Conversation compacted",
    }
    conversation = read(
        row("user", "1", None, "Start"),
        row("assistant", "2", "1", said("Started"), id="m1"),
        boundary,
        row("user", "3", "b", "Summary: it started.", isCompactSummary=True),
        row("user", "4", "3", "Go on"),
        row("assistant", "5", "4", said("Done"), id="m2"),
    )
    assert texts(conversation) == [
        "Start",
        "Started",
        "Conversation compacted",
        "Summary: it started.",
        "Go on",
        "Done",
    ]
    assert [(e.role, e.name) for e in conversation.entries[2:4]] == [
        ("system", "compact_boundary"),
        ("system", "compact_summary"),
    ]
    assert conversation.entries[2].parts == (Unknown(label="compacted", text="Conversation compacted"),)


def test_what_the_harness_writes_is_not_the_users():
    conversation = read(
        row("user", "1", None, "Caveat: local commands", isMeta=True),
        row("user", "2", "1", "<command-name>/mcp</command-name>"),
        row("user", "3", "2", "<local-command-stdout>Reconnected</local-command-stdout>"),
        {
            "type": "system",
            "subtype": "local_command",
            "uuid": "4",
            "parentUuid": "3",
            "content": "dismissed",
        },
        {"type": "system", "subtype": "turn_duration", "uuid": "5", "parentUuid": "4", "durationMs": 3},
        row("user", "6", "5", said("<system-reminder>be brief</system-reminder>")),
        {
            "type": "attachment",
            "uuid": "7",
            "parentUuid": "6",
            "attachment": {"type": "queued_command", "prompt": "and be quick"},
        },
        {
            "type": "attachment",
            "uuid": "8",
            "parentUuid": "7",
            "attachment": {"type": "file", "filename": "a.py", "content": "x = 1"},
        },
        {
            "type": "attachment",
            "uuid": "9",
            "parentUuid": "8",
            "attachment": {"type": "deferred_tools_delta"},
        },
        row("user", "10", "9", "Really?"),
    )
    assert [(e.role, e.name) for e in conversation.entries] == [
        ("system", "meta"),
        ("user", None),
        ("system", "local_command_stdout"),
        ("system", "local_command"),
        ("system", "system_reminder"),
        ("user", None),
        ("system", "attachment"),
        ("user", None),
    ]


def test_subagents_are_marked_in_every_shape():
    progress = {
        "type": "progress",
        "uuid": "p1",
        "parentUuid": "2",
        "data": {
            "type": "agent_progress",
            "agentId": "b2",
            "message": {"type": "assistant", "message": {"role": "assistant", "content": said("Deep in")}},
        },
    }
    conversation = read(
        row("user", "1", None, "Delegate"),
        row("assistant", "2", "1", use("t1", "Task"), id="m1"),
        row("user", "s1", None, "Search", isSidechain=True, agentId="a1"),
        row("assistant", "s2", "s1", said("Found"), id="m9", isSidechain=True, agentId="a1"),
        progress,
        row("user", "3", "p1", gave("t1", "found")),
    )
    assert [e.agent for e in conversation.entries] == [None, None, "a1", "a1", "b2", None]
    assert "agent=a1" in build_view(conversation).text
    alone = read(
        row("user", "1", None, "x", isSidechain=True), row("user", "2", "gone", "y", isSidechain=True)
    )
    assert [(e.agent, texts(alone)[i]) for i, e in enumerate(alone.entries)] == [
        ("subagent", "x"),
        ("subagent", "y"),
    ]


def test_how_a_session_ended():
    start = row("user", "1", None, "Go")
    stopped = read(start, row("user", "2", "1", said("[Request interrupted by user for tool use]")))
    assert stopped.status == "cancelled"
    went_on = read(
        start, row("user", "2", "1", said("[Request interrupted by user]")), row("user", "3", "2", "No")
    )
    assert went_on.status == "completed"
    broken = read(start, row("assistant", "2", "1", said("API Error: 529"), isApiErrorMessage=True))
    assert (broken.status, broken.status_detail) == ("failed", "API Error: 529")
    assert broken.entries[1].parts == (Unknown(label="api_error", text="API Error: 529"),)
    assert "no assistant response" in build_view(broken).text
    retried = {
        "type": "system",
        "subtype": "api_error",
        "uuid": "2",
        "parentUuid": "1",
        "error": {"message": "429"},
    }
    assert texts(read(start, retried)) == ["Go", "429"]


def test_older_and_trimmed_shapes():
    bare = [
        {"type": "user", "timestamp": "2024-01-01T10:00:00Z", "message": {"content": "Fix"}},
        {"type": "assistant", "timestamp": "2024-01-01T10:00:01Z", "message": {"content": said("Fixed")}},
    ]
    assert texts(read(*bare)) == ["Fix", "Fixed"]
    unlinked = [row("user", str(n), None, f"n{n}") for n in range(3)]
    assert texts(read(*unlinked)) == ["n0", "n1", "n2"]
    drifted = [
        row("user", "1", None, "Open"),
        {"type": "tool_use", "name": "bash", "input": {"command": "cat"}, "uuid": "2"},
        {"type": "tool_result", "name": "bash", "output": "Title", "uuid": "3"},
    ]
    conversation = read(*drifted)
    assert texts(conversation) == ["Open", "call bash", "Title"] and conversation.entries[2].call == 2
    assert texts(read(row("user", "2", "lost", "a"), row("user", "3", "also lost", "b"))) == ["a", "b"]


def test_rows_of_no_shape_are_counted_not_fatal():
    conversation = read(
        row("user", "1", None, [{"type": "image", "source": {"media_type": "image/png", "data": "QUJD"}}]),
        "a text",
        42,
        None,
        {"silly": True},
        {"type": "user", "uuid": "2", "message": {"role": "user", "kontent": 1}, "toolUseResult": "kept"},
        {"type": "user", "uuid": "3", "message": "just text"},
    )
    assert conversation.entries[0].parts == (Media(media="image", mime="image/png", bytes=3),)
    assert "kept" in texts(conversation)[1] and texts(conversation)[2] == "just text"
    codes = {w.code: w.message for w in conversation.warnings}
    assert "3 rows" in codes["row_unreadable"] and "line 2, line 3, line 4" in codes["row_unreadable"]
    assert "1 row without type" in codes["rows_left_out"]


def test_thinking_is_marked():
    conversation = read(row("assistant", "1", None, [{"type": "thinking", "thinking": "plan"}], id="m"))
    entry = conversation.entries[0]
    assert isinstance(entry, Message) and entry.parts == (Reasoning(text="plan"),)
    assert "plan" not in build_view(conversation).text


def test_a_circle_of_parents_ends():
    assert len(read(row("user", "1", "2", "a"), row("user", "2", "1", "b")).entries) == 2


def test_a_long_session_is_read_in_time_that_grows_with_it():
    rows, parent = [], None
    for n in range(20_000):
        rows.append(row("user" if n % 2 else "assistant", str(n), parent, said("x"), id=f"m{n}"))
        parent = str(n)
    assert len(read(*rows).entries) == 20_000
    pieces = [
        row("assistant", str(n), str(n - 1) if n else None, use(f"t{n}"), id="m") for n in range(20_000)
    ]
    assert len(read(*pieces).entries) == 20_000

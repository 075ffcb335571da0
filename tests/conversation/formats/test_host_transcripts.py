"""Hosts' transcripts, where the corpus and the recordings do not reach."""

import json

import pytest

from sandbox_judge.conversation.model import CONTENT_MISSING, ToolCall, ToolResult
from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view


def lines(*rows):
    return "\n".join(map(json.dumps, rows)).encode()


def shown(conversation):
    return build_view(conversation).text.split("\n")[1:]


def item(**payload):
    return {"type": "response_item", "payload": payload}


def event(**payload):
    return {"type": "event_msg", "payload": payload}


def user(text):
    return item(type="message", role="user", content=[{"type": "input_text", "text": text}])


META = {"type": "session_meta", "payload": {"id": "r", "source": "cli"}}


def test_codex_is_read_from_its_events_where_it_holds_no_items():
    told = read_conversation(
        lines(
            META,
            event(type="user_message", message="Sweep", images=["data:image/png;base64,QUJD"]),
            event(type="agent_reasoning", text="broom"),
            event(
                type="exec_command_end", call_id="1", command=["sweep"], aggregated_output="dust", exit_code=3
            ),
            event(
                type="mcp_tool_call_end",
                call_id="2",
                invocation={"server": "bin", "tool": "empty", "arguments": {"n": 1}},
                result={"Err": "full"},
            ),
            event(
                type="web_search_end", call_id="3", action={"query": "brooms"}, results=[{"title": "Brooms"}]
            ),
            event(type="agent_message", message="Swept."),
        )
    )
    assert shown(told) == [
        "[1] message user: Sweep",
        "| [image image/png 3 bytes]",
        "[2] message assistant: [reasoning left out]",
        '[3] tool_call exec_command: {"command":["sweep"]}',
        "[4] tool_result of 3 (error): dust",
        '[5] tool_call bin__empty: {"n":1}',
        "[6] tool_result of 5 (error): [result] full",
        '[7] tool_call web_search: {"query":"brooms"}',
        '[8] tool_result of 7 (ok): [{"title":"Brooms"}]',
        "[9] message assistant: Swept.",
    ]


def test_codex_counts_only_the_last_turn_for_how_it_ended():
    aborted = [META, user("a"), event(type="turn_aborted", reason="interrupted")]
    assert read_conversation(lines(*aborted)).status == "cancelled"
    assert read_conversation(lines(*aborted, user("b"))).status == "completed"
    failed = read_conversation(lines(*aborted, user("b"), event(type="error", message="quota")))
    assert (failed.status, failed.status_detail) == ("failed", "quota")


def test_codex_marks_a_subagent_and_what_its_harness_wrote():
    meta = {"id": "r", "source": {"subagent": {"other": "x"}}, "agent_nickname": "Mole"}
    agents = user("# AGENTS.md instructions for /x\n\nDig.")
    told = read_conversation(lines({"type": "session_meta", "payload": meta}, agents, user("Dig deeper")))
    assert [(e.role, e.name, e.agent) for e in told.entries] == [
        ("system", "agents_md", "Mole"),
        ("user", None, "Mole"),
    ]


def test_codex_takes_turns_back_in_linear_time():
    rows = [META]
    for n in range(3000):
        rows += [user(f"turn {n}"), user(f"again {n}"), event(type="thread_rolled_back", num_turns=1)]
    rows.append(event(type="thread_rolled_back", num_turns=2999))
    assert [e.parts[0].text for e in read_conversation(lines(*rows)).entries] == ["turn 0"]


def test_codex_older_files_hold_bare_items():
    told = read_conversation(
        lines(
            {"id": "old", "timestamp": "2025-05-01T00:00:00Z", "instructions": "Be brief."},
            {"record_type": "state"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
            {
                "type": "local_shell_call_output",
                "call_id": "c",
                "output": '{"output": "", "metadata": {"exit_code": 2}}',
            },
        )
    )
    assert told.id == "old"
    assert [line.split(":")[0] for line in shown(told)] == [
        "[1] message system name=base_instructions",
        "[2] message user",
        "[3] tool_call local_shell",
        "[4] tool_result of 3 (error)",
    ]


def test_openhands_before_its_sdk():
    call = {"tool_call_metadata": {"function_name": "execute_bash", "tool_call_id": "t1"}}
    told = read_conversation(
        [
            {"id": 0, "source": "agent", "action": "system", "args": {"content": "You paint."}},
            {
                "id": 1,
                "source": "user",
                "action": "message",
                "args": {"content": "Paint it", "image_urls": ["data:image/png;base64,QUJD"]},
            },
            {
                "id": 2,
                "source": "environment",
                "observation": "agent_state_changed",
                "content": "",
                "extras": {"agent_state": "running"},
            },
            {
                "id": 3,
                "source": "agent",
                "action": "run",
                "args": {"command": "mix", "thought": "Mixing."},
                **call,
            },
            {
                "id": 4,
                "source": "agent",
                "observation": "run",
                "content": "lumps",
                "cause": 3,
                "extras": {"metadata": {"exit_code": 1}},
                **call,
            },
            {"id": 5, "source": "agent", "action": "read", "args": {"path": "/can", "thought": ""}},
            {"id": 6, "source": "agent", "observation": "read", "content": "blue", "cause": 5},
            {"id": 7, "source": "agent", "action": "think", "args": {"thought": "Is it blue?"}},
            {"id": 8, "source": "environment", "observation": "error", "content": "brush lost"},
            {
                "id": 9,
                "source": "environment",
                "observation": "agent_state_changed",
                "content": "",
                "extras": {"agent_state": "error", "reason": "no brush"},
            },
        ]
    )
    assert shown(told) == [
        "[1] message system: You paint.",
        "[2] message user: Paint it",
        "| [image image/png 3 bytes]",
        "[3] message assistant: Mixing.",
        '[4] tool_call execute_bash: {"command":"mix"}',
        "[5] tool_result of 4 (error): lumps",
        '[6] tool_call read: {"path":"/can"}',
        "[7] tool_result of 6 (ok): blue",
        '[8] tool_call think (no result): {"thought":"Is it blue?"}',
        "[9] message system: [error] brush lost",
    ]
    assert (told.status, told.status_detail) == ("failed", "no brush")


def test_openhands_events_of_the_api_come_in_pages():
    page = {"items": [{"kind": "PauseEvent", "source": "user"}], "next_page_id": "2"}
    page["items"].append(
        {
            "kind": "MessageEvent",
            "source": "agent",
            "llm_message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        }
    )
    told = read_conversation(page)
    assert CONTENT_MISSING in {w.code for w in told.warnings}
    assert not read_conversation({**page, "next_page_id": None}).missing_context()


def test_cline_keeps_its_own_blocks_from_what_the_user_said():
    told = read_conversation(
        [
            {
                "role": "user",
                "ts": 1,
                "content": [
                    {"type": "text", "text": "<task>\nSaw the plank\n</task>"},
                    {"type": "text", "text": "<environment_details>\nshed\n</environment_details>"},
                ],
            },
            {
                "role": "assistant",
                "ts": 2,
                "content": [{"type": "tool_use", "id": "s", "name": "saw", "input": {"n": 1}}],
            },
            {
                "role": "user",
                "ts": 3,
                "content": [
                    {"type": "tool_result", "tool_use_id": "s", "content": "sawn"},
                    {"type": "text", "text": "<feedback>\nshorter\n</feedback>"},
                ],
            },
        ]
    )
    assert told.source_format == "cline"
    assert shown(told) == [
        "[1] message user: Saw the plank",
        "[2] message system name=environment_details: <environment_details>",
        "| shed",
        "| </environment_details>",
        '[3] tool_call saw: {"n":1}',
        "[4] tool_result of 3 (ok): sawn",
        "[5] message user: shorter",
    ]


def test_cline_joins_a_commands_output():
    def say(kind, text):
        return {"ts": 1, "type": "say", "say": kind, "text": text}

    rows = [say("task", "t"), say("command", "a"), say("command_output", "1"), say("text", "meanwhile")]
    rows += [say("command_output", "2"), say("command", "b"), say("command_output", "3")]
    told = read_conversation(rows)
    results = [e for e in told.entries if isinstance(e, ToolResult)]
    assert [(e.call, e.parts[0].text) for e in results] == [(2, "1\n2"), (5, "3")]


def test_opencode_marks_a_child_session_and_refuses_heads_without_parts():
    messages = [
        {
            "info": {"id": "m", "sessionID": "s", "role": "assistant", "agent": "scout"},
            "parts": [{"type": "text", "text": "Seen."}],
        }
    ]
    child = read_conversation({"info": {"id": "s", "parentID": "p"}, "messages": messages})
    assert [entry.agent for entry in child.entries] == ["scout"]
    plain = read_conversation(messages)
    assert plain.id == "s" and plain.entries[0].agent is None
    with pytest.raises(InputError, match="has no parts"):
        read_conversation([*messages, {"info": {"id": "n", "role": "user"}}])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"name": "MessageAbortedError", "data": {"message": "stop"}}, "cancelled"),
        ({"name": "APIError"}, "failed"),
    ],
)
def test_opencode_tells_how_a_message_ended(error, status):
    info = {"id": "m", "role": "assistant", "error": error}
    told = read_conversation([{"info": info, "parts": []}])
    assert told.status == status and error["name"] in shown(told)[0]


def test_pi_before_it_had_a_tree():
    told = read_conversation(
        lines(
            {"type": "session", "id": "v1", "cwd": "/x"},
            {"type": "message", "message": {"role": "user", "content": "one"}},
            {"type": "message", "message": {"role": "hookMessage", "customType": "h", "content": "two"}},
            {
                "type": "message",
                "message": {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "three"}],
                    "stopReason": "length",
                },
            },
        )
    )
    assert [line.partition(": ")[2] or line for line in shown(told)] == [
        "one",
        "two",
        "three",
        "| [truncated]",
    ]


def test_pi_goes_on_where_a_parent_was_cut_off():
    def said(id, parent, text):
        message = {"role": "user", "content": text}
        return {"type": "message", "id": id, "parentId": parent, "message": message}

    told = read_conversation(
        lines(said("b", "gone", "first"), said("c", "gone too", "second"), said("c", "c", "third"))
    )
    assert [e.parts[0].text for e in told.entries] == ["first", "second", "third"]


def test_copilot_shows_a_call_that_only_started():
    data = {"toolCallId": "z", "toolName": "ls", "arguments": {"at": "/"}}
    told = read_conversation(lines({"type": "tool.execution_start", "data": data, "timestamp": "t"}))
    assert [type(e) for e in told.entries] == [ToolCall]


@pytest.mark.parametrize(
    "name", ["codex_kettle.jsonl", "copilot_lamp.jsonl", "pi_seeds.jsonl", "openhands_door.jsonl"]
)
def test_a_transcript_that_is_still_written_reads_up_to_its_last_whole_line(name, request):
    path = request.config.rootpath / "tests/corpus/conversations" / name
    data = path.read_bytes()
    cut = read_conversation(data[:-20], partial_last=True)
    assert "truncated_input" in {w.code for w in cut.warnings}
    with pytest.raises(InputError, match="Line"):
        read_conversation(data[:-20])

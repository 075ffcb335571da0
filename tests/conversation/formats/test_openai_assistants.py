"""OpenAI Assistants: one thread in every way that it is kept, its tools, how its runs ended."""

import json

import pytest

from sandbox_judge.conversation.model import Media, Refusal, Text, Unknown
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.grading.view import build_view


def read(value):
    conversation = read_conversation(value if isinstance(value, bytes) else json.dumps(value).encode())
    assert conversation.source_format == "openai_assistants"
    return conversation


def lines(value):
    text = build_view(read(value)).text.split("\n")[1:]
    return [
        line.split(" at ")[0] if line.startswith("[") and ": " not in line.split(" at ")[0] else line
        for line in text
    ]


def message(id, role, text, at, **more):
    content = [{"type": "text", "text": {"value": text, "annotations": []}}]
    base = {"object": "thread.message", "id": id, "thread_id": "th", "created_at": at, "role": role}
    return {**base, "content": content, **more}


def run(id="run_1", at=11, **more):
    return {
        "object": "thread.run",
        "id": id,
        "thread_id": "th",
        "created_at": at,
        "status": "completed",
        **more,
    }


def step(id, at, details, **more):
    base = {"object": "thread.run.step", "id": id, "thread_id": "th", "run_id": "run_1", "created_at": at}
    return {**base, "status": "completed", "step_details": details, **more}


def tools(*calls):
    return {"type": "tool_calls", "tool_calls": list(calls)}


def function(output, id="c1"):
    held = {"name": "tide", "arguments": '{"port": "Ems"}', "output": output}
    return {"id": id, "type": "function", "function": held}


MESSAGES = [message("m1", "user", "Tide?", 10), message("m2", "assistant", "Nine.", 12)]
RUN = run(instructions="Be brief.")
STEPS = [
    step("s1", 12, tools(function("high at nine"))),
    step("s2", 12, {"type": "message_creation", "message_creation": {"message_id": "m2"}}),
]
KINDS = ["system", "user", "tool_call", "tool_result", "assistant"]


def kinds(conversation):
    return [
        getattr(e, "role", None) or type(e).__name__.replace("Tool", "tool_").lower()
        for e in conversation.entries
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"thread": {"object": "thread", "id": "th"}, "messages": MESSAGES, "runs": [RUN], "steps": STEPS},
        {
            "messages": {"object": "list", "data": MESSAGES[::-1], "has_more": False},
            "runs": {"object": "list", "data": [RUN]},
            "run_steps": {"object": "list", "data": STEPS},
        },
        [*STEPS, RUN, *MESSAGES],
        b"\n".join(json.dumps(o).encode() for o in [RUN, *MESSAGES, *STEPS]),
    ],
)
def test_every_way_gives_one_thread(value):
    conversation = read(value)
    assert conversation.id == "th" and kinds(conversation) == KINDS and not conversation.warnings
    assert conversation.entries[2].args == {"port": "Ems"} and conversation.entries[3].call == 3
    assert conversation.entries[3].parts == (Text(text="high at nine"),)


def test_messages_newest_first():
    listed = {"object": "list", "data": MESSAGES[::-1], "first_id": "m2", "has_more": False}
    assert kinds(read(listed)) == ["user", "assistant"]
    assert "more objects" in read({**listed, "has_more": True}).missing_context()


def test_a_step_whose_message_is_not_given():
    assert "'m2'" in read({"messages": MESSAGES[:1], "steps": STEPS}).missing_context()


def test_tools_of_the_service():
    code = {
        "input": "1+1",
        "outputs": [{"type": "logs", "logs": "2"}, {"type": "image", "image": {"file_id": "f"}}],
    }
    found = {"results": [{"file_name": "t.txt", "content": [{"type": "text", "text": "nine"}]}]}
    calls = tools(
        {"id": "a", "type": "code_interpreter", "code_interpreter": code},
        {"id": "b", "type": "file_search", "file_search": found},
        {"id": "d", "type": "file_search", "file_search": {}},
    )
    entries = read([MESSAGES[0], step("s", 11, calls)]).entries[1:]
    assert [(e.name, e.args) for e in entries[::2]] == [
        ("code_interpreter", {"code": "1+1"}),
        ("file_search", None),
        ("file_search", None),
    ]
    assert entries[1].parts == (Text(text="2"), Media(media="image", name="f"))
    assert entries[3].parts == (Text(text="t.txt\nnine"),)
    assert isinstance(entries[5].parts[0], Unknown) and entries[5].parts[0].label == "not_recorded"


def test_calls_that_a_run_waits_for():
    asked = {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": [function(None)]}}
    waiting = run(status="requires_action", required_action=asked)
    conversation = read([MESSAGES[0], waiting])
    assert kinds(conversation) == ["user", "tool_call"]
    given = read(
        {"messages": MESSAGES[:1], "runs": [waiting], "tool_outputs": [{"tool_call_id": "c1", "output": "9"}]}
    )
    assert given.entries[2].parts == (Text(text="9"),)


def test_a_step_that_failed():
    failed = step("s", 11, tools(function(None)), status="failed", last_error={"message": "timeout"})
    result = read([MESSAGES[0], failed]).entries[2]
    assert result.status == "error" and result.parts == (Text(text="timeout"),)


@pytest.mark.parametrize(
    ("more", "status", "detail"),
    [
        ({"status": "failed", "last_error": {"message": "quota"}}, "failed", "quota"),
        ({"status": "expired"}, "failed", "expired"),
        ({"status": "cancelled"}, "cancelled", None),
    ],
)
def test_how_the_last_run_ended(more, status, detail):
    conversation = read([*MESSAGES, run(**more)])
    assert (conversation.status, conversation.status_detail) == (status, detail)


def test_a_turn_that_was_cut():
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_tokens"}}
    ended = run(status="incomplete", incomplete_details={"reason": "max_tokens"})
    conversation = read([MESSAGES[0], message("m2", "assistant", "Ni", 12, run_id="run_1", **cut), ended])
    assert conversation.entries[-1].parts == (Text(text="Ni"), Unknown(label="truncated"))
    assert read([MESSAGES[0], ended]).entries[-1].parts == (Unknown(label="truncated"),)


def test_parts_of_messages():
    content = [
        {"type": "image_file", "image_file": {"file_id": "f"}},
        {"type": "image_url", "image_url": {"url": "https://h/i"}},
        {"type": "refusal", "refusal": "No."},
        {"type": "hologram", "depth": 3},
    ]
    told = message("m", "user", "", 1, attachments=[{"file_id": "a"}])
    assert read([{**told, "content": content}]).entries[0].parts == (
        Media(media="image", name="f"),
        Media(media="image", name="https://h/i"),
        Refusal(text="No."),
        Unknown(label="hologram", text='{"type":"hologram","depth":3}'),
        Media(media="file", name="a"),
    )


@pytest.mark.parametrize("whole", [True, False])
def test_a_streamed_run(whole):
    made = message("m2", "assistant", "", 12, status="in_progress")
    events = [
        run(status="in_progress"),
        {**made, "content": []},
        *(
            {
                "object": "thread.message.delta",
                "id": "m2",
                "delta": {"content": [{"index": 0, "type": "text", "text": {"value": piece}}]},
            }
            for piece in ("Ni", "ne.")
        ),
        *([MESSAGES[1], run()] if whole else []),
    ]
    text = "".join(f"event: e\ndata: {json.dumps(e)}\n\n" for e in events) + "event: done\ndata: [DONE]\n\n"
    parts = read(text.encode()).entries[0].parts
    assert parts == ((Text(text="Nine."),) if whole else (Text(text="Nine."), Unknown(label="interrupted")))
    wrapped = [{"event": "e", "data": e} for e in events]
    assert read(wrapped).entries[0].parts == parts


def test_several_threads_are_several_conversations():
    other = [{**m, "id": m["id"] + "x", "thread_id": "other"} for m in MESSAGES]
    found = read_conversations(json.dumps([*MESSAGES, *other]).encode())
    assert [c.id for c in found] == ["th", "other"] and [len(c.entries) for c in found] == [2, 2]

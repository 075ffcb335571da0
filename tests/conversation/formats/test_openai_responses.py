"""OpenAI Responses: items, built-in tools, streams, chains of requests, stored conversations."""

import json

import pytest

from sandbox_judge.conversation.model import Media, Reasoning, Refusal, Text, Unknown
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view


def read(value):
    conversation = read_conversation(value if isinstance(value, bytes) else json.dumps(value).encode())
    assert conversation.source_format == "openai_responses"
    return conversation


def lines(value):
    return build_view(read(value)).text.split("\n")[1:]


def asked(text, **more):
    return {"model": "m", "input": text, **more}


def said(text, **more):
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
        **more,
    }


def answer(*output, **more):
    return {"object": "response", "id": "resp_1", "status": "completed", "output": list(output), **more}


CALL = {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": '{"port": "Ems"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "high at nine"}


def test_a_request_with_its_response():
    value = {
        "request": asked(
            [{"role": "user", "content": "When is high tide?"}, CALL, OUTPUT], instructions="Be brief."
        ),
        "response": answer(
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "secret"}]}, said("Nine.")
        ),
    }
    assert lines(value) == [
        "[1] message system: Be brief.",
        "[2] message user: When is high tide?",
        '[3] tool_call tide: {"port":"Ems"}',
        "[4] tool_result of 3 (ok): high at nine",
        "[5] message assistant: [reasoning left out]",
        "| Nine.",
    ]


def test_bare_items_a_response_alone_and_one_item():
    assert [e.kind for e in map(kinds, read([asked_item("Hm?"), CALL]).entries)] == ["Message", "ToolCall"]
    assert lines(answer(said("Nine."))) == ["[1] message assistant: Nine."]
    assert lines(said("Nine.", id="msg_1", status="completed")) == ["[1] message assistant: Nine."]
    rows = b"\n".join(json.dumps(item).encode() for item in [asked_item("Hm?"), CALL, OUTPUT])
    assert len(read(rows).entries) == 3


def asked_item(text):
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


class kinds:
    def __init__(self, entry):
        self.kind = type(entry).__name__


def test_an_item_of_a_type_that_is_not_known_is_kept():
    conversation = read([CALL, {"type": "hologram_call", "depth": 3}])
    assert conversation.entries[1].parts == (
        Unknown(label="hologram_call", text='{"type":"hologram_call","depth":3}'),
    )
    assert [w.code for w in conversation.warnings] == ["unknown_part"]


@pytest.mark.parametrize(
    ("item", "call", "result"),
    [
        (
            {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "tides"}},
            'tool_call web_search: {"query":"tides"}',
            "(ok): [not_recorded] the provider ran this and did not give its result",
        ),
        (
            {
                "type": "file_search_call",
                "id": "f",
                "queries": ["tide table"],
                "results": [{"filename": "t.txt", "text": "nine"}],
            },
            'tool_call file_search: {"queries":["tide table"]}',
            "(ok): t.txt|| nine",
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "p",
                "code": "1+1",
                "outputs": [{"type": "logs", "logs": "2"}],
            },
            'tool_call code_interpreter: {"code":"1+1"}',
            "(ok): 2",
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "roll", "arguments": "{}", "error": "no dice"},
            "tool_call roll: {}",
            "(error): no dice",
        ),
        (
            {"type": "image_generation_call", "id": "i", "status": "completed", "result": "QUJD"},
            "tool_call image_generation: [no arguments]",
            "(ok): [image 3 bytes]",
        ),
    ],
)
def test_tools_that_a_server_runs(item, call, result):
    found = lines([item, said("done")])
    assert found[0] == f"[1] {call}"
    assert "|".join(found[1:-1]) == f"[2] tool_result of 1 {result}"


def test_shells_computers_and_patches():
    conversation = read(
        [
            {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
            {
                "type": "shell_call_output",
                "call_id": "s",
                "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 2}}],
            },
            {"type": "computer_call", "call_id": "k", "action": {"type": "screenshot"}},
            {
                "type": "computer_call_output",
                "call_id": "k",
                "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,QUJD"},
            },
            {"type": "custom_tool_call", "call_id": "x", "name": "sql", "input": "select 1"},
            {"type": "custom_tool_call_output", "call_id": "x", "output": [{"rows": 1}]},
        ]
    )
    results = conversation.entries[1::2]
    assert [r.status for r in results] == ["error", "ok", "ok"] and [r.call for r in results] == [1, 3, 5]
    assert results[0].parts == (Text(text="a"), Text(text="b"), Unknown(label="exit", text="2"))
    assert results[1].parts == (Media(media="image", mime="image/png", bytes=3),)
    assert conversation.entries[4].args == {"input": "select 1"}
    assert results[2].parts == (Text(text='{"rows":1}'),)


def test_parts_of_messages():
    content = [
        {"type": "input_image", "image_url": "data:image/jpeg;base64,QUI="},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
        {"type": "input_file", "file_id": "file-7"},
        {"type": "refusal", "refusal": "No."},
        None,
    ]
    conversation = read([{"type": "message", "role": "user", "content": content}])
    assert conversation.entries[0].parts == (
        Media(media="image", mime="image/jpeg", bytes=2),
        Media(media="file", mime="application/pdf", bytes=3, name="a.pdf"),
        Media(media="file", name="file-7"),
        Refusal(text="No."),
    )


def test_reasoning_is_marked_and_what_is_encrypted_is_told():
    conversation = read([{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}, CALL])
    assert conversation.entries[0].parts == (Reasoning(text="(encrypted by the provider)"),)


@pytest.mark.parametrize(
    ("more", "mark", "status"),
    [
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "truncated",
            "completed",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
            "completed",
        ),
        ({"status": "in_progress"}, "interrupted", "completed"),
        ({"status": "failed", "error": {"message": "overload"}}, None, "failed"),
        ({"status": "cancelled"}, None, "cancelled"),
    ],
)
def test_how_a_response_ended(more, mark, status):
    conversation = read({"request": asked("Hm?"), "response": answer(said("Ni"), **more)})
    marks = [p.label for p in conversation.entries[1].parts if isinstance(p, Unknown)]
    assert marks == ([mark] if mark else []) and conversation.status == status
    assert conversation.status_detail == ("overload" if status == "failed" else None)


def chained(*, whole):
    first = {"request": asked("One?"), "response": answer(said("1."), id="r1")}
    second = {
        "request": asked([OUTPUT], previous_response_id="r2"),
        "response": answer(said("3."), id="r3"),
    }
    middle = {
        "request": asked("Two?", previous_response_id="r1"),
        "response": answer(CALL, id="r2"),
    }
    return [first, middle, second] if whole else [second]


@pytest.mark.parametrize("wrap", [list, lambda rows: {"interactions": rows}])
def test_a_chain_of_requests_is_one_conversation(wrap):
    conversation = read(wrap(chained(whole=True)))
    assert [e.n for e in conversation.entries] == [1, 2, 3, 4, 5, 6]
    assert conversation.entries[4].call == 4 and conversation.missing_context() is None


@pytest.mark.parametrize("wrap", [list, lambda rows: {"interactions": rows}])
def test_a_chain_whose_start_is_not_given_lacks_context(wrap):
    conversation = read(wrap(chained(whole=False)))
    assert "'r2' is only referred to" in conversation.missing_context()


def test_a_chain_that_goes_in_a_circle_ends():
    row = {"request": asked("One?", previous_response_id="r1"), "response": answer(said("1."), id="r1")}
    assert len(read({"interactions": [row]}).entries) == 2
    with pytest.raises(InputError, match="no conversation"):
        read_conversations(json.dumps([row]).encode())


def test_branches_share_their_start_within_bounds():
    def row(id, previous):
        return {"request": asked("a", previous_response_id=previous), "response": answer(id=id)}

    trunk = [row(f"r{n}", f"r{n - 1}" if n else None) for n in range(400)]
    found = read_conversations(json.dumps([*trunk, row("x", "r399"), row("y", "r399")]).encode())
    assert [len(c.entries) for c in found] == [401, 401]
    leaves = [row(f"x{n}", "r399") for n in range(400)]
    with pytest.raises(InputError, match="too many branches"):
        read_conversations(json.dumps([*trunk, *leaves]).encode())


@pytest.mark.parametrize(
    "items",
    [
        [{"type": "item_reference", "id": "msg_9"}, CALL],
        [{"type": "compaction", "encrypted_content": "x"}, said("go on")],
    ],
)
def test_what_is_only_referred_to_is_missing(items):
    assert read(items).missing_context()


def test_a_reference_to_what_is_given_is_nothing():
    conversation = read([said("1.", id="msg_1"), {"type": "item_reference", "id": "msg_1"}, CALL])
    assert len(conversation.entries) == 2 and not conversation.warnings


def test_a_stored_prompt_is_missing_unless_the_response_tells_it():
    request = {"model": "m", "prompt": {"id": "pmpt_1"}, "input": "Hm?"}
    assert read({"request": request, "response": answer(said("a"))}).missing_context()
    told = read({"request": request, "response": answer(said("a"), instructions="Be kind.")})
    assert told.missing_context() is None and told.entries[0].role == "system"


def test_stored_items_stand_once_and_oldest_first():
    stored = {"object": "list", "data": [said("1.", id="m2"), {"type": "message", **asked_item("One?")}]}
    assert lines(stored) == ["[1] message user: One?", "[2] message assistant: 1."]
    assert [w.code for w in read(stored).warnings] == ["order_reversed"]
    added = {"type": "message", **asked_item("One?")}
    pair = {"request": {"items": [added]}, "response": {"object": "list", "data": [{"id": "m1", **added}]}}
    assert lines(pair) == ["[1] message user: One?"]
    assert read({**stored, "has_more": True}).missing_context()


def events(*, whole):
    opened = {"type": "response.created", "response": answer(status="in_progress")}
    item = {"type": "message", "role": "assistant", "content": []}
    found = [
        opened,
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Ni"},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "ne."},
        {"type": "response.output_item.added", "output_index": 1, "item": {**CALL, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"port":'},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": ' "Ems"}'},
    ]
    return (
        [*found, {"type": "response.completed", "response": answer(said("Nine."), CALL)}] if whole else found
    )


@pytest.mark.parametrize("whole", [True, False])
def test_streams(whole):
    text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events(whole=whole))
    rows = b"\n".join(json.dumps(e).encode() for e in events(whole=whole))
    cut = [] if whole else ["| [interrupted]"]
    spoken = ["message assistant: Nine.", *cut, 'tool_call tide (no result): {"port":"Ems"}']
    for value in (text.encode(), rows, events(whole=whole)):
        assert [line.split("] ", 1)[-1] if line[0] == "[" else line for line in lines(value)] == spoken
    pair = lines({"request": asked("When?"), "response": text})
    assert pair[:2] == ["[1] message user: When?", "[2] message assistant: Nine."]


def test_a_mixture_names_the_row_that_does_not_fit():
    rows = b"\n".join(
        json.dumps(row).encode() for row in [{"request": asked("a"), "response": answer(said("b"))}, {"x": 1}]
    )
    with pytest.raises(InputError, match="Line 2"):
        read_conversations(rows)


def test_an_error_and_a_host_that_tells_more():
    row = {"request": asked("a"), "response": {"error": {"message": "no key"}}, "status": 401}
    assert read({"interactions": [row]}).status_detail == "no key"
    told = read(
        {**asked("a"), "response": answer(said("b")), "status": "aborted", "feedback": [{"value": 1}]}
    )
    assert told.status == "cancelled" and told.entries[-1].value == 1

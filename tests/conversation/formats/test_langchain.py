"""LangChain messages in their three serialisations, and LangSmith runs."""

import json

import msgspec
import pytest
from conversation.formats.test_spans import told

from sandbox_judge.conversation.model import Feedback, Message, Reasoning, Text, ToolCall, ToolResult, Unknown
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError

CLASSES = {"system": "System", "human": "Human", "ai": "AI", "tool": "Tool", "function": "Function"}
CALL = {"name": "sow", "args": {"bed": 3, "seed": "rocket"}, "id": "call_1", "type": "tool_call"}
BROKEN = {"name": "sow", "args": '{"bed": ', "id": "call_2", "error": "cut", "type": "invalid_tool_call"}
MESSAGES = [
    {"type": "system", "content": "You keep a garden."},
    {"type": "human", "content": [{"type": "text", "text": "Sow rocket in bed three."}]},
    {"type": "ai", "content": "At once.", "tool_calls": [CALL], "invalid_tool_calls": [BROKEN]},
    {"type": "tool", "content": "sown", "tool_call_id": "call_1", "name": "sow"},
    {"type": "tool", "content": "no JSON", "tool_call_id": "call_2", "name": "sow", "status": "error"},
    {"type": "ai", "content": "Bed three is", "response_metadata": {"finish_reason": "length"}},
]
TOLD = [
    ("system", "You keep a garden."),
    ("user", "Sow rocket in bed three."),
    ("assistant", "At once."),
    ("call", "sow", {"bed": 3, "seed": "rocket"}),
    ("call", "sow", None),
    ("result", 4, "sown"),
    ("result", 5, "no JSON"),
    ("assistant", "Bed three is"),
]


def dumped(message):
    """What `model_dump` gives: every field, most of them empty."""
    empty = {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": None}
    return {**empty, **message}


def as_dict(message):
    return {"type": message["type"], "data": dumped(message)}


def constructed(message):
    held = {k: v for k, v in dumped(message).items() if v not in (None, {}, [])}
    name = f"{CLASSES[message['type']]}Message"
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": held}


FORMS = {"model_dump": dumped, "messages_to_dict": as_dict, "dumpd": constructed}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "wrap",
    [
        list,
        lambda ms: {"messages": ms},
        lambda ms: {"values": {"messages": ms}, "next": []},
        lambda ms: "\n".join(map(json.dumps, ms)).encode(),
    ],
    ids=["list", "state", "snapshot", "lines"],
)
def test_each_serialisation(form, wrap):
    conversation = read_conversation(wrap([FORMS[form](message) for message in MESSAGES]))
    assert conversation.source_format == "langchain"
    assert told(conversation) == TOLD
    results = [entry for entry in conversation.entries if isinstance(entry, ToolResult)]
    assert [result.status for result in results] == ["ok", "error"]
    assert conversation.entries[-1].parts[-1] == Unknown(label="truncated")
    broken = conversation.entries[4]
    assert isinstance(broken, ToolCall) and broken.args_text == '{"bed": '


def test_calls_that_stand_in_content_too_are_one():
    content = [
        {"type": "reasoning", "reasoning": "rocket likes shade"},
        {"type": "text", "text": "At once."},
        {"type": "tool_use", "id": "call_1", "name": "sow", "input": CALL["args"]},
        {"type": "image", "base64": "QUJD", "mime_type": "image/png"},
        {"type": "non_standard", "value": {"odd": 1}},
    ]
    extra = {"tool_calls": [{"id": "call_1", "function": {"name": "sow", "arguments": "{}"}}]}
    message = {"type": "ai", "content": content, "tool_calls": [CALL], "additional_kwargs": extra}
    conversation = read_conversation([dumped(MESSAGES[1]), dumped(message)])
    said = [entry for entry in conversation.entries if isinstance(entry, Message)]
    assert [type(entry).__name__ for entry in conversation.entries] == [
        "Message",
        "Message",
        "ToolCall",
        "Message",
    ]
    assert said[1].parts == (Reasoning(text="rocket likes shade"), Text(text="At once."))
    assert msgspec.to_builtins(said[2].parts)[0] == {
        "type": "media",
        "media": "image",
        "mime": "image/png",
        "bytes": 3,
    }
    assert [w.code for w in conversation.warnings] == ["unknown_part"]


def test_chat_roles_and_old_function_calls():
    rows = [
        {"type": "chat", "role": "referee", "content": "Play.", "additional_kwargs": {}},
        dumped(
            {
                "type": "ai",
                "content": "",
                "additional_kwargs": {"function_call": {"name": "f", "arguments": "{}"}},
            }
        ),
        dumped({"type": "function", "name": "f", "content": "9"}),
    ]
    conversation = read_conversation(rows)
    assert told(conversation) == [("user", "Play."), ("call", "f", {}), ("result", 2, "9")]
    assert conversation.entries[0].name == "referee"


def test_a_mixture_names_the_element():
    with pytest.raises(InputError, match="Element 2"):
        read_conversations([dumped(MESSAGES[1]), {"uuid": 4}])


def run(id, kind, start, end, *, parent=None, inputs=None, outputs=None, children=(), **others):
    return {
        "id": id,
        "name": others.pop("name", id),
        "run_type": kind,
        "trace_id": "r0",
        "parent_run_id": parent,
        "start_time": f"2026-05-03T10:00:{start:02}.000000",
        "end_time": f"2026-05-03T10:00:{end:02}.000000",
        "inputs": inputs or {},
        "outputs": outputs,
        "error": None,
        "extra": {"metadata": {"thread_id": "bed-3"}},
        "child_runs": list(children),
        **others,
    }


def tree(form):
    made = [FORMS[form](message) for message in MESSAGES]
    generation = [[{"text": "", "message": message}] for message in made]
    return run(
        "r0",
        "chain",
        0,
        30,
        inputs={"messages": made[:2]},
        outputs={"messages": made},
        children=[
            run(
                "m1",
                "llm",
                1,
                3,
                parent="r0",
                inputs={"messages": [made[:2]]},
                outputs={"generations": [generation[2]]},
            ),
            run(
                "t1",
                "tool",
                4,
                5,
                parent="r0",
                name="sow",
                inputs={"input": json.dumps(CALL["args"])},
                outputs={"output": made[3]},
            ),
            run(
                "m2",
                "llm",
                6,
                9,
                parent="r0",
                inputs={"messages": [made[:5]]},
                outputs={"generations": [generation[5]]},
            ),
        ],
        feedback=[
            {"key": "thumb", "score": 1, "comment": "neat", "feedback_source": {"type": "app"}},
            {"key": "judge", "score": 0, "feedback_source": {"type": "auto_eval"}},
        ],
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_tree_of_runs(form):
    conversation = read_conversation(tree(form))
    assert told(conversation)[:8] == TOLD
    assert (conversation.source_format, conversation.id) == ("langsmith", "bed-3")
    feedback = [entry for entry in conversation.entries if isinstance(entry, Feedback)]
    assert [(f.name, f.value, f.comments) for f in feedback] == [("thumb", 1, "neat")]
    assert len(conversation.entries) == 9


@pytest.mark.parametrize(
    "wrap", [list, lambda runs: {"runs": runs}, lambda runs: "\n".join(map(json.dumps, runs)).encode()]
)
def test_runs_in_a_flat_list(wrap):
    whole = tree("dumpd")
    children = whole.pop("child_runs")
    assert told(read_conversation(wrap([*reversed(children), whole])))[:8] == TOLD


def test_a_traced_openai_client_and_a_failed_run():
    given = {"model": "mock", "messages": [{"role": "user", "content": "Weed bed one."}]}
    answer = {
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}
        ]
    }
    conversation = read_conversation(run("r0", "llm", 0, 1, inputs=given, outputs=answer))
    assert told(conversation) == [("user", "Weed bed one."), ("assistant", "Done.")]
    conversation = read_conversation(
        run("r0", "llm", 0, 1, inputs=given, error="RateLimitError('slow down')")
    )
    assert told(conversation) == [("user", "Weed bed one.")]
    assert (conversation.status, conversation.status_detail) == ("failed", "RateLimitError('slow down')")


def test_prompts_as_text_are_used_only_where_no_messages_stand():
    whole = tree("dumpd")
    for child in whole["child_runs"]:
        if child["run_type"] == "llm":
            child["inputs"] = {"prompts": ["System: You keep a garden.\nHuman: Sow rocket in bed three."]}
    conversation = read_conversation(whole)
    assert told(conversation)[:8] == TOLD
    assert [w.code for w in conversation.warnings if w.code == "prompt_text"] == ["prompt_text"] * 2
    alone = whole["child_runs"][0]
    assert told(read_conversation(alone))[:3] == TOLD[:3]

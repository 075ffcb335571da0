"""The grading core for other prompts: messages of the caller's, sheets of answers, turns with tools."""

import json

import anyio
import pytest
import trio.testing

from sandbox_judge.grading.grade import Graded, Progress, ask, turn
from sandbox_judge.grading.instruments import YES_NO, criterion
from sandbox_judge.grading.reply import Answered, Read, read_answer, read_object
from sandbox_judge.lanes.base import Endpoint, ModelFailure, Reply, ToolUse, Wire
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import Llm, Transport
from sandbox_judge.testing.scripted import Say, ScriptedModel

TOOLS = ({"type": "function", "function": {"name": "look"}},)
GOOD = '{"reasoning": "There.", "evidence": [{"entry": 1, "quote": "seen"}], "answer": "yes"}'
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
MESSAGES = ({"role": "user", "content": [{"type": "text", "text": "Is it there?"}, PICTURE]},)


def virtually(story):
    return anyio.run(
        story, backend="trio", backend_options={"clock": trio.testing.MockClock(autojump_threshold=0)}
    )


def asked(script, *, budget=10.0, what=ask, **options):
    lane = ScriptedModel(script)

    async def story():
        now = anyio.current_time()
        return await what(
            model=lane,
            llm=Llm(model="m", transport=Transport(max_retries=1)),
            endpoint=Endpoint(),
            messages=MESSAGES,
            deadline=now + budget,
            progress=Progress(zero=now),
            **options,
        )

    return virtually(story), lane


def test_the_callers_messages_go_out_as_they_are():
    grading, lane = asked([GOOD], view_text="it was seen", instrument=YES_NO)
    assert isinstance(grading.outcome, Graded)
    assert grading.outcome.answer == "yes"
    assert grading.outcome.evidence[0].verified
    assert grading.outcome.value == json.loads(GOOD)
    assert lane.calls[0].messages == MESSAGES
    assert lane.calls[0].schema == YES_NO.schema()
    assert lane.calls[0].tools == ()


def test_a_blank_reply_to_parts_is_repaired_with_a_part():
    grading, lane = asked(["", GOOD], view_text="", instrument=YES_NO)
    assert grading.repaired
    assert isinstance(grading.outcome, Graded)
    content = lane.calls[1].messages[-1]["content"]
    assert content[:2] == MESSAGES[0]["content"]
    assert "could not be read" in content[2]["text"]


def test_no_time_costs_no_call():
    grading, lane = asked([], budget=0.0, view_text="", instrument=YES_NO)
    assert grading.outcome.type == "budget_exhausted"
    null, _ = asked([], budget=0.0, what=turn, tools=TOOLS)
    assert null.type == "budget_exhausted"
    assert not lane.calls


def test_a_turn_has_tools_and_no_schema_and_comes_back_as_it_came():
    calls = (ToolUse(id="1", name="look", arguments="{}"),)
    reply = Reply(wire=Wire(lane="openai_wire"), tool_calls=calls, finish="tool_calls")
    got, lane = asked([ModelFailure("connection", "reset"), reply], what=turn, tools=TOOLS)
    assert got == reply
    assert len(lane.calls) == 2  # retried as a judge's call is
    assert lane.calls[1].tools == TOOLS
    assert lane.calls[1].schema is None
    null, _ = asked([Say(text="x", delay_s=99.0)] * 2, what=turn, tools=TOOLS)
    assert null.type == "timeout"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"reasoning": "r", "score": 4}, 4),
        ({"reasoning": "r", "score": 4.0}, 4),
        ({"reasoning": "r", "score": 4.5}, "out_of_vocabulary"),
        ({"reasoning": "r", "score": "4"}, "out_of_vocabulary"),
        ({"reasoning": " ", "score": 4}, "malformed_output"),
        ({"score": 4}, "malformed_output"),
        ({"reasoning": "r"}, "malformed_output"),
        ({}, "malformed_output"),
    ],
)
def test_one_object_is_read_as_a_reply_is(value, read):
    instrument = criterion(name="A", five="5", three="3", one="1")
    found = read_object(value, instrument=instrument)
    assert (found.answer if isinstance(found, Read) else found.type) == read
    reply = Reply(wire=Wire(lane="openai_wire"), text=json.dumps(value), finish="stop")
    whole = read_answer(reply, instrument=instrument, view_text="")
    assert (whole.read == found) if isinstance(whole, Answered) else isinstance(found, Invalid)

"""Writes `conversations/platform_ferry.json` and `trajectory_ferry.json` with the platform SDK's models."""

import json
from pathlib import Path

from introspection_sdk.schemas.genai_span import GenAiSpanList
from introspection_sdk.schemas.trajectory import (
    TrajectoryAssistantRecord,
    TrajectoryMetaRecord,
    TrajectoryReasoningRecord,
    TrajectoryRecord,
    TrajectoryToolCall,
    TrajectoryToolRecord,
    TrajectoryUserRecord,
)
from pydantic import TypeAdapter

CORPUS = Path(__file__).parent.parent / "conversations"


def at(second):
    return f"2026-03-01T08:00:{second:02d}Z"


def text(said):
    return {"type": "text", "content": said}


def span(second, agent, given, said, operation="chat", status=None, **gen_ai):
    attributes = {
        "operation": {"name": operation},
        "conversation": {"id": "ferry"},
        "agent": {"name": agent},
        "input": {"messages": given},
        "output": {"messages": said},
        **gen_ai,
    }
    return {
        "trace_id": "t",
        "span_id": str(second),
        "start_time": at(second),
        "end_time": at(second + 1),
        "status": status or {"code": "Ok"},
        "attributes": {"gen_ai": attributes},
    }


def tool(id, name, **args):
    return {"name": name, "call": {"id": id, "arguments": json.dumps(args)}}


CALL = {"type": "tool_call", "id": "f1", "name": "timetable", "arguments": {"pier": "east"}}
IMAGE = {"type": "binary", "content": "QUJD", "media_type": "image/png"}
USER = {"role": "user", "parts": [text("Is there a ferry?"), IMAGE]}
THOUGHT = {"type": "thinking", "content": "timetable"}
ASKED = {
    "role": "assistant",
    "parts": [THOUGHT, text("Asking the pier."), CALL],
    "finish_reason": "tool_calls",
}
SENT_BACK = {"role": "assistant", "parts": [text("Asking the pier."), CALL]}
ANSWER = {
    "role": "tool",
    "parts": [{"type": "tool_call_response", "id": "f1", "response": {"error": "closed"}}],
}
CUT = {"role": "assistant", "parts": [text("The east pier is cl")], "finish_reason": "length"}
TOLD = [text("You sell tickets.")]
PILOT = {
    "role": "assistant",
    "parts": [{"type": "compaction", "content": "Calm so far."}, {"type": "chart", "sheet": 4}],
}
SPANS = [
    # Newest first, as lists may come; the last call's input repeats the history.
    span(9, "harbour", [USER, SENT_BACK, ANSWER], [CUT], system_instructions=TOLD),
    span(1, "harbour", [USER], [ASKED], system_instructions=TOLD),
    span(
        2,
        "harbour",
        [],
        [],
        "execute_tool",
        {"code": "Error", "message": "crossed out"},
        tool=tool("f1", "timetable", pier="east"),
    ),
    span(3, "pilot", [{"role": "user", "parts": [text("Wind?")]}], [PILOT]),
    span(5, "pilot", [], [], "execute_tool", tool=tool("h", "horn", times=2)),
]
CALLS = [
    TrajectoryToolCall(id="a", name="timetable", args='{"pier": "east"}'),
    TrajectoryToolCall(id="b", name="shout", args='{"_raw": "ahoy"}'),
]
RECORDS = [
    TrajectoryMetaRecord(source="introspection", model="m"),
    TrajectoryUserRecord(content="Is there a ferry?", timestamp=at(1)),
    TrajectoryReasoningRecord(content="timetable", timestamp=at(2)),
    TrajectoryAssistantRecord(content="Asking.", timestamp=at(3)),
    TrajectoryAssistantRecord(content=None, timestamp=at(3), tool_calls=CALLS),
    TrajectoryToolRecord(tool_call_id="b", content="", timestamp=at(4), ok=True),
    TrajectoryToolRecord(tool_call_id="a", content="closed", timestamp=at(5), ok=False),
    TrajectoryAssistantRecord(content="No ferry today.", timestamp=at(6)),
]
PAGE = GenAiSpanList.model_validate({"data": SPANS})
for name, dumped in (
    ("platform_ferry.json", PAGE.model_dump_json()),
    ("trajectory_ferry.json", TypeAdapter(list[TrajectoryRecord]).dump_json(RECORDS)),
):
    (CORPUS / name).write_text(json.dumps(json.loads(dumped), indent=1) + "\n")

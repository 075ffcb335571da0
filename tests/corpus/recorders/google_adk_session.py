"""Writes `conversations/google_adk_bistro.json` with ADK's own models (`pip install google-adk`)."""

from pathlib import Path

from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types


def event(author, role, *parts, **more):
    content = types.Content(role=role, parts=list(parts))
    return Event(author=author, invocation_id="i1", content=content, **more)


def call(id, name, **args):
    return types.Part(function_call=types.FunctionCall(id=id, name=name, args=args))


def answer(id, name, **response):
    return types.Part(function_response=types.FunctionResponse(id=id, name=name, response=response))


def text(said, **more):
    return types.Part(text=said, **more)


IMAGE = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG1234"))
EVENTS = [
    event("user", "user", text("Book a table for two."), IMAGE),
    event("host", "model", text("Let me"), partial=True),
    event(
        "host",
        "model",
        text("thinking hard", thought=True),
        text("Let me ask the kitchen."),
        call("c1", "transfer_to_agent", agent_name="kitchen"),
    ),
    event(
        "host",
        "user",
        answer("c1", "transfer_to_agent", result=None),
        actions=EventActions(transfer_to_agent="kitchen"),
    ),
    event("kitchen", "model", call("c2", "find_table", seats=2), call("c3", "find_table", seats=4)),
    event(
        "kitchen",
        "user",
        answer("c3", "find_table", error="none of that size"),
        answer("c2", "find_table", table=7),
    ),
    event("kitchen", "model", text("Table 7 is yours."), finish_reason=types.FinishReason.MAX_TOKENS),
    Event(author="kitchen", invocation_id="i1", error_code="503", error_message="overloaded"),
]
session = Session(id="s-9", app_name="bistro", user_id="u", events=EVENTS)
Path("google_adk_bistro.json").write_text(session.model_dump_json(by_alias=True, exclude_none=True))

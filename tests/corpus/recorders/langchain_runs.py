"""Records `langchain_ferry.json` (messages) and `langsmith_ferry.json` (a run with its children) with
langchain-core and its scripted model. Tracebacks and `serialized` are taken out before the files are kept."""

import json
from pathlib import Path

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def call(id, to):
    return {"name": "sailings", "args": {"to": to, "seats": 2}, "id": id, "type": "tool_call"}


def messages():
    broken = {
        "name": "sailings",
        "args": '{"to": ',
        "id": "call_f2",
        "error": "cut",
        "type": "invalid_tool_call",
    }
    return [
        SystemMessage("You book ferries."),
        HumanMessage([{"type": "text", "text": "Two seats to Ouessant, please."}, PICTURE]),
        AIMessage(
            content=[
                {"type": "reasoning", "reasoning": "Need the timetable."},
                {"type": "text", "text": "I look at the sailings."},
            ],
            tool_calls=[call("call_f1", "Ouessant")],
            invalid_tool_calls=[broken],
            response_metadata={"finish_reason": "tool_calls"},
        ),
        ToolMessage("09:15 and 17:00", tool_call_id="call_f1", name="sailings"),
        ToolMessage("Arguments are no JSON", tool_call_id="call_f2", name="sailings", status="error"),
        AIMessage("There is room at 09:15 and", response_metadata={"finish_reason": "length"}),
    ]


@tool
def sailings(to: str, seats: int) -> str:
    """Sailings."""
    if to == "Atlantis":
        raise ValueError("no such port")
    return "09:15 and 17:00"


def traced_run():
    calls = [call("call_f1", "Ouessant"), call("call_f2", "Atlantis")]
    answers = [AIMessage("I look at the sailings.", tool_calls=calls), AIMessage("There is room at 09:15.")]
    model = GenericFakeChatModel(messages=iter(answers))

    def agent(given, config: RunnableConfig):
        history = list(given["messages"])
        while True:
            answer = model.invoke(history, config)
            history.append(answer)
            if not answer.tool_calls:
                return {"messages": history}
            for wanted in answer.tool_calls:
                try:
                    history.append(sailings.invoke(wanted, config))
                except ValueError as error:
                    failed = {"tool_call_id": wanted["id"], "name": wanted["name"], "status": "error"}
                    history.append(ToolMessage(str(error), **failed))

    collector = RunCollectorCallbackHandler()
    asked = [
        SystemMessage("You book ferries."),
        HumanMessage("Two seats to Ouessant and to Atlantis, please."),
    ]
    config = {"callbacks": [collector], "metadata": {"thread_id": "ferry-7"}}
    RunnableLambda(agent).with_config(run_name="ferry agent").invoke({"messages": asked}, config=config)
    return collector.traced_runs[0]


def as_dict(run):
    held = run.model_dump(exclude={"child_runs", "parent_run", "serialized"})
    return {**held, "child_runs": [as_dict(child) for child in run.child_runs]}


def as_json(value):
    return dumpd(value) if isinstance(value, BaseMessage) else str(value)


if __name__ == "__main__":
    recorded = {"langchain_ferry": messages_to_dict(messages()), "langsmith_ferry": as_dict(traced_run())}
    for name, value in recorded.items():
        Path(f"{name}.json").write_text(json.dumps(value, indent=1, default=as_json) + "\n")

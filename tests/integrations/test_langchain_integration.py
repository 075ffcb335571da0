"""LangChain and LangGraph themselves, offline, with their own fake model."""

import json

import pytest
from hosts.host_stage import Stage

from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer

core = pytest.importorskip("langchain_core")


@pytest.fixture
def stage(tmp_path, monkeypatch):
    with ModelServer(verdict("pass")) as model:
        stage = Stage(tmp_path, model.base_url)
        stage.model = model
        monkeypatch.setenv("SANDBOX_JUDGE_STATE_DIR", str(stage.state))
        yield stage


def fake(*texts):
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    return GenericFakeChatModel(messages=iter(AIMessage(content=text) for text in texts))


def test_a_chain_is_judged_at_its_end(stage):
    from langchain_core.prompts import ChatPromptTemplate

    from sandbox_judge.integrations.langchain import JudgeHandler

    handler = JudgeHandler(environ=stage.environ)
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("user", "{x}")])
    (prompt | fake("hi from chain")).invoke({"x": "hello there"}, config={"callbacks": [handler]})
    assert handler.flush()
    (event,) = stage.events()
    assert event["payload"]["result"] == "pass"
    view = json.dumps(stage.model.requests[-1].json)
    assert "hello there" in view and "hi from chain" in view and "Be brief." in view


def test_a_graphs_thread_is_one_conversation(stage):
    graphs = pytest.importorskip("langgraph.graph")
    from langgraph.checkpoint.memory import InMemorySaver

    from sandbox_judge.integrations.langchain import JudgeHandler

    model = fake("first answer", "second answer")
    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("talk", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(graphs.START, "talk")
    app = graph.compile(checkpointer=InMemorySaver())
    handler = JudgeHandler(environ=stage.environ)
    config = {"callbacks": [handler], "configurable": {"thread_id": "t1"}}
    app.invoke({"messages": [("user", "one")]}, config=config)
    assert handler.flush()
    stage.events()
    app.invoke({"messages": [("user", "two")]}, config=config)
    assert handler.flush()
    events = stage.events(at_least=2)
    assert {event["conversation_id"] for event in events} == {"t1"}
    view = json.dumps(stage.model.requests[-1].json)
    assert view.count("first answer") == 1 and "second answer" in view


def test_a_chain_that_fails_is_judged_as_failed(stage):
    from langchain_core.runnables import RunnableLambda

    from sandbox_judge.integrations.langchain import JudgeHandler

    def broken(_):
        raise ValueError("tool broke")

    handler = JudgeHandler(environ=stage.environ)
    with pytest.raises(ValueError, match="tool broke"):
        (fake("said before") | RunnableLambda(broken)).invoke("hello", config={"callbacks": [handler]})
    assert handler.flush()
    stage.events()
    view = json.dumps(stage.model.requests[-1].json)
    assert "said before" in view and "failed" in view

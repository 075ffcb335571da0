"""The OpenAI Agents SDK itself, offline: its own models over HTTP to a scripted server."""

import asyncio
import json

import pytest
from hosts.host_stage import Stage

from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer

agents = pytest.importorskip("agents")
openai = pytest.importorskip("openai")


@pytest.fixture
def stage(tmp_path):
    with ModelServer(verdict("pass")) as model:
        stage = Stage(tmp_path, model.base_url)
        stage.model = model
        yield stage


def test_a_run_is_judged_when_its_trace_ends(stage, monkeypatch):
    from sandbox_judge.integrations.openai_agents import JudgeProcessor

    monkeypatch.setenv("SANDBOX_JUDGE_STATE_DIR", str(stage.state))
    processor = JudgeProcessor(environ=stage.environ)
    agents.set_trace_processors([processor])

    async def main():
        async with openai.AsyncOpenAI(base_url=stage.model.base_url, api_key="sk-none") as client:
            model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
            agent = agents.Agent(name="helper", instructions="Be brief.", model=model)
            with agents.trace("talk", group_id="thread-1"):
                return await agents.Runner.run(agent, "Say hello")

    result = asyncio.run(main())
    assert result.final_output
    processor.force_flush()
    (event,) = stage.events()
    assert (event["conversation_id"], event["payload"]["result"]) == ("thread-1", "pass")
    view = json.dumps(stage.model.requests[-1].json)
    assert "Say hello" in view


def test_response_spans_are_a_request_with_its_response(stage, monkeypatch):
    from sandbox_judge.integrations.openai_agents import JudgeProcessor

    monkeypatch.setenv("SANDBOX_JUDGE_STATE_DIR", str(stage.state))
    processor = JudgeProcessor(environ=stage.environ)
    agents.set_trace_processors([processor])
    from openai.types.responses import Response

    response = Response.model_validate(
        {"id": "r1", "object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": False,
         "tool_choice": "auto", "tools": [], "status": "completed",
         "output": [{"type": "message", "id": "m1", "role": "assistant", "status": "completed",
                     "content": [{"type": "output_text", "text": "hi from responses", "annotations": []}]}]}
    )  # fmt: skip
    with agents.trace("talk") as trace, agents.tracing.response_span() as span:
        span.span_data.input = [{"role": "user", "content": "hello there"}]
        span.span_data.response = response
    processor.force_flush()
    (event,) = stage.events()
    assert event["conversation_id"] == trace.trace_id
    view = json.dumps(stage.model.requests[-1].json)
    assert "hello there" in view and "hi from responses" in view

"""The wire lane under every fault that an endpoint can stage, and what it sends."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from lane_calls import KEY, a_call

from sandbox_judge.lanes.base import Endpoint, ModelFailure, Reply
from sandbox_judge.lanes.http import HttpClient
from sandbox_judge.lanes.openai_wire import OpenAiWire
from sandbox_judge.testing import answers
from sandbox_judge.testing.model_server import ModelServer

pytestmark = pytest.mark.anyio

Ask = Callable[..., Any]
WHOLE = json.dumps(answers.chat_body('{"reasoning": "r", "verdict": "pass"}')).encode()
VERDICT = '{"reasoning": "r", "verdict": "pass"}'

FAULTS = {
    "reset": (answers.reset, "connection"),
    "end of connection": (answers.hang_up, "connection"),
    "reset amid the body": (answers.reset_amid_body, "connection"),
    "body shorter than said": (answers.wrong_length(WHOLE, said=len(WHOLE) + 9), "connection"),
    "body longer than said": (answers.wrong_length(WHOLE, said=20), "provider_error"),
    "silence": (answers.hang, "timeout"),
    "headers, then silence": (answers.headers_then_silence, "timeout"),
    "one byte a second": (answers.dripped(WHOLE, every_s=1.0), "timeout"),
    "a stream without end": (answers.endless, "timeout"),
    "a page": (answers.html(), "provider_error"),
    "a gateway's page": (answers.html(502), "provider_error"),
    "half the JSON": (answers.truncated(WHOLE), "provider_error"),
    "300 MB": (answers.huge(), "provider_error"),
    "a gzip bomb": (answers.gzip_bomb(), "provider_error"),
    "a redirect loop": (answers.redirect("/v1/chat/completions"), "provider_error"),
    "no choices": (answers.as_json({"choices": []}), "provider_error"),
    "an empty body": (answers.raw(b""), "provider_error"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_faults(fault: str, ask: Ask) -> None:
    answer, expected = FAULTS[fault]
    with ModelServer(answer) as server:
        start = time.monotonic()
        made = await ask(server.base_url, budget=0.4 if expected == "timeout" else 20)
        assert isinstance(made, ModelFailure)
        assert made.type == expected, made.message
        assert time.monotonic() - start < (0.9 if expected == "timeout" else 10)
        assert made.wire is not None and made.wire.lane == "openai_wire"
        assert len(server.requests) == (4 if "loop" in fault else 1)
        assert "canary" not in made.message


@pytest.mark.parametrize("retry_after", [None, "7", "Fri, 15 Jan 2100 08:00:30 GMT", "whenever"])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "auth"),
        (403, "auth"),
        (404, "model_not_found"),
        (408, "timeout"),
        (409, "bad_request"),
        (413, "context_overflow"),
        (422, "bad_request"),
        (429, "rate_limited"),
        (500, "provider_error"),
        (502, "provider_error"),
        (503, "provider_error"),
        (529, "provider_error"),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_statuses(status: int, expected: str, retry_after: str | None, ask: Ask) -> None:
    with ModelServer(answers.error(status, f"key {KEY} no", retry_after=retry_after)) as server:
        made = await ask(server.base_url)
        assert isinstance(made, ModelFailure) and made.type == expected
        assert "canary" not in made.message and str(status) in made.message
        if expected != "auth":
            assert (made.retry_after_s is None) == (retry_after in (None, "whenever"))
            assert made.retry_after_s == 7.0 or retry_after != "7"
        assert len(server.requests) == 1


async def test_a_hung_handshake(ask: Ask) -> None:
    with ModelServer(answers.verdict(), silent=True) as server:
        made = await ask(server.base_url.replace("http:", "https:"), budget=0.3)
        assert isinstance(made, ModelFailure) and made.type == "timeout"


async def test_a_redirect_to_another_host_carries_no_key(ask: Ask) -> None:
    with ModelServer(answers.verdict()) as other, ModelServer(answers.redirect(f"{other.url}/v1")) as server:
        made = await ask(server.base_url)
        assert isinstance(made, ModelFailure)
        assert (made.type, made.retryable) == ("provider_error", False)
        assert other.requests == []


async def test_a_deadline_that_has_passed_makes_no_request(ask: Ask) -> None:
    with ModelServer(answers.verdict()) as server:
        made = await ask(server.base_url, budget=-1)
        assert isinstance(made, ModelFailure) and made.type == "timeout"
        assert server.requests == []


async def test_a_reply_and_what_was_asked(ask: Ask) -> None:
    with ModelServer(answers.chat(VERDICT, gzip=True)) as server:
        made = await ask(server.base_url, reasoning_effort="low")
        assert isinstance(made, Reply)
        assert (made.text, made.finish, made.response_model) == (VERDICT, "stop", "scripted-1")
        assert made.usage is not None and (made.usage.input_tokens, made.usage.output_tokens) == (11, 7)
        request = server.requests[0]
        assert request.target == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert set(request.json) == {
            *("model", "messages", "temperature", "max_tokens", "reasoning_effort", "response_format")
        }
        assert request.json["response_format"]["json_schema"]["strict"] is True
        assert made.wire.sent == {
            "temperature": 0.0,
            "max_tokens": 64,
            "reasoning_effort": "low",
            "response_format": "json_schema",
        }


async def test_a_base_url_may_end_in_a_slash_and_a_key_in_a_newline() -> None:
    with ModelServer(answers.verdict()) as server:
        lane = OpenAiWire(HttpClient({}))
        endpoint = Endpoint(base_url=server.base_url + "/", api_key=KEY + "\n")
        await lane.complete(a_call(endpoint=endpoint), deadline=anyio.current_time() + 5)
        await lane.complete(
            a_call(endpoint=Endpoint(base_url=server.base_url)), deadline=anyio.current_time() + 5
        )
        await lane.aclose()
        assert server.requests[0].target == "/v1/chat/completions"
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert "authorization" not in server.requests[1].headers


async def test_text_that_utf8_cannot_hold_goes_out_replaced(ask: Ask) -> None:
    with ModelServer(answers.verdict()) as server:
        made = await ask(server.base_url, messages=({"role": "user", "content": "a\ud800b\u202e\x00"},))
        assert isinstance(made, Reply)
        assert server.requests[0].json["messages"][0]["content"] == "a\ufffdb\u202e\x00"


async def test_tools_go_out_and_tool_calls_come_back(ask: Ask) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    with ModelServer(answers.chat(None, finish="tool_calls", message={"tool_calls": [call]})) as server:
        made = await ask(server.base_url, schema=None, tools=(tool,))
        assert isinstance(made, Reply)
        assert [use.name for use in made.tool_calls] == ["f"]
        assert made.wire.output_mode == "text"
        assert server.requests[0].json["tools"] == [tool]


async def test_refused_parameters_are_left_out_one_by_one_and_told(ask: Ask) -> None:
    names = ("temperature", "max_tokens", "max_completion_tokens", "reasoning_effort", "response_format")
    with ModelServer(answers.refusing(answers.verdict(), *names), by_request=True) as server:
        made = await ask(server.base_url, temperature_authored=True, reasoning_effort="low")
        assert isinstance(made, Reply)
        assert made.wire.dropped == ("temperature", "max_tokens", "reasoning_effort", "response_format")
        assert (made.wire.output_mode, made.wire.sent) == ("text", {})
        assert made.wire.requests == len(server.requests) == 7
        assert set(server.requests[-1].json) == {"model", "messages"}


async def test_a_refusal_that_does_not_end_does(ask: Ask) -> None:
    said = answers.error(400, "Unsupported parameter: 'temperature'", param="temperature")
    with ModelServer(said) as server:
        made = await ask(server.base_url)
        assert isinstance(made, ModelFailure) and made.type == "bad_request"
        assert len(server.requests) == 2
        assert made.wire is not None and made.wire.dropped == ("temperature",)


async def test_each_drop_is_within_the_same_deadline(ask: Ask) -> None:
    refused = answers.error(400, "no temperature", param="temperature", delay_s=0.2)
    with ModelServer([refused, answers.verdict(delay_s=0.3)]) as server:
        made = await ask(server.base_url, budget=0.4)
        assert isinstance(made, ModelFailure) and made.type == "timeout"
        assert made.wire is not None and (made.wire.requests, made.wire.dropped) == (2, ("temperature",))


async def test_cancelling_leaves_no_thread_and_no_connection() -> None:
    threads = set(threading.enumerate())
    with ModelServer(answers.hang) as server:
        before = set(threading.enumerate()) - threads
        lane = OpenAiWire(HttpClient({}))
        call = a_call(endpoint=Endpoint(base_url=server.base_url, api_key=KEY))
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(lambda: lane.complete(call, deadline=anyio.current_time() + 9))
            await anyio.sleep(0.1)
            group.cancel_scope.cancel()
        await lane.aclose()
        ours = set(threading.enumerate()) - threads - before
        assert all(thread.name == "scripted model" for thread in ours)


# --- the recorded cases of replies: what the lane makes of each, for the reader of replies to judge

MODES: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "ok": (answers.chat(VERDICT), lambda r: r.text == VERDICT and r.finish == "stop"),
    "hang": (answers.hang, lambda r: r.type == "timeout"),
    "drip": (answers.dripped(WHOLE), lambda r: r.type == "timeout"),
    "r429": (
        answers.error(429, retry_after="7"),
        lambda r: r.type == "rate_limited" and r.retry_after_s == 7,
    ),
    "r500": (answers.error(500), lambda r: r.type == "provider_error" and r.retryable is None),
    "r400": (answers.error(400), lambda r: r.type == "bad_request"),
    "r401": (answers.error(401, f"no {KEY}"), lambda r: r.type == "auth" and "no sk" not in r.message),
    "html502": (answers.html(502), lambda r: r.type == "provider_error"),
    "html200": (answers.html(), lambda r: r.type == "provider_error"),
    "ctx": (answers.error(400, code="context_length_exceeded"), lambda r: r.type == "context_overflow"),
    "filter": (answers.chat(None, finish="content_filter"), lambda r: r.finish == "content_filter"),
    "length": (answers.chat("", finish="length"), lambda r: (r.text, r.finish) == ("", "length")),
    "refusal": (answers.chat(None, message={"refusal": "No."}), lambda r: r.refusal == "No."),
    "tools": (
        answers.chat(
            None, finish="tool_calls", message={"tool_calls": [{"function": {"name": "f", "arguments": ""}}]}
        ),
        lambda r: not r.text and len(r.tool_calls) == 1,
    ),
    "reason": (answers.chat("", message={"reasoning_content": "m"}), lambda r: not r.text and r.reasoning),
    "think": (answers.chat(f"<think>x</think>{VERDICT}"), lambda r: r.text.endswith(VERDICT)),
    "nochoices": (answers.as_json({"choices": []}), lambda r: r.type == "provider_error"),
    "parts": (
        answers.chat([{"type": "text", "text": VERDICT[:9]}, {"type": "text", "text": VERDICT[9:]}]),
        lambda r: r.text == VERDICT,
    ),
    "numfinish": (answers.chat(VERDICT, finish=None), lambda r: r.text == VERDICT and r.finish is None),
}


@pytest.mark.parametrize("mode", MODES)
async def test_server_modes(mode: str, ask: Ask) -> None:
    answer, right = MODES[mode]
    with ModelServer(answer) as server:
        made = await ask(server.base_url, budget=0.4 if mode in ("hang", "drip") else 5)
        assert right(made), made
        assert len(server.requests) == 1


def test_every_recorded_server_mode_is_staged(shared: Any) -> None:
    rows = json.loads((shared / "cases" / "llm_responses.json").read_text())
    assert {row["server_mode"] for row in rows} <= set(MODES)

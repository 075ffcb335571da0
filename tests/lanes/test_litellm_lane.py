"""The litellm lane, observed once in a child process (`litellm_child.py`) and checked from many sides."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lane_calls import KEY

pytestmark = pytest.mark.cold_litellm
VERDICT = '{"reasoning": "r", "verdict": "pass"}'
PROVIDERS = ("anthropic", "gemini", "mistral", "groq", "openai")


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the child saw, with its stdout, stderr and time. A `.env` lies in its working directory, and keys
    of other endpoints in its environment."""
    folder = tmp_path_factory.mktemp("litellm")
    (folder / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:9/env\nCANARY_FROM_DOTENV=1\n")
    environ = {k: v for k, v in os.environ.items() if "PROXY" not in k.upper() and "LITELLM" not in k}
    environ |= {"MISTRAL_API_KEY": "sk-ambient-canary", "LITELLM_LOG": "DEBUG"}
    start = time.monotonic()
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("litellm_child.py")), str(folder / "seen.json")],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        env=environ,
    )
    assert run.returncode == 0, run.stderr[-3_000:]
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return {**seen, "stdout": run.stdout, "stderr": run.stderr, "total": time.monotonic() - start}


def test_nothing_goes_to_stdout(child: dict[str, Any]) -> None:
    assert child["stdout"] == ""


def test_no_key_is_written_anywhere(child: dict[str, Any]) -> None:
    assert "canary" not in child["stderr"]
    messages = [seen["message"] for seen in child.values() if isinstance(seen, dict) and "message" in seen]
    assert len(messages) > 40
    assert not [message for message in messages if "canary" in message]


def test_no_host_but_the_endpoints_is_looked_up(child: dict[str, Any]) -> None:
    assert child["resolved"] == []
    # Counting tokens, which litellm does where usage is left out, needs a vocabulary: the one it ships.
    assert child["resolved later"] == []
    assert child["no usage"]["text"] == VERDICT


def test_a_base_url_of_the_environment_is_never_used(child: dict[str, Any]) -> None:
    assert child["trapped"] == 0
    for provider in ("anthropic", "gemini", "mistral", "openai", "together-ai", "xai"):
        assert child[f"own {provider}"]["type"] in ("connection", "provider_error"), provider
        assert child[f"own {provider}"]["served"] == 0
    known = {"api.anthropic.com", "generativelanguage.googleapis.com", "api.mistral.ai", "api.openai.com"}
    assert known <= set(child["resolved elsewhere"])


def test_dotenv_is_not_read_and_the_environment_is_put_back(child: dict[str, Any]) -> None:
    assert child["environment"] == []


def test_its_log_is_silent(child: dict[str, Any]) -> None:
    assert set(child["log handlers"]) == {"NullHandler"}
    assert child["log propagates"] is False
    assert "LiteLLM" not in child["stderr"]


def test_no_thread_is_left(child: dict[str, Any]) -> None:
    assert child["threads"] == []


def test_a_deadline_during_the_import_holds(child: dict[str, Any]) -> None:
    seen = child["while importing"]
    assert seen["type"] == "timeout" and "imported" in seen["message"]
    assert seen["seconds"] < 3  # the import holds the interpreter for up to a second at a time


@pytest.mark.parametrize("name", ["first", "anthropic", "gemini", "mistral", "groq", "hyphen", "no key"])
def test_verdicts(name: str, child: dict[str, Any]) -> None:
    seen = child[name]
    assert json.loads(seen["text"]) == json.loads(VERDICT)
    assert seen["finish"] == "stop"
    assert (seen["lane"], seen["mode"], seen["requests"], seen["served"]) == ("litellm", "schema", 1, 1)
    assert seen["usage"] == [11, 7]
    assert seen["model"] == "scripted-1"


def test_each_providers_own_schema_field_is_used(child: dict[str, Any]) -> None:
    assert child["anthropic"]["bodies"][0]["output_format"]["type"] == "json_schema"
    assert child["anthropic"]["targets"] == ["/v1/messages"]
    assert child["anthropic by tool"]["bodies"][0]["tools"][0]["name"] == "json_tool_call"
    assert json.loads(child["anthropic by tool"]["text"]) == json.loads(VERDICT)
    generation = child["gemini"]["bodies"][0]["generationConfig"]
    assert "response_json_schema" in generation or "responseJsonSchema" in generation
    assert child["gemini"]["targets"][0].startswith("/v1beta/models/gemini-2.5-flash:generateContent")
    assert child["mistral"]["bodies"][0]["response_format"]["type"] == "json_schema"


def test_the_ambient_key_of_the_environment_is_not_used(child: dict[str, Any]) -> None:
    assert child["no key"]["served"] == 1
    assert "ambient" not in json.dumps(child)


REPLIES: dict[str, dict[str, Any]] = {
    "anthropic refusal": {"text": "I cannot.", "finish": "content_filter"},
    "anthropic length": {"text": "half", "finish": "length"},
    "gemini safety": {"text": None, "finish": "content_filter"},
    "parts": {"text": VERDICT, "finish": "stop"},
    "parts mistral": {"text": VERDICT, "finish": "stop"},
    "numfinish": {"text": VERDICT, "finish": None},
    "refusal": {"text": None, "refusal": "No."},
    "tools": {"text": None, "tools": ["f"], "finish": "tool_calls"},
    "reason": {"text": "", "reasoning": True},
    "length": {"text": "", "finish": "length"},
    "filter": {"text": None, "finish": "content_filter"},
    "think": {"finish": "stop"},
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies(name: str, child: dict[str, Any]) -> None:
    seen = child[name]
    assert {key: seen.get(key) for key in REPLIES[name]} == REPLIES[name]
    assert seen["served"] == 1


def test_a_think_block_never_hides_the_verdict(child: dict[str, Any]) -> None:
    assert child["think"]["text"].endswith(VERDICT)


FAILURES = {
    "nochoices": "provider_error",
    "429": "rate_limited",
    "529": "provider_error",
    "401": "auth",
    "403": "auth",
    "404": "model_not_found",
    "413": "context_overflow",
    "too long": "context_overflow",
    "400": "bad_request",
    "gemini key": "auth",
    "gemini 503": "provider_error",
    "openai 500": "provider_error",
    "openai 401": "auth",
    "html502": "provider_error",
    "reset anthropic": "connection",
    "reset openai": "connection",
    "reset amid the body anthropic": "connection",
    "reset amid the body openai": "connection",
    "shorter anthropic": "connection",
    "shorter openai": "connection",
    "html200 anthropic": "provider_error",
    "html200 openai": "provider_error",
    "truncated anthropic": "provider_error",
    "truncated openai": "provider_error",
    "huge anthropic": "provider_error",
    "huge openai": "provider_error",
    "bomb anthropic": "provider_error",
    "bomb openai": "provider_error",
    "hang": "timeout",
    "silence": "timeout",
    "drip": "timeout",
    "endless": "timeout",
    "hung handshake": "timeout",
    "refused": "connection",
    "redirect loop": "provider_error",
    "unknown provider": "bad_request",
    **{f"redirect {provider}": "provider_error" for provider in PROVIDERS},
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures(name: str, child: dict[str, Any]) -> None:
    seen = child[name]
    assert seen["type"] == FAILURES[name], seen
    assert seen["seconds"] < (1.0 if FAILURES[name] == "timeout" else 8.0)
    assert seen["served"] <= 1, "its own retries are off"
    assert KEY not in seen["message"] and len(seen["message"]) < 400


def test_no_redirect_takes_the_key_along(child: dict[str, Any]) -> None:
    assert child["redirected"] == 0
    assert all(child[f"redirect {provider}"]["retryable"] is False for provider in PROVIDERS)


def test_what_the_server_asks_to_wait_is_told(child: dict[str, Any]) -> None:
    assert child["429"]["retry_after"] == 7.0


def test_an_authored_parameter_that_is_refused_is_dropped_told_and_remembered(child: dict[str, Any]) -> None:
    seen = child["drop"]
    assert (seen["dropped"], seen["requests"], seen["served"]) == (["temperature"], 2, 2)
    assert "temperature" not in seen["sent"] and "temperature" not in seen["bodies"][1]
    # Another port is another endpoint: nothing is known of it.
    assert child["drop remembered"]["dropped"] == []


def test_the_ladder_of_output_modes(child: dict[str, Any]) -> None:
    seen = child["ladder"]
    assert (seen["mode"], seen["text"]) == ("text", VERDICT)
    assert seen["dropped"] == ["response_format"]


def test_what_litellm_itself_refuses_costs_no_request(child: dict[str, Any]) -> None:
    assert child["luna authored"]["dropped"] == ["temperature"]
    assert (child["luna authored"]["served"], child["luna authored"]["requests"]) == (1, 1)
    assert child["luna default"]["dropped"] == []


def test_an_unknown_provider_is_told_the_way_out(child: dict[str, Any]) -> None:
    assert child["unknown provider"]["served"] == 0
    assert "openai_wire" in child["unknown provider"]["message"]


def test_calls_run_side_by_side_and_end_when_cancelled(child: dict[str, Any]) -> None:
    assert child["five together"] < 1.2
    assert all(child[f"together {number}"]["text"] == VERDICT for number in range(5))
    assert child["cancelled"] is True


def test_the_recorded_modes_are_all_here(shared: Path) -> None:
    rows = json.loads((shared / "cases" / "llm_responses.json").read_text())
    as_named = {"refusal", "parts", "numfinish", "think", "tools", "reason", "length", "filter"}
    as_named |= {"hang", "drip", "html502", "nochoices"}
    assert as_named <= {*REPLIES, *FAILURES}
    otherwise = {"ok": "first", "r429": "429", "r500": "openai 500", "r400": "400", "r401": "openai 401"}
    otherwise |= {"ctx": "too long", "html200": "html200 openai"}
    assert {row["server_mode"] for row in rows} <= as_named | set(otherwise)

"""`simple-judge` as a user meets it."""

import json

import pytest
from surfaces import run_main

from sandbox_judge.testing.answers import chat
from sandbox_judge.testing.model_server import ModelServer


def reply(key, value):
    return chat(json.dumps({"reasoning": "Read it.", "evidence": [], key: value}))


@pytest.fixture
def run(tmp_path):
    environ = {
        "KEY": "sk-canary-0123456789",
        "SANDBOX_JUDGE_STATE_DIR": str(tmp_path / "state"),
        "SANDBOX_JUDGE_CONFIG_DIR": str(tmp_path / "config"),
    }

    def run(server, *words, **options):
        return run_main("simple-judge", "--base-url", server.base_url, "--api-key-env", "KEY", *words,
                        environ=environ, cwd=tmp_path, **options)  # fmt: skip

    return run


def test_flags(run):
    with ModelServer(reply("label", "good")) as server:
        done = run(server, "--item", "a", "--item", "b", "--instruction", "Rate it", "--model", "m",
                   "--categories", "good, bad", "--no-raw")  # fmt: skip
    assert done.code == 0
    assert json.loads(done.out) == {
        "average_score": None,
        "results": [{"label": "good", "explanation": "Read it."}] * 2,
    }
    assert done.err == ""


def test_a_step_configuration_from_a_file_or_stdin(run, tmp_path):
    step = {"activity": "simple_judge", "items": ["a", "b"], "instruction": "Rate it", "model": "gpt-4o",
            "judge_type": "scale", "scale_range": [1, 10]}  # fmt: skip
    (tmp_path / "step.json").write_text(json.dumps(step))
    with ModelServer(reply("score", 7)) as server:
        done = run(server, "--config", "step.json", "-o", "text")
        assert done.out == "1. 7  Read it.\n2. 7  Read it.\naverage 7\n"
        done = run(server, "--config", "-", "--scale-range", "1-7", stdin=json.dumps(step).encode())
    assert json.loads(done.out)["average_score"] == 7.0
    assert server.requests[0].json["model"] == "gpt-4o"


def test_errors_stand_on_their_items(run):
    with ModelServer(reply("score", 99)) as server:
        done = run(server, "--item", "a", "--item-file", "none.png", "--instruction", "x", "--model", "m",
                   "--judge-type", "scale", "--fail-on", "null")  # fmt: skip
    assert done.code == 4
    whole = json.loads(done.out)
    assert whole["average_score"] is None
    assert [one["error"]["type"] for one in whole["results"]] == ["out_of_vocabulary", "missing_context"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--item", "a"],
        ["--item", "a", "--instruction", "x"],
        ["--item", "a", "--instruction", "x", "--model", "m", "--scale-range", "x"],
        ["--item", "a", "--instruction", "x", "--model", "m", "--categories", "one"],
        ["--config", "none.json", "--model", "m"],
        ["--item", "a", "--instruction", "x", "--instruction-file", "y", "--model", "m"],
        ["--item", "a", "--instruction", "x", "--model", "m", "--temperature", "9"],
    ],
)
def test_what_cannot_be_is_usage(run, words):
    with ModelServer(reply("score", 1)) as server:
        done = run(server, *words)
        assert (done.code, server.requests) == (2, [])
    assert done.out == ""

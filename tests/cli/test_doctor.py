"""`doctor`: what is at fault is named with its remedy, what is ready is said."""

import json
import socket

import pytest
from recipes import committed, judge_text
from surfaces import run_main

from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer


@pytest.fixture
def place(tmp_path):
    committed(tmp_path / "recipe", {"judges/a.yaml": judge_text("a"), "package.json": '{"name": "shop"}'})
    with ModelServer(verdict()) as server:
        settings = tmp_path / "settings.json"
        settings.write_text(json.dumps({"providers": {"openai": {"base_url": server.base_url}}}))
        yield tmp_path
        assert server.requests == []


def look(place, *more, **environ):
    base = {
        "SANDBOX_JUDGE_STATE_DIR": str(place / "state"),
        "SANDBOX_JUDGE_CONFIG_DIR": str(place / "config"),
        "OPENAI_API_KEY": "sk-canary-0123456789",
        **environ,
    }
    words = ["--recipe", "recipe", "--settings", "settings.json", "--insecure"]
    done = run_main("doctor", *words, *more, "-o", "json", environ=base, cwd=place)
    return done.code, json.loads(done.out)


def faults(findings):
    return [finding["told"] for finding in findings if finding["state"] == "fault"]


def test_all_is_ready(place):
    code, findings = look(place)
    assert (code, faults(findings)) == (0, [])
    told = " ".join(finding["told"] for finding in findings)
    assert "shop at" in told
    assert "answers (openai_wire)" in told
    assert "sk-canary" not in told


def test_a_missing_key_is_named(place):
    code, findings = look(place, OPENAI_API_KEY="")
    assert code == 1
    assert "OPENAI_API_KEY" in faults(findings)[0]


def test_an_endpoint_that_nobody_serves_is_named(place):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    (place / "settings.json").write_text(json.dumps({"providers": {"openai": {"base_url": url}}}))
    code, findings = look(place)
    assert code == 1
    assert url in faults(findings)[0]


def test_a_socket_without_a_collector_and_a_recipe_without_a_commit(place):
    code, findings = look(place, "--sink", "unix:nobody.sock", "--commit", "0" * 40)
    assert code == 1
    assert len(faults(findings)) == 2


def test_a_spool_that_others_can_write_is_a_fault(tmp_path):
    spool = tmp_path / "state" / "spool"
    spool.mkdir(parents=True)
    spool.chmod(0o777)
    done = run_main("doctor", environ={"SANDBOX_JUDGE_STATE_DIR": str(tmp_path / "state")}, cwd=tmp_path)
    assert done.code == 1
    assert "spool" in done.out

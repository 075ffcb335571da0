"""`grade` as a user meets it: tool calls over HTTP, the result outside the outputs, its caps."""

import json
import os
import shutil
from pathlib import Path

import pytest
from surfaces import run_main

from sandbox_judge.testing.answers import as_json, chat, chat_body
from sandbox_judge.testing.model_server import ModelServer

FIXTURE = Path(__file__).parent.parent.parent / "recipe_fixture" / "runbooks" / "expense-receipts"


def tool(name, **given):
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
    return as_json(chat_body(None, finish="tool_calls", message={"tool_calls": [call]}))


def final(accuracy=5):
    cell = {"reasoning": "Read.", "evidence": [{"entry": 2, "quote": "380.70 EUR"}], "score": accuracy}
    cells = {"accuracy": cell, "completeness": {**cell, "score": 5}, "clarity": {**cell, "score": 4}}
    return chat(json.dumps({"reasoning": "Went through all.", "scores": cells}))


SCRIPT = [
    tool("list_files"),
    tool("read_file", path="outputs/report.md"),
    tool("view_table", path="outputs/expenses.csv"),
    tool("read_file", path="sources/receipts.md"),
    final(),
]


@pytest.fixture
def grade(tmp_path):
    shutil.copytree(FIXTURE / "outputs" / "good", tmp_path / "outputs")
    (tmp_path / "outputs" / "link").symlink_to("/etc")
    os.mkfifo(tmp_path / "outputs" / "pipe")
    environ = {
        "KEY": "sk-canary-0123456789",
        "SANDBOX_JUDGE_STATE_DIR": str(tmp_path / "state"),
        "SANDBOX_JUDGE_CONFIG_DIR": str(tmp_path / "config"),
    }

    def grade(server, *words):
        return run_main("grade", FIXTURE / "RUNBOOK.md", "--outputs", "outputs", "--sources",
                        FIXTURE / "sources", "--model", "m", "--base-url", server.base_url,
                        "--api-key-env", "KEY", *words, environ=environ, cwd=tmp_path)  # fmt: skip

    return grade


def test_a_grading_with_tools(grade, tmp_path):
    (tmp_path / "v.json").write_text(
        '{"version": 2, "checks": [{"kind": "step", "id": "s", "status": "pass"}]}'
    )
    with ModelServer(SCRIPT) as server:
        done = grade(server, "--merge", "v.json")
        tools = [request.json.get("tools") for request in server.requests]
    assert done.code == 0, done.err
    assert all(len(one) == 4 for one in tools)
    assert server.requests[-1].json["messages"][-1]["role"] == "tool"
    result = json.loads((tmp_path / "grade.json").read_text())
    assert result["scores"] == {"accuracy": 5, "completeness": 5, "clarity": 4}
    assert (result["pass"], result["labels"]["eval.grade"]) == (True, "4.66")
    assert result["evidence"][0]["file"] == "outputs/report.md"
    assert result["evidence"][0]["line"] == 3
    listed = result["trajectory"][0]["tools"][0]["result"]
    assert "link: a symbolic link" in listed
    assert "pipe" in listed
    assert os.stat(tmp_path / "grade.json").st_mode & 0o077 == 0
    report = json.loads((tmp_path / "validation_report.json").read_text())
    assert report["verdict"] == "pass"
    assert {check.get("source") for check in report["checks"] if check["kind"] == "judge"} == {"grader"}
    merged = run_main("rubric", "report", "v.json", "--scores", "grade.json", cwd=tmp_path)
    assert (merged.code, "verdict: pass" in merged.out) == (0, True)


def test_a_hard_floor_and_fail_on(grade):
    with ModelServer([*SCRIPT[:2], final(accuracy=3)]) as server:
        done = grade(server, "--fail-on", "fail", "-o", "json")
    assert done.code == 1
    whole = json.loads(done.out)
    assert (whole["total"], whole["pass"], whole["below_floor"]) == (4.0, False, ["accuracy"])


def test_at_its_cap_it_asks_once_more_without_tools(grade):
    with ModelServer([*SCRIPT[:2], final()]) as server:
        done = grade(server, "--max-turns", "2")
        assert "tools" not in server.requests[2].json
    assert "stopped at a cap: 2 turns" in done.out
    with ModelServer([*SCRIPT[:2], chat("?"), chat("?")]) as server:
        done = grade(server, "--max-turns", "2", "--fail-on", "null")
    assert done.code == 4
    assert "agent_limit" in done.out


def test_the_result_stays_away_from_the_agent(grade, tmp_path):
    with ModelServer(SCRIPT) as server:
        for place in ("outputs/grade.json", "outputs/../outputs/g.json"):
            assert grade(server, "--to", place).code == 2
        assert server.requests == []
    assert not (tmp_path / "outputs" / "grade.json").exists()


def test_a_model_does_not_grade_its_own_work(grade, tmp_path):
    with ModelServer(SCRIPT) as server:
        done = grade(server, "--agent-model", "vendor/M")
        assert (done.code, server.requests) == (2, [])
        assert "--allow-same-model" in done.err
        assert grade(server, "--agent-model", "vendor/M", "--allow-same-model").code == 0
    assert json.loads((tmp_path / "grade.json").read_text())["same_model_allowed"] is True


def test_missing_outputs_and_senseless_caps_are_errors(grade, tmp_path):
    with ModelServer(SCRIPT) as server:
        assert grade(server, "--max-turns", "0").code == 2
        (tmp_path / "outputs" / "report.md").unlink()
        done = grade(server)
        assert (done.code, server.requests) == (2, [])
    assert "report.md" in done.err

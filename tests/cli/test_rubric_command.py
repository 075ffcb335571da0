"""`rubric` as a user meets it: the fixture runbook, a scripted model over HTTP, agents as processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from surfaces import run_main

from sandbox_judge.testing.answers import chat
from sandbox_judge.testing.model_server import ModelServer

FIXTURE = Path(__file__).parent.parent.parent / "recipe_fixture" / "runbooks" / "expense-receipts"
RUNBOOK = FIXTURE / "RUNBOOK.md"


def reply(score, *, delay_s=0.0, quote="Total"):
    body = {
        "reasoning": "Compared with the receipts.",
        "evidence": [{"entry": 2, "quote": quote}],
        "score": score,
    }
    return chat(json.dumps(body), delay_s=delay_s)


def knows_receipts(request):
    """A judge that adds up: what it answers depends on what it is shown, as an honest one's would."""
    text = request.json["messages"][-1]["content"]
    files, _, task = text.partition("TASK")
    if "rubric: Accuracy" in task:
        return reply(5 if "380.70 EUR" in files else 1)
    if "rubric: Completeness" in task:
        return reply(5 if "Lodging,Hotel" in files else 1)
    return reply(4)


@pytest.fixture
def place(tmp_path):
    return {
        "JUDGE_KEY": "sk-canary-0123456789abcdef",
        "SANDBOX_JUDGE_STATE_DIR": str(tmp_path / "state"),
        "SANDBOX_JUDGE_CONFIG_DIR": str(tmp_path / "config"),
        "PATH": os.environ["PATH"],
    }


def score(server, place, cwd, *more, outputs="good"):
    return run_main(
        "rubric", "score", RUNBOOK, "--outputs", FIXTURE / "outputs" / outputs, "--model", "m",
        "--base-url", server.base_url, "--api-key-env", "JUDGE_KEY", *more, environ=place, cwd=cwd,
    )  # fmt: skip


def test_check_shows_the_rubric_and_its_doubts(tmp_path):
    done = run_main("rubric", "check", RUNBOOK, cwd=tmp_path)
    assert done.code == 0
    assert "accuracy  (line 33, fails below 4)  Accuracy" in done.out
    assert "passes with an average of at least 4.0 (line 37)" in done.out
    whole = json.loads(run_main("rubric", "check", RUNBOOK, "-o", "json", cwd=tmp_path).out)
    assert whole["valid"]
    assert [one["threshold"] for one in whole["criteria"]] == [4, 3, 3]
    assert whole["declared_checks"][0]["id"] == "rows-add-up"
    strict = run_main("rubric", "check", RUNBOOK, "--param", "average=4.8", "-o", "json", cwd=tmp_path)
    assert json.loads(strict.out)["pass_threshold"] == 4.8


def test_check_fails_where_there_is_no_rubric(tmp_path):
    (tmp_path / "r.md").write_text("| Gate | Criterion |\n|-|-|\n| a | \x1b[31mb |\n")
    done = run_main("rubric", "check", "r.md", cwd=tmp_path)
    assert (done.code, "[rubric_missing]" in done.out, "\x1b" in done.out) == (1, True, False)
    assert run_main("rubric", "check", "none.md", cwd=tmp_path).code == 2
    assert run_main("rubric", "check", RUNBOOK, "--param", "x", cwd=tmp_path).code == 2


@pytest.mark.parametrize(
    ("outputs", "passed", "scores"),
    [
        ("good", True, {"accuracy": 5, "completeness": 5, "clarity": 4}),
        ("wrong-total", False, {"accuracy": 1, "completeness": 5, "clarity": 4}),
        ("missing-parts", False, {"accuracy": 1, "completeness": 1, "clarity": 4}),
    ],
)
def test_the_fixtures_outputs_are_told_apart(place, tmp_path, outputs, passed, scores):
    with ModelServer(knows_receipts, by_request=True) as server:
        done = score(server, place, tmp_path, "-o", "json", "--fail-on", "fail", outputs=outputs)
    assert done.code == (0 if passed else 1)
    whole = json.loads(done.out)
    assert (whole["pass"], whole["scores"], whole["calls"]) == (passed, scores, 3)
    assert "sk-canary" not in done.out + done.err


def test_scores_are_merged_into_a_report(place, tmp_path):
    report = tmp_path / "validation_report.json"
    own = {"kind": "judge", "id": "accuracy", "name": "Accuracy", "status": "pass", "score": 5}
    report.write_text(
        json.dumps({"version": 2, "checks": [own, {"kind": "step", "id": "s", "status": "pass"}]})
    )
    with ModelServer(knows_receipts, by_request=True) as server:
        done = score(server, place, tmp_path, "--report", report, outputs="wrong-total")
    assert done.code == 0
    whole = json.loads(report.read_text())
    assert (whole["verdict"], whole["output_files"]) == ("fail", ["expenses.csv", "report.md"])
    accuracy = next(check for check in whole["checks"] if check["id"] == "accuracy")
    assert (accuracy["score"], accuracy["threshold"]) == (1, 4)
    assert accuracy["self_scores"] == [{"score": 5}]


def test_five_criteria_cost_little_more_than_one_call(place, tmp_path):
    rows = "".join(f"| C{n} | a | b | c |\n" for n in range(5))
    book = tmp_path / "r.md"
    book.write_text(f"| Criterion | 5 | 3 | 1 |\n|-|-|-|-|\n{rows}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.md").write_text("x")
    with ModelServer(reply(5, delay_s=0.5)) as server:

        def took(path, *more):
            began = time.monotonic()
            done = run_main(
                "rubric", "score", path, "--outputs", "out", "--model", "m",
                "--base-url", server.base_url, "--api-key-env", "JUDGE_KEY", *more,
                environ=place, cwd=tmp_path,
            )  # fmt: skip
            assert done.code == 0
            return time.monotonic() - began

        one = tmp_path / "one.md"
        one.write_text("| Criterion | 5 | 3 | 1 |\n|-|-|-|-|\n| C | a | b | c |\n")
        single = min(took(one) for _ in range(2))
        five = min(took(book) for _ in range(2))
    assert five < single + 0.5  # far below five latencies; the benchmark has the finer figure


def test_missing_outputs_and_models_are_usage(place, tmp_path):
    (tmp_path / "empty").mkdir()
    with ModelServer(reply(5)) as server:
        done = score(server, place, tmp_path, outputs=tmp_path / "empty")
        assert (done.code, server.requests) == (2, [])
        assert "not a low score" in done.err
    for more in ([], ["--model", "m", "--base-url", "http://x"], ["--model", "m", "--repeats", "0"]):
        assert run_main("rubric", "score", RUNBOOK, "--outputs", FIXTURE / "outputs" / "good", *more,
                        environ=place, cwd=tmp_path).code == 2  # fmt: skip


def test_nulls_are_told_apart_from_fails(place, tmp_path):
    with ModelServer(chat("no idea")) as server:
        assert score(server, place, tmp_path).code == 0
        assert score(server, place, tmp_path, "--fail-on", "fail").code == 4
        done = score(server, place, tmp_path, "--one-call", "-v")
    assert "malformed_output" in done.out


def test_report_reads_merges_and_says_the_verdict(tmp_path):
    report = tmp_path / "v.json"
    report.write_text(json.dumps({"overall_passed": True, "stages": [{"name": "a", "passed": True}]}))
    assert run_main("rubric", "report", report, cwd=tmp_path).out.endswith("verdict: pass\n")
    scores = tmp_path / "s.json"
    criteria = [{"id": i, "score": s} for i, s in (("accuracy", 5), ("completeness", 3), ("clarity", "4"))]
    scores.write_text(json.dumps({"criteria": criteria}))
    done = run_main(
        "rubric", "report", report, "--runbook", RUNBOOK, "--scores", scores, "--write", cwd=tmp_path
    )
    assert done.code == 1
    whole = json.loads(report.read_text())
    statuses = {check["id"]: check["status"] for check in whole["checks"]}
    assert statuses["clarity"] == "error"
    assert statuses["rows-add-up"] == "skipped"
    assert (whole["overall_score"], whole["version"], whole["stages"][0]["name"]) == (4.0, 2, "a")
    schema = json.loads(run_main("rubric", "report", "--schema", cwd=tmp_path).out)
    jsonschema.Draft202012Validator(schema).validate(whole)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"criteria": [5]}', '{"criteria": [{"id": "a", "source": "x"}]}']
)
def test_scores_that_are_none_are_an_input_error(tmp_path, content):
    (tmp_path / "s.json").write_text(content)
    assert run_main("rubric", "report", "r.json", "--scores", "s.json", cwd=tmp_path).code == 2
    assert run_main("rubric", "report", "r.json", cwd=tmp_path).code == 2
    assert run_main("rubric", "report", cwd=tmp_path).code == 2


AGENT = """
import json, os, pathlib, shutil
round, results = int(os.environ["RUBRIC_ROUND"]), pathlib.Path(os.environ["RESULTS_DIR"])
for path in (pathlib.Path(__file__).parent / ("bad" if round == 1 else "good")).iterdir():
    shutil.copy(path, results)
checks = [{"kind": "judge", "id": i, "name": i, "status": "pass", "score": 5, "message": "superb"}
          for i in ("accuracy", "completeness", "clarity")]
whole = {"version": 2, "verdict": "pass", "checks": checks}
(results / "validation_report.json").write_text(json.dumps(whole))
(results / "keys.txt").write_text(" ".join(sorted(os.environ)))
"""


@pytest.fixture
def agent(tmp_path):
    shutil.copytree(FIXTURE / "outputs" / "wrong-total", tmp_path / "bad")
    shutil.copytree(FIXTURE / "outputs" / "good", tmp_path / "good")
    (tmp_path / "agent.py").write_text(AGENT)
    return f"{sys.executable} {tmp_path / 'agent.py'}"


def test_loop_with_an_independent_judge(place, tmp_path, agent):
    with ModelServer(knows_receipts, by_request=True) as server:
        done = run_main("rubric", "loop", RUNBOOK, "--agent", agent, "--outputs", "res", "--judge", "m",
                        "--base-url", server.base_url, "--api-key-env", "JUDGE_KEY", "-o", "json",
                        environ=place, cwd=tmp_path)  # fmt: skip
    assert done.code == 0, done.err
    whole = json.loads(done.out)
    assert [one["scores"]["accuracy"] for one in whole["rounds"]] == [1, 5]
    assert (whole["kept"], whole["weak_points"]) == (2, [])
    report = json.loads((tmp_path / "res" / "validation_report.json").read_text())
    assert (report["verdict"], report["iterations"], report["overall_score"]) == (
        "pass",
        2,
        pytest.approx(14 / 3),
    )
    clarity = next(check for check in report["checks"] if check["id"] == "clarity")
    assert (clarity["score"], clarity["source"]) == (4, "judge")
    assert clarity["self_scores"] == [{"score": 5, "message": "superb"}]
    keys = (tmp_path / "res" / "keys.txt").read_text().split()
    assert "RESULTS_DIR" in keys
    assert not [key for key in keys if key.startswith(("JUDGE_", "SANDBOX_JUDGE_S"))]


def test_loop_by_the_agents_own_scores(place, tmp_path, agent):
    done = run_main(
        "rubric", "loop", RUNBOOK, "--agent", agent, "--outputs", "res", environ=place, cwd=tmp_path
    )
    assert done.code == 0
    assert "kept round 1 with an average of 5: pass" in done.out


def test_loop_where_nothing_is_scored_fails(place, tmp_path):
    done = run_main(
        "rubric", "loop", RUNBOOK, "--agent", "false", "--outputs", "res", environ=place, cwd=tmp_path
    )
    assert (done.code, done.out) == (1, "nothing was scored: fail\n")
    for words in (
        ["--agent", ""],
        ["--agent", "'"],
        ["--agent", "/no/such"],
        ["--agent", "true", "--rounds", "9"],
    ):
        assert (
            run_main("rubric", "loop", RUNBOOK, "--outputs", "res", *words, environ=place, cwd=tmp_path).code
            == 2
        )


def test_a_folder_that_holds_more_than_outputs_is_refused(place, tmp_path):
    (tmp_path / "mine.txt").write_text("keep me")
    for folder in (".", "..", str(tmp_path)):
        done = run_main(
            "rubric", "loop", RUNBOOK, "--agent", "true", "--outputs", folder, environ=place, cwd=tmp_path
        )
        assert (done.code, "more than outputs" in done.err) == (2, True)
    assert (tmp_path / "mine.txt").read_text() == "keep me"


def test_loop_tells_of_criteria_that_the_agent_left_out(place, tmp_path, agent):
    text = (
        (tmp_path / "agent.py")
        .read_text()
        .replace('("accuracy", "completeness", "clarity")', '("accuracy",)')
    )
    (tmp_path / "agent.py").write_text(text)
    done = run_main(
        "rubric", "loop", RUNBOOK, "--agent", agent, "--outputs", "res", environ=place, cwd=tmp_path
    )
    assert done.code == 1
    report = json.loads((tmp_path / "res" / "validation_report.json").read_text())
    assert report["verdict"] == "fail"
    assert [check["id"] for check in report["checks"] if check["kind"] == "judge"] == ["accuracy"]
    assert report["checks"][-1]["id"] == "every-criterion-is-scored"


def test_a_signal_ends_the_loop_and_the_agent(place, tmp_path):
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    (tmp_path / "sleeper.py").write_text(code)
    words = ["rubric", "loop", RUNBOOK, "--agent", f"{sys.executable} sleeper.py", "--outputs", "res"]
    loop = subprocess.Popen(
        [sys.executable, "-m", "sandbox_judge", *map(str, words)],
        env={**os.environ, **place}, cwd=tmp_path, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + 20
    while not (pid.exists() and pid.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    loop.send_signal(signal.SIGTERM)
    assert b"were killed" in loop.communicate(timeout=10)[1]
    assert loop.returncode == 143
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(pid.read_text()), 0)
            time.sleep(0.02)


@pytest.mark.parametrize(("command", "needs"), [("rubric", True), ("grade", True), ("simple-judge", False)])
def test_what_is_not_installed_is_told(tmp_path, command, needs):
    code = (
        "import importlib.util as u, sys\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'markdown_it' else real(name, *a)\n"
        f"sys.argv = ['sandbox-judge', {command!r}, '--help']\n"
        "from sandbox_judge.cli.main import console\n"
        "console()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == (2 if needs else 0)
    assert ("sandbox-judge[rubric]" in done.stderr) == needs

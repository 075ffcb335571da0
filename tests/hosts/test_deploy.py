"""The files under deploy/: as far as a machine without a cluster, a daemon and a workflow can hold them."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml
from hosts.host_stage import ROOT
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.hosts.summary import markdown

DEPLOY = ROOT / "deploy"
TALK = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


def step(stage, **more):
    talk = stage.folder / "talk.json"
    talk.write_text(json.dumps(TALK))
    environ = stage.environ | {"CONVERSATION": str(talk), "SANDBOX_JUDGE_COMMIT": stage.commit, **more}
    return subprocess.run(
        ["sh", str(DEPLOY / "github-actions/judge.sh"), "--insecure"],
        env=environ, cwd=stage.cwd, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_step_writes_the_jobs_summary(stage):
    summary = stage.folder / "summary.md"
    done = step(stage, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    assert "| j0 | ✅ pass |" in summary.read_text()


def test_the_step_fails_the_job_where_it_is_asked_to(stage):
    assert step(stage, FAIL_ON="fail").returncode == 0
    assert step(stage, FAIL_ON="null", BUDGET="0.001s").returncode == 4
    assert step(stage, BUDGET="0.001s").returncode == 0


def test_a_run_without_a_conversation_fails_nobody(stage):
    done = step(stage, CONVERSATION="/nowhere")
    assert done.returncode == 0
    assert "no conversation" in done.stderr


@given(st.text(max_size=80))
def test_nothing_in_an_event_is_markdown(text):
    event = {"event_name": "introspection.judgement", "payload": {"judge_name": text, "reasoning": text}}
    shown = markdown([json.dumps(event).encode()])
    assert shown.count("\n") == 5
    row = shown.splitlines()[4]
    assert row.replace("\\|", "").count("|") == 4
    assert "<" not in row.replace("\\<", "")


def test_lines_that_are_no_events_are_counted():
    shown = markdown([b"{", b"[]", b"", b'{"event_name": "sandbox_judge.ledger"}'])
    assert "No judge applied" in shown
    assert "2 lines are no events" in shown


@pytest.mark.parametrize("name", ["sandbox-judge.service", "agent.service"])
def test_systemd_takes_the_units(name, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    # The programs that the units start are not installed here: ones that are stand in for them.
    for unit in ("sandbox-judge.service", "agent.service"):
        text = (DEPLOY / "systemd" / unit).read_text()
        text = text.replace("/opt/sandbox-judge/bin/python", sys.executable).replace(
            "/opt/agent/bin/agent", "/bin/true"
        )
        (tmp_path / unit).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", name],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert name not in done.stderr


def test_every_command_in_deploy_is_one_of_ours():
    from sandbox_judge.cli.main import COMMANDS

    for path in DEPLOY.rglob("*"):
        if path.is_file():
            words = (
                path.read_text()
                .replace('", "', " ")
                .replace('",\n                      "', " ")
                .split("sandbox_judge ")[1:]
            )
            for rest in words:
                assert rest.split()[0].strip('"') in COMMANDS, path


def test_the_pod_is_a_native_sidecar_with_room_to_end_in():
    pod, settings = yaml.safe_load_all((DEPLOY / "kubernetes/agent-with-judge.yaml").read_text())
    judge = next(c for c in pod["spec"]["initContainers"] if c["name"] == "judge")
    assert judge["restartPolicy"] == "Always"
    assert "40" in judge["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["spec"]["terminationGracePeriodSeconds"] >= 80
    mounts = {v["name"] for v in pod["spec"]["volumes"]}
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= mounts
    agent = pod["spec"]["containers"][0]
    assert not any("KEY" in variable["name"] for variable in agent["env"])
    assert json.loads(settings["data"]["settings.json"])["version"] == 1
    yaml.safe_load((DEPLOY / "docker/compose.yaml").read_text())
    yaml.safe_load((DEPLOY / "github-actions/judge.yml").read_text())

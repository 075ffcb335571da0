"""What will not end by itself: a git that hangs, calls that do not let go, and budgets that are none.

Waits on the wire: test_faults_model.py. The arithmetic: tests/test_run.py, tests/grading/test_grade.py.
"""

import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from fault_bench import SLACK_S, TALK, Sandbox, TruthfulModel, hold_account, own_folder, side_by_side

STUBBORN = {
    "catches its cancellation and goes on": """
        while True:
            try:
                await anyio.sleep(30)
            except BaseException:
                pass
    """,
    "waits for a thread that cannot be abandoned": """
        await anyio.to_thread.run_sync(time.sleep, 30)
    """,
    "cleans up without end": """
        try:
            await anyio.sleep(30)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(30)
    """,
}
LAUNCHER = """
import sys, time
import anyio, anyio.to_thread
from sandbox_judge.cli import main
from sandbox_judge.lanes import openai_wire
async def stubborn(self, call, *, deadline):
{body}
openai_wire.OpenAiWire.complete = stubborn
sys.argv = ["sandbox-judge", *sys.argv[1:]]
main.console()
"""


@pytest.fixture
def sandbox():
    with TruthfulModel() as model, own_folder() as folder:
        made = Sandbox(folder, providers={"openai": {"base_url": model.server.base_url}})
        made.model = model
        yield made


def commands():
    for entry in Path("/proc").iterdir():
        try:
            yield (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue


def test_a_git_that_hangs_with_a_child_that_keeps_its_pipes_ends_with_the_budget(sandbox):
    git = sandbox.folder / "git"
    git.write_text("#!/bin/sh\nsleep 77.25 &\nexec sleep 77.25\n")
    git.chmod(0o755)
    sandbox.environ["SANDBOX_JUDGE_GIT"] = str(git)
    done = sandbox.run("--budget", "2s")
    assert done.code == 2
    assert done.seconds < 2 + SLACK_S
    assert "git" in done.err
    assert "Traceback" not in done.err
    time.sleep(0.1)
    assert not [text for text in commands() if b"77.25" in text]


def test_calls_that_do_not_let_go_hold_nobody_up(sandbox):
    def run(body):
        code = LAUNCHER.replace("{body}", body)
        return sandbox.run(argv=[sys.executable, "-I", "-c", code, *sandbox.argv("--budget", "3s")[4:]])

    for done in side_by_side(*[lambda body=body: run(body) for body in STUBBORN.values()]):
        hold_account(done, 3)
        assert done.results == {"timeout": 3}
        assert done.code == 0
        assert done.seconds < 3 + SLACK_S


@pytest.mark.parametrize("budget", ["0", "0ms", "10ms", "-1"])
def test_a_budget_of_nothing_is_a_null_each_and_no_call(sandbox, budget):
    done = sandbox.run(f"--budget={budget}")
    events = hold_account(done, 3)
    assert {event["conversation_id"] for event in events} == {f"sha256:{sha256(TALK.encode()).hexdigest()}"}
    assert done.results == {"budget_exhausted": 3}
    assert sandbox.model.server.requests == []


@pytest.mark.parametrize("budget", ["nan", "inf", "1e999", "soon", "99999999999d"])
def test_a_budget_that_is_none_is_refused_before_any_call(sandbox, budget):
    done = sandbox.run(f"--budget={budget}")
    assert done.code == 2, done.err
    assert done.events == []
    assert sandbox.model.server.requests == []


def test_a_hook_that_fires_twice_gives_one_judgement_id(sandbox):
    """The same conversation, twice: two events, and one identity to drop the second by."""
    runs = [sandbox.run("--conversation-id", "c"), sandbox.run("--conversation-id", "c")]
    ids = [{event["payload"]["judgement_id"] for event in run.events} for run in runs]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 3
    assert not {event["id"] for event in runs[0].events} & {event["id"] for event in runs[1].events}

"""The core of the integrations: never in the way, never raising, and what was handed over is judged."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from hosts.host_stage import Stage

from sandbox_judge.integrations.handing import Handing, quiet
from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer

TALK = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


@pytest.fixture
def stage(tmp_path):
    with ModelServer(verdict("pass")) as model:
        yield Stage(tmp_path, model.base_url)


def test_a_conversation_is_handed_over_and_judged(stage):
    handing = Handing(environ=stage.environ)
    handing.hand("c1", lambda: TALK)
    assert handing.flush()
    (event,) = stage.events()
    assert (event["conversation_id"], event["payload"]["result"]) == ("c1", "pass")
    assert oct(os.stat(stage.state / "transcripts/in-process").st_mode)[-3:] == "700"


def test_handing_over_waits_for_nothing(stage):
    gate = threading.Event()
    handing = Handing(environ=stage.environ | {"SANDBOX_JUDGE_SPOOL_ONLY": "1"})
    started = time.monotonic()
    handing.hand("slow", lambda: gate.wait(5) and TALK)
    for number in range(1_100):
        handing.hand(f"c{number}", lambda: TALK)
    assert time.monotonic() - started < 2
    assert not handing.flush(0.05)
    gate.set()
    assert "too many conversations wait" in stage.log()


def test_what_goes_wrong_is_one_line_and_the_next_is_judged(stage):
    handing = Handing(environ=stage.environ | {"SANDBOX_JUDGE_SPOOL_ONLY": "1"})
    handing.hand("bad", lambda: 1 / 0)
    handing.hand("good", lambda: TALK)
    assert handing.flush()
    assert "ZeroDivisionError" in stage.log()
    assert len(stage.jobs("job")) == 1


def test_under_a_judge_nothing_is_handed_over(stage):
    handing = Handing(environ=stage.environ | {"SANDBOX_JUDGE_ACTIVE": "1"})
    handing.hand("c1", lambda: TALK)
    assert not stage.state.exists()


def test_a_quiet_callback_never_raises(tmp_path, monkeypatch):
    monkeypatch.setenv("SANDBOX_JUDGE_STATE_DIR", str(tmp_path))

    @quiet
    def callback(value: object) -> None:
        raise ValueError(value)

    callback("oh")
    assert "ValueError: oh" in (tmp_path / "hooks.log").read_text()


def test_a_process_that_exits_at_once_loses_nothing(stage):
    code = (
        "from sandbox_judge.integrations.handing import Handing\n"
        f"Handing().hand('c1', lambda: {json.dumps(TALK)})\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code], env=stage.environ, check=True, timeout=30)
    assert stage.events()[0]["conversation_id"] == "c1"

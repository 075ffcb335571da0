"""The hook as a process: signals, closed descriptors, hostile folders, and what it imports."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recipes import committed, judge_text

from sandbox_judge.testing.answers import hang, verdict
from sandbox_judge.testing.collector import Behaviour, Collector
from sandbox_judge.testing.model_server import ModelServer

ROOT = Path(__file__).parent.parent.parent
TALK = json.dumps([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
KEY = "sk-canary-0123456789abcdef"
# Each is far too slow, or far too talkative, for the plain hook.
HEAVY = {
    "litellm", "httpx", "pydantic", "openai", "requests", "sqlalchemy", "scipy", "numpy", "sklearn", "rich",
    "aiohttp", "xllamacpp", "jsonschema", "platformdirs", "introspection_recipe_check",
}  # fmt: skip


class Hook:
    def __init__(self, folder, url, judges=3):
        self.folder = folder
        self.recipe = folder / "recipe"
        self.commit = committed(
            self.recipe, {f"judges/j{n}.yaml": judge_text(f"j{n}") for n in range(judges)}
        )
        self.settings = folder / "settings.json"
        self.settings.write_text(json.dumps({"providers": {"openai": {"base_url": url}}}))
        self.work = folder / "work"
        self.work.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "OPENAI_API_KEY": KEY,
            "SANDBOX_JUDGE_STATE_DIR": str(folder / "state"),
        }

    def argv(self, *more):
        return [
            sys.executable, "-I", "-m", "sandbox_judge", "run", "--recipe", str(self.recipe), "--commit",
            self.commit, "--settings", str(self.settings), "--insecure", "--environment", "development",
            "--recipe-id", "shop", *more,
        ]  # fmt: skip

    def start(self, *more, argv=None, **options):
        settings = {
            "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
            "env": self.environ, "cwd": self.work, **options,
        }  # fmt: skip
        return subprocess.Popen(argv or self.argv(*more), **settings)

    def run(self, *more, talk=TALK, **options):
        child = self.start(*more, **options)
        out, err = child.communicate(talk.encode(), timeout=60)
        return child.returncode, out, err.decode() if err else ""


@pytest.fixture
def server():
    with ModelServer(verdict("pass")) as model:
        yield model


@pytest.fixture
def hook(tmp_path, server):
    return Hook(tmp_path, server.base_url)


def results(out):
    return [json.loads(line)["payload"]["result"] for line in out.splitlines()]


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def catches(pid, number):
    """Whether a process has a handler for a signal (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("SigCgt:")[2].split()[0], 16) >> number - 1 & 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_the_deadline_now(tmp_path, number):
    with ModelServer(hang) as server:
        hook = Hook(tmp_path, server.base_url)
        child = hook.start("--concurrency", "2")
        child.stdin.write(TALK.encode())
        child.stdin.close()
        wait_for(lambda: len(server.requests) == 2)
        sent = time.monotonic()
        child.send_signal(number)
        out = child.stdout.read()
        code = child.wait(10)
        took = time.monotonic() - sent
        err = child.stderr.read().decode()
        child.stdout.close()
        child.stderr.close()
    assert code == 128 + number, err
    assert [json.loads(line)["payload"]["error"]["type"] for line in out.splitlines()] == ["cancelled"] * 3
    assert took < 0.5
    assert "Traceback" not in err


def test_a_signal_while_stdin_is_still_open(tmp_path, server):
    hook = Hook(tmp_path, server.base_url)
    child = hook.start()
    wait_for(lambda: catches(child.pid, signal.SIGTERM))
    child.send_signal(signal.SIGTERM)
    child.stdin.close()
    assert child.wait(5) == 143
    assert child.stdout.read() == b""
    assert b"Traceback" not in child.stderr.read()
    child.stdout.close()
    child.stderr.close()


def test_stdin_that_never_closes_is_read_as_far_as_it_came(hook):
    child = hook.start()
    child.stdin.write(TALK.encode())
    child.stdin.flush()
    out = child.stdout.read()
    assert child.wait(10) == 0
    for stream in (child.stdin, child.stdout, child.stderr):
        stream.close()
    assert results(out) == ["pass"] * 3


def test_a_reader_that_goes_away_is_one_line_and_exit_3(hook):
    child = hook.start()
    child.stdout.close()
    child.stdin.write(TALK.encode())
    child.stdin.close()
    err = child.stderr.read().decode()
    child.stderr.close()
    assert child.wait(20) == 3
    assert "Traceback" not in err
    assert "stdout" in err


def test_a_full_disk_behind_stdout_is_exit_3(hook):
    with open("/dev/full", "wb") as full:
        code, _, err = hook.run(stdout=full)
    assert code == 3
    assert "No space left" in err


def test_stdout_closed_at_start_does_not_write_into_another_file(hook):
    argv = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *hook.argv()]
    code, out, err = hook.run(argv=argv)
    assert code == 3
    assert out == b""
    assert "stdout is closed" in err


def test_the_shim_is_deaf_to_what_the_agent_left_behind(hook, server):
    trap = f"import os; open({str(hook.folder / 'RAN')!r}, 'w').close(); raise SystemExit('trapped')"
    for name in ("sitecustomize", "usercustomize", "sandbox_judge", "yaml", "anyio", "json", "structlog"):
        (hook.work / f"{name}.py").write_text(trap)
    (hook.work / ".env").write_text(
        "OPENAI_API_BASE=http://127.0.0.1:9/\nOPENAI_BASE_URL=http://127.0.0.1:9/\n"
    )
    hook.environ |= {
        "SANDBOX_JUDGE_PYTHON": sys.executable,
        "PYTHONPATH": str(hook.work),
        "PYTHONSTARTUP": str(hook.work / "yaml.py"),
        "PYTHONHOME": str(hook.work),
        "PYTHONINSPECT": "1",
        "GIT_DIR": str(hook.work),
        "GIT_EXEC_PATH": str(hook.work),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {hook.folder}/RAN",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/",
    }
    shim = [str(ROOT / "hooks" / "post-completion"), *hook.argv()[5:], "--no-fallback"]
    if "--no-fallback" not in (ROOT / "hooks" / "post-completion").read_text():
        shim.pop()
    code, out, err = hook.run(argv=shim)
    assert code == 0, err
    assert results(out) == ["pass"] * 3
    assert not (hook.folder / "RAN").exists()
    assert len(server.requests) == 3


def imported(argv, environ, cwd):
    """The modules that a command had imported when it ended."""
    code = (
        "import sys, os\n"
        "from sandbox_judge.cli.main import main\n"
        "from sandbox_judge.cli.surface import process_surface\n"
        "code = main(sys.argv[1:], process_surface())\n"
        "sys.stderr.write('\\nMODULES ' + ' '.join(sys.modules)); sys.stderr.flush(); os._exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *argv],
        env=environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        input=TALK,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rpartition("MODULES ")[2].split())


def test_nothing_heavy_is_imported_on_the_hooks_path(hook):
    modules = imported(hook.argv()[4:], hook.environ, hook.work)
    assert "sandbox_judge.lanes.openai_wire" in modules
    assert not HEAVY & {name.partition(".")[0] for name in modules}


def test_where_nothing_applies_no_client_is_imported(hook):
    (hook.recipe / "judges/j0.yaml").write_text(judge_text("j0", on="  - event: tool\n"))
    for n in (1, 2):
        (hook.recipe / f"judges/j{n}.yaml").unlink()
    hook.commit = committed(hook.recipe, {})
    modules = imported(hook.argv()[4:], hook.environ, hook.work)
    assert (
        not {"sandbox_judge.lanes.openai_wire", "sandbox_judge.lanes.http", "h11", "httpcore", "structlog"}
        & modules
    )
    assert not HEAVY & {name.partition(".")[0] for name in modules}


def test_events_wait_in_the_spool_until_a_collector_is_there(hook):
    address = f"unix+ack:{hook.folder}/collector.sock"
    code, out, err = hook.run("--sink", address, "--sink", "stdout", "--budget", "3s")
    assert code == 3
    assert results(out) == ["pass"] * 3
    assert "flush" in err
    with Collector(hook.folder / "collector.sock", Behaviour(acks="each")) as collector:
        flush = [sys.executable, "-I", "-m", "sandbox_judge", "flush"]
        done = subprocess.run(flush, env=hook.environ, cwd=hook.work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [
        event["event_name"]
        for event in map(json.loads, b"".join(map(bytes, collector.received)).splitlines())
    ]
    assert sorted(names) == ["introspection.judgement"] * 3 + ["sandbox_judge.ledger"]


def test_a_signal_at_any_moment_of_the_start_is_answered(hook):
    for wait_s in (0.05, 0.1, 0.2):
        child = hook.start()
        child.stdin.write(TALK.encode())
        child.stdin.close()
        time.sleep(wait_s)
        child.send_signal(signal.SIGTERM)
        out, err = child.stdout.read(), child.stderr.read()
        code = child.wait(20)
        child.stdout.close()
        child.stderr.close()
        # Before our first line runs, the signal finds Python itself.
        assert code in ((143, -signal.SIGTERM) if wait_s < 0.1 else (143, 0)), err
        assert len(out.splitlines()) in (0, 3)
        assert b"Traceback" not in err

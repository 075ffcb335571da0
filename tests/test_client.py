"""The thin client as a process: events out, within the budget, never paid twice."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from recipes import committed

from sandbox_judge.call_options import Fault, Options, seconds
from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer

PYTHON = [sys.executable, "-I", "-m", "sandbox_judge"]
HOOK = Path(__file__).parent.parent / "hooks" / "post-completion"
TALK = json.dumps(
    [{"role": "user", "content": "A refund, please"}, {"role": "assistant", "content": "Done."}]
).encode()
JUDGE = """\
name: {name}
instructions: Judge by {name}.
llm:
  model: m
  local: {{base_url: "{url}", api_key_env: JUDGE_TEST_KEY}}
"""


class Place:
    """A recipe, a model's endpoint and an environment; servers are started by `serve`."""

    def __init__(self, folder, endpoint):
        folder.chmod(0o700)
        self.folder, self.endpoint = folder, endpoint
        self.servers = []
        (folder / "recipe").mkdir()
        names = ("a", "b")
        self.commit = committed(
            folder / "recipe",
            {f"judges/{n}.yaml": JUDGE.format(name=n, url=endpoint.base_url) for n in names},
        )
        self.socket = folder / "s"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "JUDGE_TEST_KEY": "k",
            "SANDBOX_JUDGE_RECIPE": str(folder / "recipe"),
            "SANDBOX_JUDGE_COMMIT": self.commit,
            "SANDBOX_JUDGE_RECIPE_ID": "shop",
            "SANDBOX_JUDGE_ENVIRONMENT": "development",
        }

    def serve(self, *more):
        server = subprocess.Popen(
            [*PYTHON, "serve", "--listen", str(self.socket), *more],
            env=self.environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.servers.append(server)
        line = server.stderr.readline()
        assert "ready" in line, line + server.stderr.read()
        return server

    def close(self):
        """Ends what a failed test left."""
        for server in self.servers:
            server.kill()
            server.wait()
            server.stderr.close()

    def call(self, *more, data=TALK, environ=None, command=None):
        return subprocess.run(
            [*(command or [*PYTHON, "call", str(self.socket)]), *more],
            input=data,
            capture_output=True,
            env={**self.environ, **(environ or {})},
            timeout=30,
        )


@pytest.fixture
def place(tmp_path):
    with ModelServer(verdict("pass")) as endpoint:
        here = Place(tmp_path, endpoint)
        yield here
        here.close()


@pytest.fixture
def served(place):
    server = place.serve()
    yield place
    server.send_signal(signal.SIGCONT)
    server.terminate()
    assert server.wait(10) in (0, 143)
    server.stderr.close()


def events(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_served_call_prints_events_alone(served, tmp_path):
    done = served.call("--conversation-id", "c-7", "--report-file", str(tmp_path / "ledger"), "--fail-on=any")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert [e["event_name"] for e in events(done)] == ["introspection.judgement"] * 2
    assert {(e["conversation_id"], e["environment"]) for e in events(done)} == {("c-7", "development")}
    assert json.loads((tmp_path / "ledger").read_bytes())["counts"] == {"verdict": 2}
    assert len(served.endpoint.requests) == 2
    ping = served.call("--ping")
    assert (ping.returncode, json.loads(ping.stdout)["served"]) == (0, 1)
    hook = served.call(command=[str(HOOK)], environ={"SANDBOX_JUDGE_SOCKET": str(served.socket)})
    assert (hook.returncode, len(events(hook)), hook.stderr) == (0, 2, b"")
    whole = served.call(command=[*PYTHON, "-q", "call", str(served.socket)])
    assert (whole.returncode, len(events(whole)), whole.stderr) == (0, 2, b"")
    assert json.loads(served.call("--ping").stdout)["served"] == 3


def test_what_the_server_refuses_is_not_tried_otherwise(served):
    done = served.call(data=json.dumps({"conversation": json.loads(TALK), "settings": {}}).encode())
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"may not set settings" in done.stderr
    assert served.call("--exit-zero", data=b"{").returncode == 0
    assert served.endpoint.requests == []


def test_without_a_server_the_run_happens_here(place):
    done = place.call("--conversation-id", "c-8", "-q")
    assert done.returncode == 0, done.stderr
    assert {e["conversation_id"] for e in events(done)} == {"c-8"}
    done = place.call("--no-fallback")
    assert (done.returncode, done.stdout) == (3, b"")
    assert place.call("--ping").returncode == 1
    done = place.call(environ={"SANDBOX_JUDGE_DISABLED": "1"})
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_server_that_hangs_costs_a_part_of_the_budget_and_nothing_is_paid_twice(served):
    pid = json.loads(served.call("--ping").stdout)["pid"]
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    done = served.call("--budget", "4s")
    assert time.monotonic() - started < 4
    assert (done.returncode, len(events(done))) == (0, 2)
    done = served.call("--budget", "0.5s", "--no-fallback")
    assert (done.returncode, done.stdout) == (3, b"")
    os.kill(pid, signal.SIGCONT)
    assert json.loads(served.call("--ping").stdout)["served"] == 0
    assert len(served.endpoint.requests) == 2


def test_what_a_server_cannot_do_is_done_here(served):
    done = served.call("--explain", "-o", "json")
    assert json.loads(done.stdout)["counts"] == {"would_run": 2}
    assert served.call("--explain", "--no-fallback").returncode == 2


@pytest.fixture
def rogue(tmp_path):
    """A server that says what the test wants and then does nothing."""
    tmp_path.chmod(0o700)
    path = tmp_path / "rogue"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    held = []

    def start(*said):
        def serve():
            sock, _ = listener.accept()
            held.append(sock)
            while sock.recv(65_536):
                pass
            for data in said:
                sock.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        return path

    yield start
    for sock in held:
        sock.close()
    listener.close()


def rogue_call(path, *more, environ=None):
    started = time.monotonic()
    done = subprocess.run(
        [*PYTHON, "call", str(path), *more],
        input=TALK,
        capture_output=True,
        env={"PATH": os.environ["PATH"], **(environ or {})},
        timeout=30,
    )
    return done, time.monotonic() - started


def test_after_accepted_it_waits_no_longer_than_the_budget_and_never_falls_back(rogue):
    event = b'{"event_name":"introspection.judgement","payload":{"result":"pass"}}\n'
    done, took = rogue_call(rogue(b'{"accepted": true}\n', event), "--budget", "1s")
    assert (done.returncode, done.stdout) == (3, event)
    assert took < 2
    assert b"instead" not in done.stderr


@pytest.mark.parametrize("said", [b"", b"garbage\n", b"x" * 200_000, b'{"error": {"type": "busy"}}\n'])
def test_a_server_that_does_not_accept_is_no_server(rogue, said):
    done, took = rogue_call(rogue(said), "--no-fallback", "--budget", "1s")
    assert done.returncode == 3
    assert took < 2


def test_what_a_server_says_does_not_reach_the_terminal_raw(rogue):
    said = json.dumps({"error": {"type": "refused", "message": "\x1b[31mred\x07"}}).encode() + b"\n"
    done, _ = rogue_call(rogue(said))
    assert done.returncode == 2
    assert b"\x1b" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's server needs root to start it")
def test_a_server_of_another_user_gets_nothing(tmp_path):
    tmp_path.chmod(0o755)
    script = (
        "import os, socket, sys\n"
        f"s = socket.socket(socket.AF_UNIX); s.bind({str(tmp_path / 's')!r})\n"
        "os.setuid(65534); s.listen(); print('up', flush=True)\n"
        "c, _ = s.accept(); sys.stdout.write(repr(c.recv(10)))\n"
    )
    server = subprocess.Popen([sys.executable, "-I", "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline() == "up\n"
        done, _ = rogue_call(tmp_path / "s", "--no-fallback", "--budget", "1s")
        assert done.returncode == 3
        assert b"not trusted" in done.stderr
        assert server.communicate(timeout=10)[0] == "b''"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_arguments_are_those_of_run():
    words = "/s talk.json --environment=staging --experiment-id e --sink unix:/x --budget 2m --feedback=[] -q"
    options = Options(
        [*words.split(), "--feedback", '{"a": 1}'],
        {"SANDBOX_JUDGE_ENVIRONMENT": "production", "SANDBOX_JUDGE_SERVICE_NAME": "desk"},
    )
    assert (options.path, options.file, options.budget_s, options.alone) == ("/s", "talk.json", 120, None)
    assert options.header == {
        "environment": "staging",
        "service_name": "desk",
        "experiment": {"id": "e"},
        "feedback": [{"a": 1}],
    }
    assert options.run[:4] == ["--environment", "staging", "--experiment-id", "e"]
    alone = Options(["/s", "--worktree", "--recipe", "x"], {})
    assert (alone.alone, alone.run) == ("--worktree", ["--worktree", "--recipe", "x"])


@pytest.mark.parametrize(
    "argv", [["/s", "a", "b"], ["/s", "--budget"], ["/s", "--budget", "soon"], ["/s", "--feedback", "{"]]
)
def test_arguments_that_cannot_be(argv):
    with pytest.raises(Fault):
        Options(argv, {})


def test_durations():
    assert [seconds(text) for text in ("1500ms", "40s", "2m", "3", " 1H ")] == [1.5, 40, 120, 3, 3600]


def test_it_imports_little():
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import sys, sandbox_judge.client; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = set(done.stdout.split())
    assert not names & {"anyio", "msgspec", "argparse", "asyncio", "subprocess", "yaml", "logging", "ssl"}

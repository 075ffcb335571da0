"""Canaries in every place where a secret may stand, then a look through everything that was written anywhere.

Masking by itself: tests/test_masking.py. The other lane: tests/lanes/test_litellm_lane.py.
"""

import json
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fault_bench import TALK, Sandbox, descendants, finished, hold_account, own_folder, told
from recipes import judge_text

from sandbox_judge.testing import answers
from sandbox_judge.testing.collector import Behaviour, Collector
from sandbox_judge.testing.model_server import ModelServer

# None of them looks like a key: nothing but knowing its value can mask it.
CANARIES = {
    "OPENAI_API_KEY": "canary one of plain words",
    "JUDGE_LOCAL_KEY": "canary-two/of:other;signs",
    "GATEWAY_TOKEN": "canary~three",
    "SINK_TOKEN": "canary!four!bearer",
}
SAMPLING_KEY = "canary-five-sampling"
KEY_FILE = "canary.six.in.a.file"
PROXY_PASSWORD = "canary-seven-proxy"
ALL = [*CANARIES.values(), SAMPLING_KEY, KEY_FILE, PROXY_PASSWORD]


def echo(line):
    """Tells back whatever key it was sent, in a way that depends on the model asked for."""
    key = line.request.headers.get("authorization", "").removeprefix("Bearer ")
    wanted = line.request.json["model"]
    says = {
        "401": answers.error(401, f"Incorrect API key provided: {key}"),
        "500": answers.error(500, f"upstream said {key!r} to {line.request.headers}"),
        "400": answers.error(400, f"no: {key}", param=key, code=key),
        "html": answers.html(502),
        "verdict": answers.verdict(reasoning=f"The key is {key}, in short {key[:30]}."),
        "evidence": answers.chat(
            json.dumps({"reasoning": "r", "evidence": [{"entry": 1, "quote": key}], "verdict": key})
        ),
        "prose": answers.chat(f"I will not judge, but here is your key: {key}"),
    }
    says[wanted](line)


def echo_token(line):
    """A collector that refuses, and says with which token it was asked."""
    answers.raw(line.request.headers["authorization"].encode(), status=403)(line)


MODELS = ("401", "500", "400", "html", "verdict", "evidence", "prose")
PROVIDERS = {
    "openai": {"api_key_env": "OPENAI_API_KEY"},
    "gateway": {"api_key_env": "GATEWAY_TOKEN", "lane": "openai_wire"},
    "filed": {"lane": "openai_wire"},
}


@pytest.fixture(scope="module")
def planted():
    """One run with every canary planted, its events to stdout, a socket and a file; all that it left."""
    with own_folder() as folder, ModelServer(echo) as server, ModelServer(echo_token) as refusing:
        files = {}
        for model in MODELS:
            for provider in PROVIDERS:
                name = f"{provider}-{model}"
                text = judge_text(name, llm=f"  provider: {provider}\n")
                files[f"judges/{name}.yaml"] = text.replace("model: m", f"model: '{model}'")
            local = f"  local: {{base_url: '{server.base_url}', api_key_env: JUDGE_LOCAL_KEY}}\n"
            text = judge_text(f"local-{model}", llm=local)
            files[f"judges/local-{model}.yaml"] = text.replace("model: m", f"model: '{model}'")
        key_file = Path(folder, "key")
        key_file.write_text(KEY_FILE)
        providers = {name: {**about, "base_url": server.base_url} for name, about in PROVIDERS.items()}
        providers["filed"]["api_key_file"] = str(key_file)
        sandbox = Sandbox(
            f"{folder}/s", files=files, providers=providers, settings={"sampling_key": SAMPLING_KEY}
        )
        sandbox.environ |= {
            **CANARIES,
            "HTTPS_PROXY": f"http://user:{PROXY_PASSWORD}@127.0.0.1:9",
            "SANDBOX_JUDGE_GIT": str(_spying_git(sandbox)),
        }
        child = sandbox.start(
            "-vv", "--sink", "stdout", "--sink", f"file:{folder}/events", "--report-file", f"{folder}/ledger",
            "--sink", f"unix+ack:{sandbox.address}", "--sink", f"{refusing.url}/e#token_env=SINK_TOKEN",
            "--budget", "8s", "--concurrency", "40",
        )  # fmt: skip
        titles = _titles(child)
        done = finished(child, TALK)
        with Collector(Path(sandbox.address), Behaviour(acks="each")) as collector:
            flushed = sandbox.flush("--budget", "5s")
        written = {
            "stdout": done.out,
            "stderr": done.err.encode(),
            "flush": flushed.out + flushed.err.encode(),
            "titles": "\n".join(titles).encode(),
            "collector": b"".join(map(bytes, collector.received)),
            "events": Path(folder, "events").read_bytes(),
            "ledger": Path(folder, "ledger").read_bytes(),
            "git": (sandbox.folder / "git-was-told").read_bytes(),
        }
        for path in [*sandbox.state.rglob("*"), *sandbox.work.rglob("*"), *sandbox.home.rglob("*")]:
            if path.is_file():
                written[str(path)] = path.read_bytes()
        modes = {
            path: stat.S_IMODE(path.stat().st_mode) for path in [sandbox.state, *sandbox.state.rglob("*")]
        }
        yield done, written, modes, server


def _spying_git(sandbox):
    """A git that notes what it is told, by arguments and environment, before it does it."""
    spy = sandbox.folder / "spy"
    note = sandbox.folder / "git-was-told"
    spy.write_text(f'#!/bin/sh\n{{ echo "$@"; env; }} >> {note}\nexec /usr/bin/git "$@"\n')
    spy.chmod(0o755)
    return spy


def _titles(child):
    """The command lines of a hook and of all below it, looked at while it starts."""
    seen = set()
    end = time.monotonic() + 0.4
    while time.monotonic() < end and child.poll() is None:
        for pid in (child.pid, *descendants(child.pid)):
            try:
                seen.add(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return seen


def test_every_judge_met_its_echo(planted):
    done, _, _, server = planted
    hold_account(done, len(MODELS) * 4)
    sent = {request.headers["authorization"].removeprefix("Bearer ") for request in server.requests}
    assert sent == {*list(CANARIES.values())[:3], KEY_FILE}, "not every key was in use"
    assert {"auth", "provider_error", "bad_request", "pass", "out_of_vocabulary"} <= set(done.results)


def test_no_canary_is_anywhere(planted):
    _, written, _, _ = planted
    assert {"stdout", "stderr", "collector", "titles", "git"} <= {
        where for where, data in written.items() if data
    }
    found = [(where, canary) for where, data in written.items() for canary in ALL if canary.encode() in data]
    assert found == []


def test_what_is_kept_is_private(planted):
    _, _, modes, _ = planted
    assert len(modes) > 2
    for path, mode in modes.items():
        assert mode == (0o700 if path.is_dir() else 0o600), path


BROKEN = """
import sys
from sandbox_judge.cli import main
from sandbox_judge.lanes import openai_wire
def broken(self, call, *, deadline):
    raise KeyError(f"lost {call.endpoint.api_key} amid {dict(__import__('os').environ)}")
openai_wire.OpenAiWire.complete = broken
sys.argv = ["sandbox-judge", *sys.argv[1:]]
main.console()
"""


def test_a_crash_report_holds_no_key():
    with own_folder() as folder:
        sandbox = Sandbox(folder, providers={"openai": {"base_url": "http://127.0.0.1:9/v1"}})
        sandbox.environ |= CANARIES
        argv = [sys.executable, "-I", "-c", BROKEN, *sandbox.argv()[4:]]
        done = sandbox.run(argv=argv)
    events = hold_account(done, 3)
    assert {told(event) for event in events} == {"internal"}
    assert "internal error" in done.err
    assert events[0]["payload"]["error"]["message"].rpartition(" ")[2] in done.err
    assert not [canary for canary in ALL if canary in done.err or canary.encode() in done.out]


@pytest.mark.parametrize(
    "settings",
    [
        {"providers": {"openai": {"base_url": f"https://user:{SAMPLING_KEY}@host/v1"}}},
        {"providers": {"openai": {"base_url": f"https://host/v1?key={SAMPLING_KEY}"}}},
        {"providers": {"openai": {"api_key": SAMPLING_KEY}}},
        {"sampling_key": 5, "endpoints": [{"base_url": f"https://{SAMPLING_KEY}@h", "api_key_env": "X"}]},
        {"sampling_key": SAMPLING_KEY, "wombat": 1},
    ],
)
def test_settings_that_are_refused_are_refused_without_their_secrets(settings):
    with own_folder() as folder:
        sandbox = Sandbox(folder, judges=1)
        sandbox.settings.write_text(json.dumps(settings))
        done = sandbox.run("--budget", "3s")
    assert SAMPLING_KEY not in done.err
    assert SAMPLING_KEY.encode() not in done.out
    assert done.code == 2 or {told(event) for event in done.events} <= {"connection", "auth", "not_allowed"}


def test_the_shipped_package_holds_no_canary():
    """The bench itself: grep does find what was planted."""
    assert subprocess.run(["grep", "-q", "canary-five", __file__]).returncode == 0

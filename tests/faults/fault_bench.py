"""The fault bench: the hook as a real process in a sandbox of its own, a model that remembers what it said,
and an exact account of what came of it. Used by the tests beside it and by `make soak`.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from recipes import committed, judge_text

from sandbox_judge.nulls import ERROR_TYPES
from sandbox_judge.testing.answers import chat
from sandbox_judge.testing.collector import Behaviour, Collector
from sandbox_judge.testing.model_server import ModelServer

TALK = json.dumps([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
KEY = "sk-canary-0123456789abcdef"
VERDICTS = ("pass", "fail", "not_applicable")
# What a process may add to its budget when the machine has other things to do: it is judged elsewhere.
SLACK_S = 3.0


class TruthfulModel:
    """An endpoint that gives verdicts at random and keeps each, by a word that it writes into the reasoning:
    a verdict that carries no such word, or another verdict than was said with it, was invented."""

    def __init__(self, *, seed=0, delay_s=(0.0, 0.0), faults=None, fault_rate=0.0, words=0):
        self.said = {}
        self.staged = Counter()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._delay_s, self._faults, self._fault_rate, self._words = delay_s, faults or {}, fault_rate, words
        self.server = ModelServer(self._answer, by_request=True)

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *about):
        self.server.__exit__(*about)

    def _answer(self, request):
        with self._lock:
            delay = self._random.uniform(*self._delay_s)
            if self._faults and self._random.random() < self._fault_rate:
                kind = self._random.choice(list(self._faults))
                self.staged[kind] += 1
                return self._faults[kind]
            token = f"truth-{len(self.said)}-{self._random.getrandbits(48):x}"
            verdict = self.said[token] = self._random.choice(VERDICTS)
        reasoning = " ".join([token, *["because"] * self._words])
        evidence = [{"entry": 1, "quote": "hello"}]
        body = {"reasoning": reasoning, "evidence": evidence, "verdict": verdict}
        return chat(json.dumps(body), delay_s=delay)

    def invented(self, events):
        """The verdicts among `events` that this model did not give."""
        return [
            event
            for event in events
            if event["payload"]["result"] is not None
            and self.said.get(event["payload"].get("reasoning", "").partition(" ")[0])
            != event["payload"]["result"]
        ]


class Done:
    """What one process left behind."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    @property
    def events(self):
        """Every line of stdout; each must be whole, and a judgement."""
        assert self.out == b"" or self.out.endswith(b"\n"), self.out[-200:]
        events = [json.loads(line) for line in self.out.splitlines()]
        assert all(event["event_name"] == "introspection.judgement" for event in events)
        return events

    @property
    def results(self):
        return Counter(told(event) for event in self.events)

    @property
    def ledger(self):
        """Of a run with `--report json`: the last line on stderr."""
        return json.loads(self.err.splitlines()[-1])


def told(event):
    """A verdict, or the type of its null."""
    payload = event["payload"]
    return payload["result"] if payload["result"] is not None else payload["error"]["type"]


class Sandbox:
    """One recipe, one state directory, one environment, and the hook started in it as often as wanted."""

    def __init__(self, folder, *, judges=3, files=None, providers=None, settings=None):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.recipe = self.folder / "recipe"
        self.files = files or {f"judges/j{n:02}.yaml": judge_text(f"j{n:02}") for n in range(judges)}
        self.commit = committed(self.recipe, self.files)
        self.settings = self.folder / "settings.json"
        self.settings.write_text(json.dumps({**(settings or {}), "providers": providers or {}}))
        self.work = self.folder / "work"
        self.work.mkdir(exist_ok=True)
        self.home = self.folder / "home"
        self.state = self.folder / "state"
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "OPENAI_API_KEY": KEY,
            "SANDBOX_JUDGE_STATE_DIR": str(self.state),
        }

    @property
    def address(self):
        return f"{self.folder}/collector.sock"

    def argv(self, *more, command="run"):
        start = [sys.executable, "-I", "-m", "sandbox_judge", command]
        if command != "run":
            return [*start, "--insecure", *map(str, more)]
        return [
            *start, "--recipe", str(self.recipe), "--commit", self.commit, "--settings", str(self.settings),
            "--insecure", "--environment", "development", "--recipe-id", "shop", *map(str, more),
        ]  # fmt: skip

    def start(self, *more, within=(), argv=None, **options):
        """The process; `within` is a command that it is started by (`unshare -m sh -c ...`)."""
        given = {
            "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
            "env": self.environ, "cwd": self.work, **options,
        }  # fmt: skip
        return subprocess.Popen([*within, *(argv or self.argv(*more))], **given)

    def run(self, *more, talk=TALK, patience=60, **options):
        began = time.monotonic()
        child = self.start(*more, **options)
        return finished(child, talk, began=began, patience=patience)

    def flush(self, *more):
        argv = self.argv("--budget", "20s", *more, command="flush")
        return self.run(argv=argv, talk="")

    def spooled(self):
        """Files that wait in the spool."""
        spool = self.state / "spool"
        return sorted(spool.iterdir()) if spool.is_dir() else []


def finished(child, talk=None, *, began=None, patience=60):
    """Waits for a process and gives what it left; one that does not end is killed, and that is a failure."""
    began = time.monotonic() if began is None else began
    try:
        out, err = child.communicate(None if talk is None else talk.encode(), timeout=patience)
    except subprocess.TimeoutExpired as late:
        child.kill()
        out, err = child.communicate()
        raise AssertionError(f"still there after {patience} s: {err!r}") from late
    seconds = time.monotonic() - began
    return Done(child.returncode, out or b"", err.decode() if err else "", seconds)


def hold_account(done, applicable):
    """Applicable judges = verdicts + nulls, each once, and every null of the closed list."""
    events = done.events
    assert len(events) == applicable, done.err
    assert len({event["payload"]["judge_name"] for event in events}) == applicable
    assert {told(event) for event in events} <= {*ERROR_TYPES, *VERDICTS}
    assert "Traceback" not in done.err
    return events


def by_judge(done):
    return {event["payload"]["judge_name"]: event for event in done.events}


def judgements(collector):
    """The judgement lines of a collector, ledgers left out, duplicates kept."""
    return [event for event in collector.events() if event["event_name"] == "introspection.judgement"]


def collected(sandbox, *, acks=True):
    """What `flush` brings to a collector that behaves: the process, and the judgements that came."""
    with Collector(Path(sandbox.address), Behaviour(acks="each" if acks else "none")) as collector:
        done = sandbox.flush()
        if not acks:
            time.sleep(0.1)
    return done, judgements(collector)


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def side_by_side(*works):
    """Runs callables in threads and gives their results in order; the first failure is raised."""
    results = [None] * len(works)
    failures = []

    def work(number, callable_):
        try:
            results[number] = callable_()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if failures:
        raise failures[0]
    return results


def own_folder():
    """A folder of short name: socket paths have 107 bytes."""
    return tempfile.TemporaryDirectory(prefix="sj")


def descendants(pid):
    """Processes below `pid`, itself left out."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found += [int(entry), *descendants(int(entry))]
    return found

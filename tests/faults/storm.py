"""Many hooks, one fault each, at random instants and in random order, and one tally of what came of them all.

A few rounds of each storm run in the tests, thousands in `make soak`.
"""

import ctypes
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from fault_bench import (
    KEY,
    TALK,
    VERDICTS,
    Sandbox,
    TruthfulModel,
    collected,
    finished,
    judgements,
    told,
)
from recipes import judge_text

from sandbox_judge.testing import answers
from sandbox_judge.testing.collector import Behaviour, Collector

JUDGES = 3
SIGNALS = {
    signal.SIGTERM: 128 + signal.SIGTERM,
    signal.SIGINT: 128 + signal.SIGINT,
    signal.SIGHUP: 128 + signal.SIGHUP,
    signal.SIGPIPE: 0,
    signal.SIGKILL: -signal.SIGKILL,
}
# How a collector may be while a hook runs.
COLLECTORS = {
    "absent": None,
    "good": Behaviour(acks="each"),
    "late": Behaviour(acks="each"),
    "never acknowledges": Behaviour(),
    "acknowledges other ids, amid garbage": Behaviour(acks="confused"),
    "acknowledges at the end": Behaviour(acks="at_end"),
    "does not read": Behaviour(reads=False),
    "does not accept": Behaviour(accepts=False),
    "a byte at a time": Behaviour(acks="each", byte_every_s=0.002),
    "dies amid a line": Behaviour(acks="each", die_after=700, deaths=99),
    "dies once amid a line": Behaviour(acks="each", die_after=1_500),
    "closes after each line": Behaviour(acks="each", lines_each=1),
    "sends garbage": Behaviour(acks="each", chatter=b"\x00\xff{]\n" * 5_000),
}
# With `unix:` a line counts as taken once it is written and our side is shut down, so that a collector which
# does not read to the end is promised nothing (what is noticed all the same: tests/sinks/test_delivery.py).
WITHOUT_ACKS = ("absent", "good", "late")
MODEL_FAULTS = {
    "reset": answers.reset,
    "hang-up": answers.hang_up,
    "reset amid the body": answers.reset_amid_body,
    "silence": answers.hang,
    "headers, then silence": answers.headers_then_silence,
    "stream without end": answers.endless,
    "a byte a second": answers.dripped(b'{"choices": []}'),
    "shorter than said": answers.wrong_length(b"{}", said=99),
    "longer than said": answers.wrong_length(b'{"choices": []}', said=4),
    "html under 200": answers.html(),
    "html under 502": answers.html(502),
    "half the JSON": answers.truncated(b'{"choices": [{"message": {"content": "{}"}}]}'),
    "300 MB": answers.huge(),
    "gzip bomb": answers.gzip_bomb(),
    "redirect loop": answers.redirect("/v1/chat/completions"),
    "401 that echoes the key": answers.error(401, f"bad key {KEY}"),
    "429": answers.error(429, "slow down", retry_after="0"),
    "429 in an hour": answers.error(429, "slow down", retry_after="3600"),
    "500 that echoes the key": answers.error(500, f"boom {KEY}"),
    "529": answers.error(529, "overloaded"),
    "a word for an answer": answers.chat("pass"),
    "a filter": answers.chat(None, finish="content_filter"),
    "cut off": answers.chat('{"reasoning": "cut', finish="length"),
    "the key for an answer": answers.chat(KEY),
}


class Tally:
    """What came of every hook so far. Safe to add to from several threads."""

    def __init__(self):
        self.staged = Counter()
        self.ends = Counter()
        self.events = {}  # id: event, of every judgement seen anywhere
        self.applicable = self.delivered = self.duplicates = 0
        self.lost = []
        self.invented = []
        self.leaks = []
        self._lock = threading.Lock()

    def add(self, **counts):
        with self._lock:
            for name, value in counts.items():
                setattr(self, name, getattr(self, name) + value)

    def saw(self, events):
        with self._lock:
            for event in events:
                known = self.events.setdefault(event["id"], event)
                if known != event:
                    self.invented.append(("two events of one id", event))

    @property
    def results(self):
        return Counter(told(event) for event in self.events.values())

    @property
    def verdicts(self):
        return sum(count for result, count in self.results.items() if result in VERDICTS)

    @property
    def nulls(self):
        return Counter({result: n for result, n in self.results.items() if result not in VERDICTS})

    @property
    def faultless(self):
        """Whether nothing was lost, invented or leaked and the account adds up."""
        counted = self.verdicts + sum(self.nulls.values())
        return not (self.lost or self.invented or self.leaks) and counted == self.applicable

    def lines(self):
        """The tally for a person."""
        yield "faults staged:"
        for kind, count in sorted(self.staged.items()):
            yield f"  {kind:48} {count:6}"
        yield f"hooks ended with:           {dict(sorted(self.ends.items()))}"
        yield f"applicable judges           {self.applicable}"
        yield f"verdicts                    {self.verdicts}"
        yield f"nulls                       {sum(self.nulls.values())}"
        for kind, count in sorted(self.nulls.items()):
            yield f"  {kind:24}  {count}"
        yield f"events delivered            {self.delivered}"
        yield f"duplicates dropped          {self.duplicates}"
        for name in ("lost", "invented", "leaks"):
            found = getattr(self, name)
            yield f"{name:28}{len(found)}"
            yield from (f"  {str(one)[:300]}" for one in found[:5])


def adopt_orphans():
    """From now on what a dead hook leaves running becomes our child, so that it can be found (Linux)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


class Site:
    """One sandbox with a model behind it, in which hooks run one after another."""

    def __init__(self, folder, tally, *, seed=0, model=None):
        self.tally = tally
        self.random = random.Random(seed)
        self.model = model or TruthfulModel(seed=seed, delay_s=(0.0, 0.15))
        providers = {"openai": {"base_url": self.model.server.base_url}}
        self.sandbox = Sandbox(folder, judges=JUDGES, providers=providers)
        self.handed = {}  # id: event, of what must come out of the collector sooner or later
        self.came = []  # ids as they came, from collectors that were asked to keep
        self._number = 0

    def __enter__(self):
        self.model.__enter__()
        return self

    def __exit__(self, *about):
        self.model.__exit__(*about)
        self.tally.staged.update({f"model: {kind}": count for kind, count in self.model.staged.items()})

    def hook(self, *more, kind, **options):
        """Starts one hook on a conversation of its own."""
        self._number += 1
        self.tally.staged[kind] += 1
        name = f"{self.sandbox.folder.name}-{self._number}"
        return self.sandbox.start(*more, "--conversation-id", name, **options)

    def ended(self, child, done, *, whole):
        """Takes a hook's end into the account. `whole`: it was not cut off, so each judge must be there."""
        tally = self.tally
        tally.ends[done.code] += 1
        events = [json.loads(line) for line in done.out.split(b"\n")[:-1]]
        tally.saw(events)
        self.handed |= {event["id"]: event for event in events}
        if whole and len(events) != JUDGES:
            tally.lost.append((f"{len(events)} of {JUDGES} judges", done.code, done.err[-300:]))
        if KEY.encode() in done.out or KEY in done.err:
            tally.leaks.append("a key in what the hook wrote")
        if "Traceback" in done.err and not interrupted_at_start(done):
            tally.leaks.append(f"a traceback: {done.err[-300:]}")
        if "internal error" in done.err:
            tally.leaks.append(f"a bug: {done.err[-600:]}")

    def brought(self, collector):
        """Takes what a collector received into the account."""
        events = judgements(collector)
        self.tally.saw(events)
        self.came += [event["id"] for event in events]
        if any(KEY.encode() in bytes(data) for data in collector.received):
            self.tally.leaks.append("a key in what a collector got")

    def settle(self):
        """Flushes to a collector that behaves, and holds that everything handed over is there."""
        files = [path for path in self.sandbox.state.rglob("*") if path.is_file()]
        if any(KEY.encode() in path.read_bytes() for path in files):
            self.tally.leaks.append("a key in the state directory")
        for acks in (True, False):
            done, events = collected(self.sandbox, acks=acks)
            self.tally.saw(events)
            self.came += [event["id"] for event in events]
            # The first knows nothing of what waits for the other kind of address at the same path.
        if self.sandbox.spooled():
            self.tally.lost.append(("still in the spool", done.err[-300:]))
        came = set(self.came)
        self.tally.lost += [("never came", event) for id, event in self.handed.items() if id not in came]
        self.tally.invented += self.model.invented([self.tally.events[id] for id in came])
        self.tally.add(
            applicable=len(came | self.handed.keys()),
            delivered=len(came),
            duplicates=len(self.came) - len(came),
        )
        self.handed, self.came = {}, []


def signals(site, rounds, *, until=float("inf")):
    """Hooks that are signalled at random instants, a collector there for half of them."""
    address = f"unix+ack:{site.sandbox.address}"
    for number in range(rounds):
        if time.monotonic() > until:
            break
        with_collector = number % 10 >= 5
        collector = Collector(Path(site.sandbox.address), Behaviour(acks="each")) if with_collector else None
        if collector is not None:
            collector.start()
        signalled(site, address, site.random.choice(list(SIGNALS)))
        if collector is not None:
            collector.stop()
            site.brought(collector)
        if number % 20 == 19:
            site.settle()
    site.settle()


def signalled(site, address, number):
    """One hook and one signal, anywhere between its start and its end."""
    kind = f"signal {number.name}"
    child = site.hook("--sink", address, "--sink", "stdout", "--budget", "1500ms", kind=kind)
    sent = []

    def send():
        if child.poll() is None:
            sent.append(number)
            child.send_signal(number)

    talk = TALK
    if site.random.random() < 0.5:  # while a model is asked: on a busy machine most would fall before
        talk, asked = "", len(site.model.server.requests)
        child.stdin.write(TALK.encode())
        child.stdin.flush()
        end = time.monotonic() + 5
        while len(site.model.server.requests) == asked and child.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        delay_s = site.random.uniform(0.0, 0.2)
    else:
        delay_s = site.random.uniform(0.0, 0.6)
    timer = threading.Timer(delay_s, send)
    timer.start()
    done = finished(child, talk)
    timer.join()
    orderly = done.code in (0, 3, SIGNALS[number]) and done.code >= 0
    known = "no judge was known yet" not in done.err
    # Before its handlers stand, and once all is delivered, a signal kills as it does every process.
    if not orderly and not (sent and (done.code == -number or interrupted_at_start(done))):
        site.tally.leaks.append((f"{number.name} ended a hook with {done.code}", done.err[-300:]))
    site.ended(child, done, whole=orderly and known and _began(done))


def _began(done):
    """Whether the hook came as far as its judges."""
    return not (done.code == 130 and done.out == b"" and "judges:" not in done.err)


def interrupted_at_start(done):
    """SIGINT while Python starts is Python's own KeyboardInterrupt, with its traceback and code."""
    told = done.code == 130 or (done.code in (1, -signal.SIGINT) and "KeyboardInterrupt" in done.err)
    return told and done.out == b""


def collectors(site, rounds, *, until=float("inf"), kinds=None):
    """Hooks whose collector misbehaves, in a way each."""
    wanted = kinds or [(kind, True) for kind in COLLECTORS] + [(kind, False) for kind in WITHOUT_ACKS]
    for number in range(rounds):
        if time.monotonic() > until:
            break
        kind, acks = wanted[number % len(wanted)]
        misled(site, kind, acks=acks)
        if number % 10 == 9:
            site.settle()
    site.settle()


def misled(site, kind, *, acks):
    """One hook and one collector of that kind."""
    behaviour = COLLECTORS[kind]
    address = f"unix{'+ack' if acks else ''}:{site.sandbox.address}"
    collector = None if behaviour is None else Collector(Path(site.sandbox.address), behaviour)
    if collector is not None and kind != "late":
        collector.start()
    what = f"collector {kind}{'' if acks else ', without acknowledgements'}"
    child = site.hook("--sink", address, "--sink", "stdout", "--budget", "2s", kind=what)
    if collector is not None and kind == "late":
        timer = threading.Timer(site.random.uniform(0.2, 0.9), collector.start)
        timer.start()
    done = finished(child, TALK)
    site.ended(child, done, whole=True)
    if done.code not in (0, 3):
        site.tally.lost.append((what, done.code, done.err[-300:]))
    if collector is not None:
        if kind == "late":
            timer.join()
        if not acks:
            time.sleep(0.05)
        collector.stop()
        site.brought(collector)
    own = {json.loads(line)["id"] for line in done.out.splitlines()}
    if done.code == 0 and own - set(site.came):
        site.tally.lost.append((f"exit 0, but not everything was taken: {what}", done.err[-300:]))


def models(site, rounds, *, until=float("inf")):
    """Hooks whose endpoint fails at random, events to a collector that is there or not."""
    address = f"unix+ack:{site.sandbox.address}"
    for number in range(rounds):
        if time.monotonic() > until:
            break
        child = site.hook(
            "--sink", address, "--sink", "stdout", "--budget", "2s", kind="hook with a failing model"
        )
        done = finished(child, TALK)
        site.ended(child, done, whole=True)
        if number % 20 == 19:
            site.settle()
    site.settle()


def failing_model(seed):
    """Half of its answers are faults."""
    return TruthfulModel(seed=seed, delay_s=(0.0, 0.1), faults=MODEL_FAULTS, fault_rate=0.5)


def orphans(known):
    """Children of this process that are none of `known`: what hooks left running."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in known:
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == os.getpid():
                    found.append(Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


def large(folder, tally):
    """What is too much, once each: 10,000 judges, a tool output of 200 MB, a million entries. The account
    must hold for each, in its time."""
    files = {f"judges/j{n:05}.yaml": judge_text(f"j{n:05}") for n in range(10_000)}
    call = {"id": "c", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
    output = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": ("x" * 999 + "\n") * 200_000},
        {"role": "assistant", "content": "done"},
    ]
    entries = [{"role": "user", "content": "m"}, {"role": "assistant", "content": "k"}] * 500_000
    for kind, given, talk, budget_s in (
        ("10,000 judges", {"files": files}, TALK, 60),
        ("a tool output of 200 MB", {"judges": JUDGES}, json.dumps(output), 90),
        ("a million entries", {"judges": JUDGES}, json.dumps(entries), 5),
    ):
        tally.staged[kind] += 1
        with TruthfulModel() as model:
            providers = {"openai": {"base_url": model.server.base_url}}
            sandbox = Sandbox(f"{folder}/{len(talk)}", providers=providers, **given)
            done = sandbox.run("--budget", f"{budget_s}s", "-q", talk=talk, patience=budget_s + 60)
            events = done.events
        tally.ends[done.code] += 1
        tally.saw(events)
        tally.invented += model.invented(events)
        tally.add(applicable=len(sandbox.files), delivered=len(events))
        if len(events) != len(sandbox.files) or done.code != 0:
            tally.lost.append((kind, len(events), done.code, done.err[-300:]))
        if done.seconds > budget_s + 10:
            tally.leaks.append((kind, f"took {done.seconds:.0f} s of {budget_s}"))

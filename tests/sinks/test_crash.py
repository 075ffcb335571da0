"""kill -9 at any point: everything that was appended arrives, and duplicates are equal."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import anyio
import pytest

from sandbox_judge.sinks.flush import flush
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.testing.collector import Behaviour, Collector

CHILD = Path(__file__).with_name("crash_child.py")
TIMED_DEATHS = 15  # in each of two tests


class Deaths:
    """The process whose children die."""

    def __init__(self, directory, address):
        self.journal = directory / "journal"
        self._process = subprocess.Popen(
            [sys.executable, CHILD, directory / "spool", address, self.journal],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def die(self, how, value):
        self._process.stdin.write(f"{how} {value}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def end(self):
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def appended(self):
        return set(self.journal.read_text().split())


def flushed(directory):
    spool = Spool(directory / "spool")

    def opener(address):
        return open_sinks([address], environ={}, cwd=directory)[0]

    async def main():
        return await flush(spool, opener=opener, deadline=anyio.current_time() + 10)

    try:
        return anyio.run(main)
    finally:
        spool.close()


def received(collector):
    """{id: the different lines with it}: one each."""
    lines = defaultdict(set)
    for connection in collector.received:
        for line in bytes(connection).split(b"\n")[:-1]:
            lines[line[7 : line.index(b'"', 7)].decode()].add(line)
    return lines


def die_at_every_call(deaths, every_fourth):
    """Kills one run before its first system call, the next before its second, until one survives."""
    calls = 1
    while (survived := deaths.die("call", calls)) == "dead":
        calls += 1
        assert calls < 200
        if calls % 4 == 0:  # else each run would also carry all that died before it
            every_fourth()
    assert calls > 15, f"only {survived} calls were seen"


def assert_nothing_lost(deaths, lines, directory):
    appended = deaths.appended()
    assert len(appended) > 12
    assert appended - lines.keys() == set()
    assert [event_id for event_id, different in lines.items() if len(different) > 1] == []
    assert list((directory / "spool").iterdir()) == []


@pytest.mark.parametrize(("scheme", "acks"), [("unix+ack", "each"), ("unix", "none")])
def test_with_a_collector_there_a_kill_at_any_call_or_time_loses_nothing(tmp_path, scheme, acks):
    path = tmp_path / "s"
    with Collector(path, Behaviour(acks=acks)) as collector:
        deaths = Deaths(tmp_path, f"{scheme}:{path}")
        try:
            die_at_every_call(deaths, lambda: flushed(tmp_path))
            for seed in range(TIMED_DEATHS):
                deaths.die("time", seed)
        finally:
            deaths.end()
        assert flushed(tmp_path).exit_code == 0
        collector.wait_for(len(deaths.appended()))
        assert_nothing_lost(deaths, received(collector), tmp_path)


def test_with_a_collector_that_takes_nothing_everything_comes_from_the_spool(tmp_path):
    path = tmp_path / "s"
    good = Collector(path, Behaviour(acks="each"))
    deaf = Collector(path, Behaviour(reads=False))

    def flush_to_the_good_one():
        deaf.stop()
        with good:
            assert flushed(tmp_path).exit_code == 0
        deaf.start()

    deaf.start()
    deaths = Deaths(tmp_path, f"unix+ack:{path}")
    try:
        die_at_every_call(deaths, flush_to_the_good_one)
    finally:
        deaths.end()
    flush_to_the_good_one()
    deaf.stop()
    assert_nothing_lost(deaths, received(good), tmp_path)


def test_with_no_collector_every_appended_event_is_delivered_once(tmp_path):
    path = tmp_path / "s"
    deaths = Deaths(tmp_path, f"unix+ack:{path}")
    try:
        for seed in range(TIMED_DEATHS):
            deaths.die("time", seed)
        deaths.die("call", 10_000)
    finally:
        deaths.end()
    with Collector(path, Behaviour(acks="each")) as collector:
        report = flushed(tmp_path)
        appended = deaths.appended()
        assert len(appended) >= 4
        ids = collector.ids()
    # A kill after the append and before the journal leaves an event that the journal does not know.
    assert appended <= set(ids)
    assert len(ids) == len(set(ids)) == sum(report.delivered.values())
    assert report.exit_code == 0

"""Delivering the spool on request."""

import argparse
import io
import os
import threading
import time

import pytest

from sandbox_judge.cli import flush as command
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.testing.collector import Behaviour, Collector


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def surface(state):
    return Surface(
        stdin=io.BytesIO(),
        stdout=io.BytesIO(),
        stderr=io.StringIO(),
        environ={"SANDBOX_JUDGE_STATE_DIR": str(state)},
        cwd=state.parent,
    )


def flushed(state, *argv):
    """(exit code, stdout lines, stderr lines)"""
    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    env = surface(state)
    args = parser.parse_args(["flush", *argv])
    code = args.run(args, env)
    return code, env.stdout.getvalue().decode().splitlines(), env.stderr.getvalue().splitlines()


def spooled(state, lines, *sinks):
    spool = Spool(state / "spool")
    file = spool.create()
    file.append(lines, sinks)
    file.close()
    spool.close()


def test_nothing_to_deliver_makes_nothing(state):
    assert flushed(state) == (0, ["nothing to deliver"], [])
    assert not state.exists()


def test_everything_goes_oldest_first_and_the_spool_is_empty(state, event, tmp_path):
    one, two = f"unix+ack:{tmp_path}/1", f"unix:{tmp_path}/2"
    for number in range(40):
        spooled(state, [event(number)], one, two)
    with Collector(tmp_path / "1", Behaviour(acks="each")) as first, Collector(tmp_path / "2") as second:
        assert flushed(state) == (0, [f"delivered 40 to {one}", f"delivered 40 to {two}"], [])
        second.wait_for(40)
        assert first.ids() == second.ids() == [str(number) for number in range(40)]
    assert os.listdir(state / "spool") == []


def test_what_cannot_be_delivered_stays_and_is_counted(state, event, tmp_path):
    here, gone = f"unix:{tmp_path}/1", f"unix:{tmp_path}/gone"
    spooled(state, [event(number) for number in range(3)], here, gone)
    with Collector(tmp_path / "1"):
        code, out, err = flushed(state)
    assert code == 3
    assert out == [f"delivered 3 to {here}", f"waiting 3 for {gone}"]
    assert err == [
        f"{gone}: there is no socket at this path: the collector has not been started, or listens elsewhere."
    ]
    with Collector(tmp_path / "gone") as late:
        assert flushed(state) == (0, [f"delivered 3 to {gone}"], [])
        late.wait_for(3)


def test_one_sink_only(state, event, tmp_path):
    one, two = f"unix:{tmp_path}/1", f"unix:{tmp_path}/2"
    spooled(state, [event(1)], one, two)
    with Collector(tmp_path / "1"), Collector(tmp_path / "2") as second:
        assert flushed(state, "--sink", "unix:1") == (
            0,
            [f"delivered 1 to {one}", f"not asked for 1 for {two}"],
            [],
        )
        assert second.ids() == []
    with pytest.raises(UsageError):
        flushed(state, "--sink", "nowhere")


def test_an_address_that_cannot_be_opened_any_more_is_told_and_hurts_no_other(state, event, tmp_path):
    one, unset = f"unix:{tmp_path}/1", "https://example.invalid/#token_env=UNSET"
    spooled(state, [event(1)], "gopher:x", one, unset)
    with Collector(tmp_path / "1"):
        code, out, err = flushed(state)
    assert code == 3
    assert out == [f"delivered 1 to {one}", "waiting 1 for gopher:x", f"waiting 1 for {unset}"]
    assert len(err) == 2


def test_the_budget_holds(state, event, tmp_path):
    spooled(state, [event(1)], f"unix+ack:{tmp_path}/1")
    with Collector(tmp_path / "1", Behaviour(reads=False)):
        start = time.monotonic()
        code, out, err = flushed(state, "--budget", "300ms")
        assert time.monotonic() - start < 1.5
    assert (code, len(out)) == (3, 1)
    assert "no acknowledgement before the deadline" in err[0]


def test_two_flushes_at_once_send_everything_once(state, event, tmp_path):
    for number in range(30):
        spooled(state, [event(number)], f"unix+ack:{tmp_path}/1")
    with Collector(tmp_path / "1", Behaviour(acks="each")) as collector:
        codes = []
        threads = [threading.Thread(target=lambda: codes.append(flushed(state)[0])) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(collector.ids(), key=int) == [str(number) for number in range(30)]
    assert codes == [0, 0]


def test_a_live_runs_file_is_left_to_it(state, event, tmp_path):
    spool = Spool(state / "spool")
    file = spool.create()
    file.append([event(1)], [f"unix:{tmp_path}/1"])
    assert flushed(state) == (0, ["nothing to deliver"], [])
    file.close()
    spool.close()


def test_hostile_addresses_and_ids_in_the_spool_are_data(state, tmp_path, event):
    spooled(state, [event(1)], "unix:/x\x1b[2J\n", "\u202e")
    code, out, err = flushed(state)
    assert code == 3
    assert all("\x1b" not in line and "\u202e" not in line for line in [*out, *err])
    assert len(out) == 2

"""One run's events to several sinks: written ahead, in order, and none hurts another."""

import json
import os
import resource
import time

import anyio
import pytest

from sandbox_judge.errors import DeliveryError, TrustError
from sandbox_judge.sinks.base import Line, SinkBroken, SinkRefused
from sandbox_judge.sinks.delivery import delivering
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.testing.collector import Behaviour, Collector

pytestmark = pytest.mark.anyio


class Scripted:
    """A sink that takes lines, and raises what it is given first."""

    takes_ledger = True

    def __init__(self, name="scripted", *, failures=(), spooled=False, hangs=False):
        self.name = name
        self.spooled = spooled
        self.failures = list(failures)
        self.hangs = hangs
        self.got = []
        self.closed = False

    async def send(self, lines, *, deadline, taken):
        if self.failures:
            raise self.failures.pop(0)
        if self.hangs:
            await anyio.sleep_forever()
        for line in lines:
            self.got.append(line.event_id)
            taken(line.event_id)

    async def finish(self, *, deadline, taken):
        pass

    async def aclose(self):
        self.closed = True


@pytest.fixture
def spool(tmp_path):
    made = Spool(tmp_path / "spool")
    yield made
    made.close()


def soon(seconds=5.0):
    return anyio.current_time() + seconds


async def delivered(sinks, events, *, spool=None, seconds=5.0):
    async with delivering(sinks, spool=spool, deadline=soon(seconds)) as delivery:
        for line in events:
            await delivery.deliver(line.data, line.event_id)
        return await delivery.finish()


async def test_every_kind_of_sink_gets_every_event_in_order(event, spool, tmp_path):
    out = (tmp_path / "out").open("wb")
    addresses = ["stdout", f"file:{tmp_path}/f", f"unix:{tmp_path}/u", f"unix+ack:{tmp_path}/a"]
    with Collector(tmp_path / "u") as plain, Collector(tmp_path / "a", Behaviour(acks="each")) as acking, out:
        sinks = open_sinks(addresses, environ={}, cwd=tmp_path, stdout=out.fileno())
        async with delivering(sinks, spool=spool, deadline=soon()) as delivery:
            for number in range(50):
                await delivery.deliver(event(number).data, str(number))
            await delivery.deliver(b'{"id":"ledger"}', "ledger", ledger=True)
            report = await delivery.finish()
        plain.wait_for(51)
        expected = [str(number) for number in range(50)]
        assert [json.loads(line)["id"] for line in (tmp_path / "out").read_bytes().splitlines()] == expected
        expected.append("ledger")
        assert plain.ids() == acking.ids() == expected
    assert [json.loads(line)["id"] for line in (tmp_path / "f").read_bytes().splitlines()] == expected
    assert (report.delivered, report.spooled, report.failed, report.exit_code) == (51, 0, 0, 0)
    assert report.messages == ()
    assert os.listdir(spool.directory) == []


async def test_an_event_is_on_disk_before_it_is_sent_and_before_deliver_returns(event, spool):
    seen = []

    class Looking(Scripted):
        async def send(self, lines, *, deadline, taken):
            (name,) = os.listdir(spool.directory)
            seen.append((spool.directory / name).read_bytes().count(b"\n"))
            await super().send(lines, deadline=deadline, taken=taken)

    async with delivering([Looking(spooled=True)], spool=spool, deadline=soon()) as delivery:
        for number in (1, 2):
            await delivery.deliver(event(number).data, str(number))
            (name,) = os.listdir(spool.directory)
            await anyio.sleep(0.02)
            assert (spool.directory / name).read_bytes() == b"", "struck off when taken"
    assert seen == [1, 1]


async def test_a_sink_that_is_absent_hurts_no_other_and_its_events_wait(event, spool, tmp_path):
    other = Scripted()
    (absent,) = open_sinks([f"unix:{tmp_path}/absent"], environ={}, cwd=tmp_path)
    start = time.monotonic()
    report = await delivered([absent, other], [event(1), event(2)], spool=spool)
    assert time.monotonic() - start < 2, "an absent collector is not waited for"
    assert other.got == ["1", "2"]
    assert (report.delivered, report.spooled, report.failed, report.exit_code) == (0, 2, 0, 3)
    (message,) = report.messages
    assert "there is no socket at this path" in message
    assert "2 events wait in the spool" in message


async def test_without_a_spool_what_is_not_taken_is_lost_and_told(event, tmp_path):
    (absent,) = open_sinks([f"unix:{tmp_path}/absent"], environ={}, cwd=tmp_path)
    report = await delivered([absent], [event(1)])
    assert (report.delivered, report.spooled, report.failed, report.exit_code) == (0, 0, 1, 3)
    assert "1 event is lost to it" in report.messages[0]


async def test_a_full_disk_is_told_and_the_event_is_sent_all_the_same(event, spool):
    sink = Scripted(spooled=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with delivering([sink], spool=spool, deadline=soon()) as delivery:
        await delivery.deliver(event(1).data, "1")
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            await delivery.deliver(event(2).data, "2")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        report = await delivery.finish()
    assert sink.got == ["1", "2"]
    assert (report.delivered, report.exit_code) == (2, 0)
    assert "the spool cannot be written: File too large" in report.messages[0]


async def test_a_spool_that_cannot_be_made_is_told_once(event, tmp_path):
    (tmp_path / "file").touch()
    sink = Scripted(spooled=True)
    report = await delivered([sink], [event(1), event(2)], spool=Spool(tmp_path / "file" / "spool"))
    assert sink.got == ["1", "2"]
    assert len(report.messages) == 1


async def test_a_spool_that_others_can_write_stops_the_run_before_it_starts(spool):
    spool.directory.mkdir(mode=0o777)
    spool.directory.chmod(0o777)
    with pytest.raises(TrustError):
        async with delivering([Scripted(spooled=True)], spool=spool, deadline=soon()):
            raise AssertionError("not reached")
    async with delivering([Scripted()], spool=spool, deadline=soon()):
        pass  # nobody here needs it


async def test_a_sink_is_tried_again_while_the_run_goes_on(event, spool, tmp_path):
    (sink,) = open_sinks([f"unix+ack:{tmp_path}/late"], environ={}, cwd=tmp_path)
    async with delivering([sink], spool=spool, deadline=soon()) as delivery:
        await delivery.deliver(event(1).data, "1")
        await anyio.sleep(0.15)
        with Collector(tmp_path / "late", Behaviour(acks="each")) as collector:
            await delivery.deliver(event(2).data, "2")
            await anyio.sleep(0.5)
            report = await delivery.finish()
            assert collector.ids() == ["1", "2"]
    assert report.delivered == 2


async def test_what_earlier_runs_left_is_sent_behind_the_runs_own(event, spool):
    await delivered(
        [Scripted("a", spooled=True, failures=[DeliveryError("no")] * 9)], [event(1)], spool=spool
    )
    await delivered(
        [Scripted("b", spooled=True, failures=[DeliveryError("no")] * 9)], [event(2)], spool=spool
    )
    sink = Scripted("a", spooled=True)
    report = await delivered([sink], [event(3)], spool=spool)
    assert sorted(sink.got) == ["1", "3"], "what waits for another sink is not its business"
    assert (report.delivered, report.resent, report.waiting, report.exit_code) == (1, 1, 0, 0)
    (name,) = os.listdir(spool.directory)
    assert b'"sinks":["b"]' in (spool.directory / name).read_bytes()


async def test_leftovers_that_nobody_acknowledges_cost_a_second_at_most(event, spool, tmp_path):
    with Collector(tmp_path / "s"):
        (sink,) = open_sinks([f"unix+ack:{tmp_path}/s"], environ={}, cwd=tmp_path)
        report = await delivered([sink], [event(1)], spool=spool, seconds=0.2)
        assert report.spooled == 1

    class Picky(Collector):
        def _answer(self, connection, lines):
            super()._answer(connection, [line for line in lines if b'"id":"1"' not in line])

    with Picky(tmp_path / "s", Behaviour(acks="each")):
        start = time.monotonic()
        async with delivering([sink], spool=spool, deadline=soon(20)) as delivery:
            await delivery.deliver(event(2).data, "2")
            report = await delivery.finish()
        assert time.monotonic() - start < 3
    assert (report.delivered, report.waiting, report.exit_code) == (1, 1, 0)
    assert "1 of the events that earlier runs left still wait" in report.messages[-1]


async def test_a_refused_event_waits_with_the_reason_and_holds_up_nobody(event, spool):
    class Choosy(Scripted):
        async def send(self, lines, *, deadline, taken):
            await super().send(
                [line for line in lines if line.event_id != "1"], deadline=deadline, taken=taken
            )
            if any(line.event_id == "1" for line in lines):
                raise SinkRefused("the collector answered 422: no.", where=self.name)

    sink = Choosy(spooled=True)
    report = await delivered([sink], [event(0), event(1), event(2)], spool=spool)
    assert sink.got == ["0", "2"]
    assert (report.delivered, report.spooled) == (2, 1)
    (file,) = spool.leftovers()
    assert file.refusals == {("1", "scripted"): "the collector answered 422: no."}
    file.close()


async def test_a_broken_sink_is_left_alone(event):
    broken, other = Scripted(failures=[SinkBroken("its reader closed the pipe.")]), Scripted("other")
    async with delivering([broken, other], spool=None, deadline=soon()) as delivery:
        for number in range(3):
            await delivery.deliver(event(number).data, str(number))
            await anyio.sleep(0.01)
        report = await delivery.finish()
    assert broken.got == []
    assert other.got == ["0", "1", "2"]
    assert report.failed == 3
    assert report.messages == ("its reader closed the pipe. (3 events are lost to it)",)


async def test_a_bug_in_a_sink_is_told_and_hurts_no_other(event, spool):
    buggy = Scripted("buggy", failures=[ZeroDivisionError("oops\x1b[31m")] * 9, spooled=True)
    other = Scripted("other")
    report = await delivered([buggy, other], [event(1)], spool=spool)
    assert other.got == ["1"]
    assert report.spooled == 1
    assert "internal error, ZeroDivisionError: oops\\x1b[31m" in report.messages[0]


async def test_a_sink_that_hangs_costs_the_deadline_and_no_more_and_blocks_nobody(event, spool):
    hanging, other = Scripted("hanging", hangs=True, spooled=True), Scripted("other")
    start = time.monotonic()
    async with delivering([hanging, other], spool=spool, deadline=soon(60)) as delivery:
        for number in range(20):
            await delivery.deliver(event(number).data, str(number))
        assert time.monotonic() - start < 1
        report = await delivery.finish(deadline=soon(0.3))
    assert time.monotonic() - start < 1.5
    assert len(other.got) == 20
    assert (report.spooled, report.exit_code) == (20, 3)
    assert "not taken before the deadline" in report.messages[0]
    assert hanging.closed


async def test_however_late_it_is_what_can_be_written_at_once_is_written(event, tmp_path):
    sinks = open_sinks([f"file:{tmp_path}/f"], environ={}, cwd=tmp_path)
    async with delivering(sinks, spool=None, deadline=soon(-5)) as delivery:
        await delivery.deliver_many([event(number) for number in range(200)])
        report = await delivery.finish(deadline=soon(-1))
    assert report.delivered == 200
    assert len((tmp_path / "f").read_bytes().splitlines()) == 200


async def test_cancellation_by_the_host_still_delivers_what_was_handed_over(event, spool):
    sink = Scripted(spooled=True)
    with anyio.CancelScope() as scope:
        async with delivering([sink], spool=spool, deadline=soon(60)) as delivery:
            await delivery.deliver(event(1).data, "1")
            scope.cancel()
            await delivery.deliver(event(2).data, "2")
            await anyio.sleep(1)
    assert scope.cancelled_caught
    assert sink.got == ["1", "2"]
    assert (await delivery.finish()).delivered == 2
    assert os.listdir(spool.directory) == []


async def test_cancellation_with_a_hanging_sink_takes_the_reserve(event, spool):
    start = time.monotonic()
    with anyio.CancelScope() as scope:
        async with delivering(
            [Scripted(hangs=True, spooled=True)], spool=spool, deadline=soon(60), reserve_s=0.2
        ) as delivery:
            await delivery.deliver(event(1).data, "1")
            scope.cancel()
            await anyio.sleep(1)
    assert time.monotonic() - start < 1
    assert (await delivery.finish()).spooled == 1


async def test_what_the_block_raises_comes_out_as_it_is(event):
    sink = Scripted()
    with pytest.raises(KeyError, match="mine"):
        async with delivering([sink], spool=None, deadline=soon()) as delivery:
            await delivery.deliver(event(1).data, "1")
            raise KeyError("mine")
    assert sink.got == ["1"]
    with pytest.raises(RuntimeError, match="after the end"):
        await delivery.deliver(event(2).data, "2")


async def test_text_from_outside_is_escaped_in_messages(event):
    report = await delivered([Scripted(failures=[SinkBroken("a\x1b[2J\nb\u202e")])], [event(1)])
    assert report.messages == ("a\\x1b[2J\\nb\\u202e (1 event is lost to it)",)


async def test_many_at_once_are_one_write_and_one_sync(event, spool, monkeypatch):
    syncs = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: syncs.append(fd) or real(fd))
    async with delivering([Scripted(spooled=True)], spool=spool, deadline=soon()) as delivery:
        await delivery.deliver_many([event(number) for number in range(200)])
        report = await delivery.finish()
    assert report.delivered == 200
    assert len(syncs) == 2, "the directory at creation, and the batch"


async def test_nothing_is_left_open(event, spool, tmp_path):
    before = sorted(os.listdir("/proc/self/fd"))
    (absent,) = open_sinks([f"unix:{tmp_path}/absent"], environ={}, cwd=tmp_path)
    await delivered([absent], [event(1)], spool=spool)
    await delivered([absent], [Line("2", b'{"id":"2"}')], spool=spool)
    spool.close()
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("scheme", ["unix", "unix+ack"])
async def test_a_collector_that_closes_after_each_line_gets_every_event(event, spool, tmp_path, scheme):
    acks = "each" if scheme == "unix+ack" else "none"
    with Collector(tmp_path / "s", Behaviour(acks=acks, lines_each=1)) as collector:
        sinks = open_sinks([f"{scheme}:{tmp_path}/s"], environ={}, cwd=tmp_path)
        async with delivering(sinks, spool=spool, deadline=soon()) as delivery:
            await delivery.deliver_many([event(number) for number in range(30)])
            report = await delivery.finish()
        collector.wait_for(30)
    assert (report.delivered, report.spooled) == (30, 0)


async def test_a_collector_that_dies_amid_lines_gets_every_event_whole(event, spool, tmp_path):
    with Collector(tmp_path / "s", Behaviour(die_after=70_000, deaths=3)) as collector:
        sinks = open_sinks([f"unix:{tmp_path}/s"], environ={}, cwd=tmp_path)
        async with delivering(sinks, spool=spool, deadline=soon()) as delivery:
            for number in range(20):
                await delivery.deliver(event(number, size=50_000).data, str(number))
            await anyio.sleep(0.5)
            report = await delivery.finish()
        assert (report.delivered, report.spooled) == (20, 0)
        collector.wait_for(20)
    for connection in collector.received:
        for line in bytes(connection).split(b"\n")[:-1]:
            assert json.loads(line)["id"], "no half line was continued"

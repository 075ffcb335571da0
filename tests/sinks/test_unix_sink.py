"""Sockets to collectors that are absent, late, deaf, slow, confused or dying."""

import os
import signal
import socket
import threading
import time

import anyio
import pytest

from sandbox_judge.errors import DeliveryError, SettingsError
from sandbox_judge.sinks.unix import UnixSink
from sandbox_judge.testing.collector import Behaviour, Collector

pytestmark = pytest.mark.anyio


class Run:
    """A sink, and what it has reported as taken."""

    def __init__(self, path, *, acks=False, seconds=5.0):
        self.sink = UnixSink(path, acks=acks)
        self.taken = []
        self.seconds = seconds

    async def send(self, *lines):
        await self.sink.send(lines, deadline=anyio.current_time() + self.seconds, taken=self.taken.append)

    async def finish(self):
        await self.sink.finish(deadline=anyio.current_time() + self.seconds, taken=self.taken.append)


@pytest.fixture
def path(tmp_path):
    # Short, whatever pytest's own directory is called: a socket's path has 107 bytes.
    return tmp_path / "s"


async def test_taken_once_our_side_is_shut_down(event, path):
    with Collector(path) as collector:
        run = Run(path)
        await run.send(event(1), event(2))
        await run.send(event(3, size=300_000))
        assert run.taken == []
        await run.finish()
        assert run.taken == ["1", "2", "3"]
        collector.wait_for(3)
        assert len(collector.received) == 1, "one connection a run"
        await run.send(event(4))
        await run.finish()
        collector.wait_for(4)


@pytest.mark.parametrize("acks", ["each", "confused", "at_end"])
async def test_taken_at_the_acknowledgement(event, path, acks):
    with Collector(path, Behaviour(acks=acks, chatter=b"hello\n")) as collector:
        run = Run(path, acks=True)
        await run.send(*[event(n) for n in range(20)])
        await run.finish()
        assert run.taken == [str(n) for n in range(20)]
        assert collector.ids() == run.taken


async def test_without_an_acknowledgement_nothing_is_taken(event, path):
    with Collector(path) as collector:
        run = Run(path, acks=True)
        await run.send(event(1))
        with pytest.raises(DeliveryError, match="1 of the events sent had no acknowledgement"):
            await run.finish()
        assert collector.ids() == ["1"]
    with Collector(path, Behaviour(reads=False)):
        run = Run(path, acks=True, seconds=0.2)
        await run.send(event(1))
        with pytest.raises(DeliveryError, match="no acknowledgement before the deadline"):
            await run.finish()
    assert run.taken == []


async def test_an_acknowledgement_in_pieces_and_garbage_without_end(event, path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve():
        connection = listener.accept()[0]
        connection.recv(100_000)
        connection.sendall(b"\x00" * 200_000 + b'\n{"ack"')
        time.sleep(0.05)
        connection.sendall(b': "1"}\n')
        with pytest.raises(OSError):
            while True:
                connection.sendall(b"garbage" * 10_000)
        connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    run = Run(path, acks=True)
    await run.send(event(1))
    await run.finish()
    assert run.taken == ["1"]
    thread.join(5)
    listener.close()


async def test_missing_stale_datagram_and_no_socket_have_reasons_of_their_own(event, path):
    reasons = []

    async def reason():
        with pytest.raises(DeliveryError) as caught:
            await Run(path).send(event(1))
        reasons.append(caught.value.message)

    await reason()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
        stale.listen()
    await reason()
    path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        datagram.bind(str(path))
        await reason()
    path.unlink()
    path.write_text("a file")
    await reason()
    assert [
        word in text
        for word, text in zip(("no socket", "stale", "datagram", "not a socket"), reasons, strict=True)
    ] == [True] * 4
    assert len(set(reasons)) == 4


async def test_a_full_backlog_is_tried_again_until_there_is_room(event, path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        waiting = []
        with pytest.raises(BlockingIOError):
            while len(waiting) < 100:
                waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                waiting[-1].connect(str(path))
        with pytest.raises(DeliveryError, match="before the deadline"):
            await Run(path, seconds=0.1).send(event(1))
        run = Run(path)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.send, event(1))
            await anyio.sleep(0.05)
            for _ in range(len(waiting) - 1):
                listener.accept()[0].close()
        connection = listener.accept()[0]
        assert connection.recv(1000) == event(1).data + b"\n"
        await run.sink.aclose()
        connection.close()
        for other in waiting:
            other.close()


@pytest.mark.parametrize("acks", [True, False])
@pytest.mark.parametrize("behaviour", [Behaviour(reads=False), Behaviour(byte_every_s=0.05)])
async def test_a_deaf_or_dripping_collector_costs_the_deadline_and_no_more(event, path, acks, behaviour):
    with Collector(path, behaviour):
        run = Run(path, acks=acks, seconds=0.3)
        start = time.monotonic()
        with pytest.raises(DeliveryError, match="does not read"):
            await run.send(event(1, size=2_000_000))
        assert 0.25 < time.monotonic() - start < 1
        assert run.taken == []


async def test_a_collector_that_never_reads_takes_what_the_kernel_holds(event, path):
    """The contract of `unix:`: all bytes written and our side shut down; `unix+ack:` is for more."""
    with Collector(path, Behaviour(accepts=False)):
        run = Run(path)
        await run.send(event(1))
        await run.finish()
        assert run.taken == ["1"]


async def test_half_a_line_is_never_continued(event, path):
    with Collector(path, Behaviour(die_after=100_000)) as collector:
        run = Run(path)
        with pytest.raises(DeliveryError, match="connection broke"):
            await run.send(event(1))
            await run.send(event(2, size=3_000_000))
            await run.finish()
        assert run.taken == []
        await run.send(event(1), event(2, size=3_000_000))
        await run.finish()
        collector.wait_for(2)
        assert run.taken == ["1", "2"]
        assert len(collector.received[0]) == 100_000
        assert bytes(collector.received[1]) == event(1).data + b"\n"


async def test_a_death_right_after_the_last_byte_is_noticed(event, path):
    with Collector(path, Behaviour(die_after=10)):
        run = Run(path)
        with pytest.raises(DeliveryError, match="connection broke"):
            await run.send(event(1))
            await run.finish()
        assert run.taken == []


async def test_a_collector_of_one_line_a_connection_gets_all(event, path):
    with Collector(path, Behaviour(lines_each=1)) as collector:
        run = Run(path)
        lines = [event(n) for n in range(4)]
        with pytest.raises(DeliveryError):
            for line in lines:
                await run.send(line)
                await anyio.sleep(0.02)
        await run.send(*lines)
        await run.finish()
        collector.wait_for(4)
        assert run.taken == ["0", "1", "2", "3"]


async def test_answers_nobody_asked_for_and_a_closed_read_side(event, path):
    handler = signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a host may have it so
    try:
        with Collector(path, Behaviour(chatter=b"noise" * 10_000)) as collector:
            run = Run(path)
            await run.send(event(1))
            await run.finish()
            collector.wait_for(1)
        path.unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            run = Run(path)
            await run.send(event(1))
            connection = listener.accept()[0]
            connection.shutdown(socket.SHUT_RD)
            with pytest.raises(DeliveryError, match="broken pipe"):
                await run.send(event(2))
            connection.close()
    finally:
        signal.signal(signal.SIGPIPE, handler)


@pytest.mark.parametrize("acks", [True, False])
async def test_a_collector_that_waits_for_us_to_read_its_answers(event, path, acks):
    """Both sides full: whoever only writes would wait for ever."""
    with Collector(path, Behaviour(acks="confused")) as collector:
        run = Run(path, acks=acks)
        for n in range(100):
            await run.send(event(n, size=10_000))
        await run.finish()
        collector.wait_for(100)
        assert len(run.taken) == 100


async def test_paths_around_the_limit_are_counted_in_bytes(event, tmp_path):
    directory = tmp_path / "d"
    directory.mkdir()
    for length in (107, 108, 200):
        room = length - len(os.fsencode(directory)) - 1
        if room < 1:
            pytest.skip("the temporary directory's own path is too long")
        # Two bytes a letter; beyond the limit the last part stays short and the directories are long.
        path = directory / ("é" * (room // 2) + "x" * (room % 2))
        if length > 107:
            path = directory / ("ö" * ((room - 3) // 2) + "y" * ((room - 3) % 2)) / "sk"
            path.parent.mkdir()
        assert len(os.fsencode(path)) == length
        here = os.open(path.parent, os.O_PATH)
        with Collector(type(path)(f"/proc/self/fd/{here}/{path.name}")) as collector:
            run = Run(path)
            await run.send(event(length))
            await run.finish()
            collector.wait_for(1)
        os.close(here)


async def test_a_name_too_long_for_any_way_is_told_with_its_length_in_bytes(tmp_path):
    path = tmp_path / ("é" * 60)
    with pytest.raises(SettingsError, match=rf"{len(os.fsencode(path))} bytes and its last part 120"):
        UnixSink(path)


async def test_cancellation_leaves_no_connection(event, path):
    with Collector(path, Behaviour(reads=False)):
        before = len(os.listdir("/proc/self/fd"))
        run = Run(path)
        with anyio.move_on_after(0.1):
            await run.send(event(1, size=2_000_000))
        assert len(os.listdir("/proc/self/fd")) <= before + 1, "the collector's end of it may still be open"
        assert run.sink._socket is None


async def test_near_the_deadline_a_slow_reader_is_trusted_rather_than_timed_out(event, path):
    with Collector(path, Behaviour(accepts=False)):
        run = Run(path, seconds=0.1)
        await run.send(event(1))
        await run.finish()
        assert run.taken == ["1"]

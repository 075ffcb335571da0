"""Raw writes on a descriptor: whole lines, or a failure that says so."""

import fcntl
import json
import os
import pty
import socket
import subprocess
import sys
import threading
import time

import anyio
import anyio.lowlevel
import pytest

from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.base import SinkBroken
from sandbox_judge.sinks.stdout import StdoutSink

pytestmark = pytest.mark.anyio


async def sent(sink, *lines, seconds=5.0):
    taken = []
    try:
        await sink.send(lines, deadline=anyio.current_time() + seconds, taken=taken.append)
    finally:
        await sink.aclose()
    return taken


def reading(fd, pause_s=0.0):
    """Reads a descriptor to its end in a thread; the function returned gives all of it."""
    got = bytearray()

    def read():
        time.sleep(pause_s)
        while data := os.read(fd, 50_000):
            got.extend(data)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()

    def result():
        thread.join(5)
        os.close(fd)
        return bytes(got)

    return result


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_line_larger_than_the_pipe_arrives_whole(event, blocking):
    read, write = os.pipe()
    os.set_blocking(write, blocking)
    big = event(1, size=300_000)
    result = reading(read, pause_s=0.2)
    assert await sent(StdoutSink(write), big, event(2)) == ["1", "2"]
    assert os.get_blocking(write) is blocking, "the flags are shared with others and stay as they are"
    os.close(write)
    assert result() == big.data + b"\n" + event(2).data + b"\n"


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_reader_that_never_reads_costs_the_deadline_and_no_more(event, blocking):
    read, write = os.pipe()
    os.set_blocking(write, blocking)
    sink = StdoutSink(write)
    start = time.monotonic()
    with pytest.raises(DeliveryError, match="nobody reads"):
        await sink.send([event(1, size=300_000)], deadline=anyio.current_time() + 0.2, taken=[].append)
    assert time.monotonic() - start < 1
    # Half a line is in the pipe: a second one must not be glued to it.
    with pytest.raises(SinkBroken, match="cut in the middle"):
        await sent(sink, event(2))
    os.close(write)
    os.close(read)


async def test_a_full_pipe_that_took_nothing_may_be_tried_again(event):
    read, write = os.pipe()
    size = fcntl.fcntl(write, fcntl.F_GETPIPE_SZ)
    os.write(write, b"x" * (size - 1) + b"\n")
    sink = StdoutSink(write)
    with pytest.raises(DeliveryError, match="nobody reads"):
        await sink.send([event(1)], deadline=anyio.current_time() + 0.05, taken=[].append)
    assert len(os.read(read, size)) == size
    assert await sent(sink, event(1)) == ["1"]
    os.close(write)
    assert os.read(read, size) == event(1).data + b"\n"
    os.close(read)


async def test_waiting_for_a_slow_reader_does_not_stop_other_tasks(event):
    read, write = os.pipe()
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        with pytest.raises(DeliveryError):
            await sent(StdoutSink(write), event(1, size=300_000), seconds=0.3)
        tasks.cancel_scope.cancel()
    assert ticks > 10
    os.close(read)
    os.close(write)


async def test_a_pipe_that_cannot_be_opened_anew_is_written_in_small_pieces(event, monkeypatch):
    read, write = os.pipe()
    sink = StdoutSink(write)
    real_open = os.open

    def refusing(path, flags, *rest, **named):
        if str(path).startswith("/proc/self/fd"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refusing)
    result = reading(read, pause_s=0.1)
    assert await sent(sink, event(1, size=200_000)) == ["1"]
    os.close(write)
    assert result() == event(1, size=200_000).data + b"\n"


async def test_a_closed_reader_breaks_the_sink_for_good(event):
    read, write = os.pipe()
    os.close(read)
    sink = StdoutSink(write)
    for _ in range(2):
        with pytest.raises(SinkBroken, match="its reader closed the pipe"):
            await sink.send([event(1)], deadline=anyio.current_time() + 1, taken=[].append)
    await sink.aclose()
    os.close(write)


async def test_a_full_device(event):
    fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(DeliveryError, match="No space left"):
        await sent(StdoutSink(fd), event(1))
    os.close(fd)


async def test_a_descriptor_that_is_closed(event):
    with pytest.raises(SinkBroken, match="stdout is closed"):
        await sent(StdoutSink(None), event(1))
    fd = os.dup(0)
    os.close(fd)
    with pytest.raises(DeliveryError, match="Bad file descriptor"):
        await sent(StdoutSink(fd), event(1))


async def test_a_socket_and_its_closed_reader(event):
    ours, theirs = socket.socketpair()
    with ours:
        result = reading(theirs.detach())
        sink = StdoutSink(ours.fileno())
        assert await sent(sink, event(1, size=500_000)) == ["1"]
        ours.shutdown(socket.SHUT_WR)
        assert result() == event(1, size=500_000).data + b"\n"
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(SinkBroken):
        await sent(StdoutSink(ours.fileno()), event(1))


async def test_a_terminal_and_a_file(event, tmp_path):
    leader, follower = pty.openpty()
    assert await sent(StdoutSink(follower), event(1)) == ["1"]
    assert os.read(leader, 1000) == event(1).data + b"\r\n"
    os.close(leader)
    os.close(follower)
    with (tmp_path / "out").open("wb") as file:
        assert await sent(StdoutSink(file.fileno()), event(1, size=300_000)) == ["1"]
    assert (tmp_path / "out").read_bytes() == event(1, size=300_000).data + b"\n"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_lines_of_up_to_pipe_buf_stay_whole_among_writers(event, anyio_backend):
    read, write = os.pipe()
    result = reading(read)
    line = event(1, size=4_000)
    assert len(line.data) < 4_096

    async def burst(sink):
        for _ in range(100):
            await sink.send([line], deadline=anyio.current_time() + 5, taken=[].append)
            await anyio.lowlevel.checkpoint()
        await sink.aclose()

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(burst, StdoutSink(write))
    os.close(write)
    assert set(result().split(b"\n")) == {line.data, b""}


CHILD = """
import os, sys, anyio
from sandbox_judge.sinks.stdout import StdoutSink, claim_stdout
from sandbox_judge.sinks.base import Line
fd = claim_stdout()
first = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("printed"); sys.stdout and sys.stdout.flush()
os.write(1, b"by a library\\n"); os.system("echo by a child")
async def main():
    try:
        line = Line("1", b'{"id":"1"}')
        await StdoutSink(fd).send([line], deadline=anyio.current_time() + 1, taken=[].append)
    except Exception as error:
        os.write(2, type(error).__name__.encode())
anyio.run(main)
os._exit(first)
"""


def test_only_events_reach_a_claimed_stdout(tmp_path):
    done = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "f"], capture_output=True, timeout=20)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"id": "1"}]
    assert done.stderr.split() == b"printed by a library by a child".split()


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_with_stdout_closed_at_start_the_first_file_opened_is_not_stdout(tmp_path, closed):
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -c "$1" "$2" {closed}', sys.executable, CHILD, tmp_path / "f"],
        capture_output=True,
        timeout=20,
    )
    assert done.returncode > 2
    assert (tmp_path / "f").read_bytes() == b""
    assert done.stdout == b""
    if closed == ">&-":
        assert b"SinkBroken" in done.stderr

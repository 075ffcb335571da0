"""Whole lines at the end of a file, whoever else writes there and whatever the disk says."""

import fcntl
import json
import os
import resource
import subprocess
import sys
import time

import anyio
import pytest

from sandbox_judge.errors import DeliveryError, SettingsError
from sandbox_judge.sinks.file import FileSink

pytestmark = pytest.mark.anyio


async def sent(path, *lines, seconds=5.0):
    taken = []
    await FileSink(path).send(lines, deadline=anyio.current_time() + seconds, taken=taken.append)
    return taken


async def test_appends_and_is_private(event, tmp_path):
    path = tmp_path / "events.jsonl"
    assert await sent(path, event(1), event(2)) == ["1", "2"]
    assert await sent(path, event(3)) == ["3"]
    assert [json.loads(line)["id"] for line in path.read_bytes().splitlines()] == ["1", "2", "3"]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_half_line_of_a_dead_writer_is_not_continued(event, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"id":"0"}\n{"id":"hal')
    await sent(path, event(1))
    assert path.read_bytes().splitlines()[1:] == [b'{"id":"hal', event(1).data]


async def test_a_link_a_pipe_and_a_directory_are_refused(event, tmp_path):
    victim = tmp_path / "victim"
    victim.touch()
    (tmp_path / "link").symlink_to(victim)
    os.mkfifo(tmp_path / "pipe")
    for name, reason in [("link", "symbolic link"), ("pipe", "opened|regular"), (".", "Is a directory")]:
        with pytest.raises(DeliveryError, match=reason):
            await sent(tmp_path / name, event(1))
        with pytest.raises(SettingsError, match=reason):
            FileSink(tmp_path / name).probe()
    assert victim.read_bytes() == b""


async def test_a_full_device(event, tmp_path):
    with pytest.raises(DeliveryError, match="No space left"):
        await sent(type(tmp_path)("/dev/full"), event(1))


async def test_what_did_not_fit_is_taken_back(event, tmp_path):
    path = tmp_path / "events.jsonl"
    await sent(path, event(1))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))  # a disk that fills up amid the line
    try:
        with pytest.raises(DeliveryError, match="File too large"):
            await sent(path, event(2, size=20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert await sent(path, event(3)) == ["3"]


async def test_a_writer_that_holds_the_lock_costs_the_deadline_and_no_more(event, tmp_path):
    path = tmp_path / "events.jsonl"
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        start = time.monotonic()
        with pytest.raises(DeliveryError, match="lock"):
            await sent(path, event(1), seconds=0.1)
        assert time.monotonic() - start < 1
    assert path.read_bytes() == b""


async def test_a_rotated_file_is_left_behind(event, tmp_path):
    path = tmp_path / "events.jsonl"
    sink = FileSink(path)
    for number in (1, 2):
        await sink.send([event(number)], deadline=anyio.current_time() + 1, taken=[].append)
        path.rename(tmp_path / f"rotated.{number}")
    assert json.loads((tmp_path / "rotated.2").read_bytes())["id"] == "2"


WRITER = """
import sys, anyio
from pathlib import Path
from sandbox_judge.sinks.base import Line
from sandbox_judge.sinks.file import FileSink
async def main():
    sink = FileSink(Path(sys.argv[1]))
    for n in range(20):
        data = b'{"id":"%s-%d","x":"%s"}' % (sys.argv[2].encode(), n, b"x" * 100_000)
        await sink.send([Line("x", data)], deadline=anyio.current_time() + 20, taken=[].append)
anyio.run(main)
"""


def test_several_writers_of_long_lines(tmp_path):
    path = tmp_path / "events.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, str(n)]) for n in range(3)]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]
    ids = [json.loads(line)["id"] for line in path.read_bytes().splitlines()]
    assert sorted(ids) == sorted(f"{writer}-{n}" for writer in range(3) for n in range(20))


async def test_of_a_batch_what_fitted_is_taken(event, tmp_path):
    path = tmp_path / "events.jsonl"
    taken = []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(DeliveryError, match="File too large"):
            lines = [event(number, size=2_000) for number in range(5)]
            await FileSink(path).send(lines, deadline=anyio.current_time() + 1, taken=taken.append)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert taken == ["0", "1"]
    assert [json.loads(line)["id"] for line in path.read_bytes().splitlines()] == taken

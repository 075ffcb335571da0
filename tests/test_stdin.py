"""Reading a stream that may never close: real pipes, short waits."""

import json
import os

import anyio
import pytest

from sandbox_judge.errors import InputError
from sandbox_judge.stdin import read_stream

pytestmark = pytest.mark.anyio

TALK = json.dumps([{"role": "user", "content": "hello"}]).encode()
ENVELOPE = b'{"conversation": ' + TALK + b"}"


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        try:
            os.close(fd)
        except OSError:
            continue


async def received(fd, **options):
    with anyio.fail_after(5):
        return await read_stream(fd, deadline=anyio.current_time() + options.pop("within", 4), **options)


@pytest.mark.parametrize("document", [TALK, ENVELOPE, b" \n" + TALK + b" \n"])
async def test_a_whole_document_ends_an_open_stream_early(pipe, document):
    os.write(pipe[1], document)
    started = anyio.current_time()
    got = await received(pipe[0])
    assert got.data == document
    assert not got.cut_short
    assert anyio.current_time() - started < 1


@pytest.mark.parametrize("document", [b'{"messages": []}', b'{"type": "user"}\n', TALK[:-1], b""])
async def test_all_else_waits_for_the_end_but_not_for_ever(pipe, document):
    os.write(pipe[1], document)
    got = await received(pipe[0], idle_s=0.1)
    assert got.data == document
    assert got.cut_short


async def test_the_deadline_is_earlier_than_the_patience(pipe):
    started = anyio.current_time()
    got = await received(pipe[0], within=0.05, idle_s=3)
    assert got.cut_short
    assert anyio.current_time() - started < 1


async def test_a_closed_stream_is_read_to_its_end(pipe):
    os.write(pipe[1], b'{"messages": []}\n{"messages": []}\n')
    os.close(pipe[1])
    got = await received(pipe[0])
    assert got.data.count(b"\n") == 2
    assert not got.cut_short


async def test_an_array_that_comes_in_pieces_is_awaited(pipe):
    async def write():
        for piece in (TALK[:5], TALK[5:-1], TALK[-1:]):
            os.write(pipe[1], piece)
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        got = await received(pipe[0])
    assert got.data == TALK


async def test_a_regular_file_is_read_whole(tmp_path):
    path = tmp_path / "conversation.json"
    path.write_bytes(TALK)
    with open(path, "rb") as file:
        assert (await received(file.fileno())).data == TALK


async def test_too_much_is_refused(pipe, tmp_path):
    os.write(pipe[1], b"x" * 100)
    with pytest.raises(InputError):
        await received(pipe[0], most_bytes=99)
    path = tmp_path / "large"
    path.write_bytes(b"x" * 100)
    with open(path, "rb") as file, pytest.raises(InputError):
        await received(file.fileno(), most_bytes=99)


async def test_a_device_is_read_to_its_end_or_to_a_bound():
    with open(os.devnull, "rb") as null:
        assert (await received(null.fileno())).data == b""
    with open("/dev/zero", "rb") as zeros:
        with pytest.raises(InputError):
            await received(zeros.fileno(), most_bytes=1 << 22)
        assert (await received(zeros.fileno(), within=-1)).cut_short

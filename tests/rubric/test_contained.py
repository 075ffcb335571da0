"""A child that cannot outlive its deadline, whatever it starts."""

import os
import sys
import time
from pathlib import Path

import anyio
import pytest

from sandbox_judge.rubric.contained import NotStarted, run_contained

pytestmark = pytest.mark.anyio


async def contained(code, *, seconds=10.0, **options):
    return await run_contained(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"]},
        cwd=Path("/"),
        deadline=anyio.current_time() + seconds,
        **options,
    )


def is_alive(pid):
    """Whether it runs still; a zombie that its new parent has not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def gone(pid):
    end = time.monotonic() + 3
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_alive(pid)


async def test_output_code_and_end_of_errors():
    ended = await contained(
        "import sys; print(sys.stdin.read().upper()); sys.stderr.write('e' * 9000); sys.exit(3)",
        stdin=b"hello",
        most_errors=100,
    )
    assert (ended.code, ended.output, ended.errors) == (3, b"HELLO\n", b"e" * 100)


async def test_much_input_and_output_do_not_lock_each_other():
    data = b"x" * 3_000_000
    ended = await contained(
        "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d)",
        stdin=data,
        most_output=4_000_000,
    )
    assert ended.output == data
    ended = await contained("print('does not read')", stdin=data)
    assert (ended.code, ended.output) == (0, b"does not read\n")


async def test_a_hang_is_killed_with_children_that_left_the_group(tmp_path):
    code = f"""
import os, subprocess, sys, time
sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
one = subprocess.Popen(sleeper)
two = subprocess.Popen(sleeper, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({str(tmp_path / "third")!r}, "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
open({str(tmp_path / "pids")!r}, "w").write(f"{{one.pid}} {{two.pid}}")
time.sleep(60)
"""
    began = time.monotonic()
    ended = await contained(code, seconds=1.5)
    assert (ended.code, ended.timed_out) == (None, True)
    assert time.monotonic() - began < 5
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    pids.append(int((tmp_path / "third").read_text()))
    assert [gone(pid) for pid in pids] == [True] * 3


async def test_what_a_finished_child_left_running_is_killed_and_not_waited_for():
    began = time.monotonic()
    ended = await contained(
        "import subprocess, sys\n"
        "sleeper = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "p = subprocess.Popen(sleeper, start_new_session=True)\n"
        "print(p.pid)"
    )
    assert ended.code == 0
    assert time.monotonic() - began < 5
    assert gone(int(ended.output))


async def test_cancelling_kills_it(tmp_path):
    place = tmp_path / "pid"
    with anyio.move_on_after(1.0) as scope:
        await contained(f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    assert scope.cancelled_caught
    assert gone(int(place.read_text()))


async def test_too_much_output_ends_it_or_is_cut():
    flood = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    ended = await contained(flood, most_output=100_000)
    assert (ended.code, ended.overflow, len(ended.output)) == (None, True, 100_000)
    ended = await contained("print('x' * 10_000)", most_output=10, kill_on_overflow=False)
    assert (ended.code, ended.output) == (0, b"x" * 10)


async def test_what_cannot_start_is_told():
    with pytest.raises(NotStarted):
        await run_contained(["/no/such"], env={}, cwd=Path("/"), deadline=anyio.current_time() + 1)
    with pytest.raises(NotStarted):
        await run_contained(["a\0b"], env={}, cwd=Path("/"), deadline=anyio.current_time() + 1)

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from sandbox_judge.gate.child import Work
from sandbox_judge.gate.worker import Answer, Found, NoAnswer, run_jobs

SLOW = "[ab]*a[ab]{900}z"
HARD = "".join(random.Random(3).choices("ab", k=200_000)) * 5 + "!z"


def children() -> set[int]:
    """Our child processes, zombies too."""
    mine = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(after_name[1]) == os.getpid():
                mine.add(int(entry.name))
    return mine


def work_of(*searches: tuple[str, str], bound_s: float = 0.25) -> Work:
    patterns, texts = tuple(p for p, _ in searches), tuple(t for _, t in searches)
    return patterns, texts, tuple((((((n,), (n,))),),) for n in range(len(searches))), bound_s


async def answers(work: Work, within: float = 10.0, total_s: float = 5.0) -> dict[int, Answer]:
    got: dict[int, Answer] = {}

    def settled(job: int, answer: Answer) -> None:
        assert job not in got
        got[job] = answer

    before = children()
    await run_jobs(work, deadline=anyio.current_time() + within, total_s=total_s, settled=settled)
    assert children() == before
    return got


@pytest.mark.anyio
async def test_answers_each_job_once() -> None:
    work = work_of(("b+", "abc"), ("x", "abc"), ("(?i)É", "caf\u00e9"), ("(?=a)", "a"), ("a", "\x00a\n"))
    got = await answers(work)
    assert got[0] == got[2] == got[4] == Found(0)
    assert got[1] == Found(None)
    assert isinstance(got[3], NoAnswer) and "refused" in got[3].message


@pytest.mark.anyio
async def test_the_first_alternative_of_which_every_clause_holds() -> None:
    both = (((0,), (0,)), ((1,), (0, 1)))
    job = (both, (((0, 1), (1,)),))
    assert (await answers((("a", "b"), ("a", "b"), (job,), 0.25)))[0] == Found(0)
    assert (await answers((("a", "b"), ("x", "b"), (job,), 0.25)))[0] == Found(1)
    assert (await answers((("a", "b"), ("x", "y"), (job,), 0.25)))[0] == Found(None)


@pytest.mark.anyio
async def test_a_slow_job_costs_itself_alone() -> None:
    got = await answers(work_of((SLOW, HARD), ("z$", HARD), (SLOW, HARD), ("^b?a", HARD)))
    assert isinstance(got[0], NoAnswer) and isinstance(got[2], NoAnswer)
    assert got[1] == got[3] == Found(0)


@pytest.mark.anyio
async def test_ten_megabytes_get_there_and_back() -> None:
    text = "lorem é ipsum " * 700_000 + "needle"
    assert (await answers(work_of(("needle$", text), ("needles", text))))[0] == Found(0)


@pytest.mark.anyio
async def test_all_jobs_are_answered_when_time_is_short() -> None:
    work = work_of(*[(SLOW, HARD)] * 12)
    began = time.monotonic()
    got = await answers(work, total_s=0.6)
    assert len(got) == 12 and all(isinstance(answer, NoAnswer) for answer in got.values())
    assert time.monotonic() - began < 2
    assert len(await answers(work, within=-1.0)) == 12


@pytest.mark.anyio
async def test_cancelling_leaves_no_process() -> None:
    before = children()
    with anyio.move_on_after(0.15) as scope:
        await run_jobs(
            work_of((SLOW, HARD), bound_s=30),
            deadline=anyio.current_time() + 60,
            total_s=60,
            settled=lambda *_: None,
        )
    assert scope.cancelled_caught
    assert children() == before


@pytest.mark.anyio
async def test_no_interpreter_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    (answer,) = (await answers(work_of(("a", "a")))).values()
    assert isinstance(answer, NoAnswer) and "no other can be started" in answer.message
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    (answer,) = (await answers(work_of(("a", "a")))).values()
    assert isinstance(answer, NoAnswer) and "ended" in answer.message
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (answer,) = (await answers(work_of(("a", "a")))).values()
    assert isinstance(answer, NoAnswer)


@pytest.mark.anyio
async def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("signal", "marshal", "sitecustomize", "usercustomize", "encodings", "engine"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "engine.py"))
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    assert await answers(work_of(("a", "a"))) == {0: Found(0)}


def test_a_child_outlives_a_killed_parent_by_little() -> None:
    script = (
        "import anyio, random\n"
        "from sandbox_judge.gate.worker import run_jobs\n"
        "async def main():\n"
        "    text = ''.join(random.choices('ab', k=200_000)) * 50 + '!z'\n"
        "    work = (('[ab]*a[ab]{900}z',), (text,), (((((0,), (0,)),),),), 0.2)\n"
        "    print('go', flush=True)\n"
        "    await run_jobs(work, deadline=anyio.current_time() + 60, total_s=60, settled=print)\n"
        "anyio.run(main)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    try:
        parent.stdout.readline()
        child = wait_for_child(parent.pid)
        os.kill(parent.pid, signal.SIGKILL)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    ends = time.monotonic() + 5
    while Path(f"/proc/{child}").exists() and not is_zombie(child):
        assert time.monotonic() < ends, "the child lives on"
        time.sleep(0.02)


def wait_for_child(parent: int) -> int:
    for _ in range(500):
        found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.005)
    raise AssertionError("no child was started")


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True

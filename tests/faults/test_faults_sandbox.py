"""What a sandbox can do to the hook: full and read-only disks, no home, little memory, few descriptors and
processes, leaping clocks, a starved or frozen process, streams that do not behave.

Signals that the hook answers, closed and full stdout, and hostile folders: tests/cli/test_process.py.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from fault_bench import (
    SLACK_S,
    TALK,
    Sandbox,
    TruthfulModel,
    collected,
    finished,
    hold_account,
    judgements,
    own_folder,
    side_by_side,
    wait_for,
)

from sandbox_judge.testing.answers import hang
from sandbox_judge.testing.collector import Behaviour, Collector
from sandbox_judge.testing.model_server import ModelServer

MEMORY = Path("/sys/fs/cgroup/memory")
PROCESSES = Path("/sys/fs/cgroup/pids")


def may_mount():
    return os.geteuid() == 0 and not subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode


needs_mounts = pytest.mark.skipif(not may_mount(), reason="only root can mount a small or read-only disk")


@pytest.fixture(scope="module")
def model():
    with TruthfulModel() as truthful:
        yield truthful


@pytest.fixture
def sandbox(model):
    with own_folder() as folder:
        yield Sandbox(folder, providers=openai(model.server))


def openai(server):
    return {"openai": {"base_url": server.base_url}}


def world(script):
    """The command that starts a process in a mount namespace of its own, after `script`."""
    return ["unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh"]


def hold_verdicts(done, model, count=3):
    events = hold_account(done, count)
    assert all(event["payload"]["result"] for event in events), done.results
    assert model.invented(events) == []
    return events


# Streams


def test_a_broken_pipe_signal_means_nothing(sandbox, model):
    child = sandbox.start()
    time.sleep(0.15)
    child.send_signal(signal.SIGPIPE)
    done = finished(child, TALK)
    hold_verdicts(done, model)
    assert done.code == 0


def says_nothing(sandbox):
    """Stdin stays open and silent: two seconds, then a paragraph."""
    child = sandbox.start()
    began = time.monotonic()
    assert child.wait(20) == 2
    assert time.monotonic() - began < 2 + SLACK_S
    assert b"Traceback" not in child.stderr.read()
    child.communicate()


def says_lines(sandbox):
    """JSON Lines on a stdin that stays open, the last one torn: what is whole is graded."""
    rows = [json.dumps(entry) for entry in json.loads(TALK)]
    child = sandbox.start()
    child.stdin.write("\n".join([*rows, '{"role": "assis']).encode())
    child.stdin.flush()
    out = child.stdout.read()
    assert child.wait(20) == 0
    assert len(out.splitlines()) == 3
    assert "still open" in child.stderr.read().decode()
    child.communicate()


def trickles(sandbox):
    """A byte now and then without end: the budget ends it."""
    child = sandbox.start("--budget", "2s")
    began = time.monotonic()
    for _ in range(100):
        if child.poll() is not None:
            break
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(b" ")
            child.stdin.flush()
        time.sleep(0.1)
    assert child.wait(5) == 2
    assert time.monotonic() - began < 2 + SLACK_S
    with contextlib.suppress(BrokenPipeError):
        child.communicate()


def test_a_stdin_that_never_closes_is_waited_for_within_bounds(sandbox):
    side_by_side(*[lambda way=way: way(sandbox) for way in (says_nothing, says_lines, trickles)])


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_reader_slower_than_the_pipe_gets_every_line_whole(model, kind):
    with TruthfulModel(words=450) as wordy, own_folder() as folder:
        sandbox = Sandbox(folder, judges=40, providers=openai(wordy.server))
        ours, theirs = socket.socketpair() if kind == "socket" else (None, None)
        child = sandbox.start(stdout=theirs or subprocess.PIPE)
        if theirs:
            theirs.close()
        child.stdin.write(TALK.encode())
        child.stdin.close()
        out = b""
        while piece := ours.recv(4_096) if ours else os.read(child.stdout.fileno(), 4_096):
            out += piece
            time.sleep(0.005)
        if ours:
            ours.close()
        assert child.wait(20) == 0
        events = [json.loads(line) for line in out.splitlines()]
        assert len(out) > 65_536
        assert len(events) == 40
        assert wordy.invented(events) == []
        child.stdin = None
        child.communicate()


def test_a_reader_that_never_reads_costs_the_budget_and_is_told(model):
    with TruthfulModel(words=450) as wordy, own_folder() as folder:
        sandbox = Sandbox(folder, judges=40, providers=openai(wordy.server))
        child = sandbox.start("--budget", "2s")
        child.stdin.write(TALK.encode())
        child.stdin.close()
        began = time.monotonic()
        assert child.wait(20) == 3
        assert time.monotonic() - began < 2 + SLACK_S
        err = child.stderr.read().decode()
        assert "nobody reads" in err
        assert "Traceback" not in err
        whole = child.stdout.read().split(b"\n")[:-1]
        assert all(json.loads(line) for line in whole)
        child.stdin = None
        child.communicate()


# Disks and folders


@needs_mounts
def test_a_full_disk_under_the_spool_is_told_and_what_can_be_sent_is_sent(sandbox, model):
    full = world(
        f"mkdir -p {sandbox.state} && mount -t tmpfs -o size=16k,mode=0700 none {sandbox.state}"
        f" && (dd if=/dev/zero of={sandbox.state}/filler bs=1k 2>/dev/null; true)"
    )
    with Collector(Path(sandbox.address), Behaviour(acks="each")) as collector:
        done = sandbox.run("--sink", f"unix+ack:{sandbox.address}", "--sink", "stdout", within=full)
        hold_verdicts(done, model)
        assert {event["id"] for event in judgements(collector)} == {event["id"] for event in done.events}
    assert done.code == 0
    assert "spool" in done.err
    alone = sandbox.run("--sink", f"unix+ack:{sandbox.address}", "--budget", "3s", within=full)
    assert alone.code == 3
    assert "lost" in alone.err


def test_files_that_may_not_grow_lose_nothing_but_the_spool(sandbox, model):
    """RLIMIT_FSIZE, as some sandboxes set it: SIGXFSZ must not kill."""
    done = sandbox.run("--sink", f"unix+ack:{sandbox.address}", "--sink", "stdout", "--budget", "9s",
                       within=["prlimit", "--fsize=512"])  # fmt: skip
    hold_verdicts(done, model)
    assert done.code == 3


@needs_mounts
def test_a_read_only_machine_without_home_tmpdir_or_terminal(sandbox, model):
    read_only = world("mount --bind / / && mount -o remount,ro,bind / && mount -o ro,remount,bind /")
    sandbox.environ = {"OPENAI_API_KEY": sandbox.environ["OPENAI_API_KEY"]}
    done = sandbox.run(within=[*read_only, "setsid", "--wait"])
    hold_verdicts(done, model)
    assert done.code == 0
    sent = sandbox.run("--sink", f"unix+ack:{sandbox.address}", "--sink", "stdout", "--budget", "9s",
                       within=[*read_only, "setsid", "--wait"])  # fmt: skip
    hold_verdicts(sent, model)
    assert sent.code == 3
    assert "spool" in sent.err


def test_a_home_that_is_a_file_and_a_working_directory_that_is_gone(sandbox, model):
    sandbox.home.write_text("")
    del sandbox.environ["SANDBOX_JUDGE_STATE_DIR"]
    gone = ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh"]
    done = sandbox.run(within=gone)
    hold_verdicts(done, model)
    assert done.code == 0


# Limits


@pytest.fixture
def memory_of_96_mib():
    """A group of the kernel's with that limit, and the command that starts a process in it."""
    group = MEMORY / f"sj-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("96M")
    except OSError:
        pytest.skip("no memory control group can be made here")
    try:
        yield group, ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text().split())
        group.rmdir()


def test_in_96_mib_of_memory_eight_judges_grade_a_long_conversation(model, memory_of_96_mib):
    group, within = memory_of_96_mib
    talk = json.dumps([*json.loads(TALK), {"role": "user", "content": "word " * 400_000}])
    with own_folder() as folder:
        sandbox = Sandbox(folder, judges=8, providers=openai(model.server))
        done = sandbox.run(within=within, talk=TALK)
        hold_verdicts(done, model, 8)
        # 2 MB is far beyond the view's allowance: refused by us, not by the kernel.
        long = sandbox.run(within=within, talk=talk)
    assert long.results == {"context_overflow": 8}
    peak = int((group / "memory.max_usage_in_bytes").read_text())
    assert peak < 96 << 20


def test_thirty_two_descriptors_serve_eight_judges_and_a_socket(model):
    with own_folder() as folder:
        sandbox = Sandbox(folder, judges=8, providers=openai(model.server))
        with Collector(Path(sandbox.address), Behaviour(acks="each")) as collector:
            done = sandbox.run("--sink", f"unix+ack:{sandbox.address}", "--sink", "stdout",
                               within=["prlimit", "--nofile=32"])  # fmt: skip
            hold_verdicts(done, model, 8)
            assert len(judgements(collector)) == 8
        assert done.code == 0


def test_where_no_descriptor_is_left_every_judge_still_has_its_null(model):
    with own_folder() as folder:
        sandbox = Sandbox(folder, judges=30, providers=openai(model.server))
        done = sandbox.run("--concurrency", "30", within=["prlimit", "--nofile=20"])
        events = hold_account(done, 30)
        assert model.invented(events) == []
        assert set(done.results) <= {"pass", "fail", "not_applicable", "connection"}, done.results


@pytest.fixture
def few_processes():
    """Makes the command that starts a process which may be so many, its threads and children counted."""
    group = PROCESSES / f"sj-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no control group of processes can be made here")

    def within(count):
        (group / "pids.max").write_text(str(count))
        return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]

    try:
        yield within
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text().split())
        group.rmdir()


def test_where_no_process_or_thread_can_be_started_it_is_told_in_a_paragraph(sandbox, model, few_processes):
    codes = []
    for count in (1, 2, 3, 4, 8):
        done = sandbox.run(within=few_processes(count))
        codes.append(done.code)
        if done.code == 0:
            hold_verdicts(done, model)
        else:
            assert done.code == 2, done.err
            assert done.events == []
            assert "internal error" not in done.err
            assert "further thread or process" in done.err or "could not be started" in done.err
    assert codes[0] == 2
    assert codes[-1] == 0


# Time


@pytest.fixture(scope="module")
def leaping(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("clock") / "leaps.so"
    source = Path(__file__).with_name("clock_jumps.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return library


def test_a_wall_clock_that_leaps_moves_no_deadline(leaping):
    with ModelServer(hang) as server, own_folder() as folder:
        sandbox = Sandbox(folder, providers=openai(server))
        sandbox.environ["LD_PRELOAD"] = str(leaping)
        done = sandbox.run("--budget", "2s", "--report", "json")
    events = hold_account(done, 3)
    assert done.results == {"timeout": 3}
    assert done.seconds < 2 + SLACK_S
    assert 1_300 < done.ledger["budget"]["used_ms"] < 2_000 + SLACK_S * 1000
    stamps = [event["timestamp"] for event in events]
    assert len({stamp[:13] for stamp in stamps} | {done.ledger["timestamp"][:13]}) > 1, "it did not leap"
    assert all(0 <= event["payload"]["timing"]["duration_ms"] < 5_000 for event in events)


def test_events_of_a_leaping_clock_leave_the_spool_once(leaping, model):
    with own_folder() as folder:
        sandbox = Sandbox(folder, providers=openai(model.server))
        sandbox.environ["LD_PRELOAD"] = str(leaping)
        done = sandbox.run("--sink", f"unix+ack:{sandbox.address}", "--sink", "stdout", "--budget", "9s")
        hold_verdicts(done, model)
        flushed, came = collected(sandbox)
        assert flushed.code == 0, flushed.err
        assert sorted(event["id"] for event in came) == sorted(event["id"] for event in done.events)
        assert sandbox.spooled() == []


def test_a_tenth_of_a_processor_is_enough(sandbox, model):
    """A fork bomb's neighbour: 10 ms of work, 90 ms of nothing."""
    child = sandbox.start("--budget", "60s")
    child.stdin.write(TALK.encode())
    child.stdin.close()
    child.stdin = None
    began = time.monotonic()
    while child.poll() is None and time.monotonic() - began < 60:
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.09)
        child.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    done = finished(child, began=began)
    hold_verdicts(done, model)
    assert done.code == 0


def test_frozen_for_longer_than_its_budget_it_ends_at_once_with_a_null_each():
    with ModelServer(hang) as server, own_folder() as folder:
        sandbox = Sandbox(folder, providers=openai(server))
        child = sandbox.start("--budget", "2s")
        child.stdin.write(TALK.encode())
        child.stdin.close()
        child.stdin = None
        wait_for(lambda: len(server.requests) == 3)
        child.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        woken = time.monotonic()
        child.send_signal(signal.SIGCONT)
        done = finished(child)
        assert time.monotonic() - woken < 1.5
    hold_account(done, 3)
    assert done.results == {"timeout": 3}
    assert done.code == 0


# Neighbours


def test_hooks_at_once_on_one_spool_deliver_everything_once(model):
    with own_folder() as folder:
        sandbox = Sandbox(folder, providers=openai(model.server))
        address = f"unix+ack:{sandbox.address}"

        def hook(number):
            return sandbox.run("--sink", address, "--sink", "stdout", "--conversation-id", str(number))

        before = sandbox.run("--sink", address, "--sink", "stdout", "--budget", "2s")
        assert before.code == 3
        with Collector(Path(sandbox.address), Behaviour(acks="each")) as collector:
            runs = side_by_side(*[lambda n=n: hook(n) for n in range(4)])
            assert sandbox.flush().code == 0
            came = [event["id"] for event in judgements(collector)]
        assert [run.code for run in runs] == [0] * 4
        made = [event["id"] for run in [before, *runs] for event in run.events]
        assert len(made) == 15
        assert sorted(came) == sorted(made)
        assert sandbox.spooled() == []

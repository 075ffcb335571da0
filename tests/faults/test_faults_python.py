"""The Python call under cancellation, deadlines and failing endpoints: nothing of it is left in the host.

What it gives, and calls from threads and at once: tests/test_api.py.
"""

import asyncio
import gc
import locale
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from fault_bench import KEY, TALK, TruthfulModel, descendants, judgements, own_folder, told
from recipes import committed, judge_text

import sandbox_judge
from sandbox_judge.errors import SandboxJudgeError
from sandbox_judge.settings import ProviderSettings
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.testing.answers import hang, reset
from sandbox_judge.testing.collector import Behaviour, Collector
from sandbox_judge.testing.model_server import ModelServer

pytestmark = pytest.mark.anyio

# Half of a second of patience for what ends by itself: worker threads of the event loops, closed sockets.
SETTLED_S = 0.5


def scene():
    """All that a call must leave as it was."""
    root = logging.getLogger()
    return {
        "descriptors": sorted(_descriptors()),
        "threads": sorted(thread.name for thread in threading.enumerate() if not _of_a_loop(thread)),
        "children": descendants(os.getpid()),
        "temporary": sorted(os.listdir(tempfile.gettempdir())),
        "signals": [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)],
        "logging": (root.level, list(root.handlers), logging.raiseExceptions, logging.root.manager.disable),
        "environment": dict(os.environ),
        "warnings": list(warnings.filters),
        "streams": (sys.stdout, sys.stderr, sys.excepthook, threading.excepthook, sys.unraisablehook),
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
        "switching": sys.getswitchinterval(),
        "timeout": socket.getdefaulttimeout(),
    }


def _descriptors():
    for entry in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{entry}").partition(":")[0]
        except OSError:
            continue


def _of_a_loop(thread):
    """anyio's and trio's own pools keep a worker for the host's next call."""
    return "worker" in thread.name.lower() or "trio" in thread.name.lower()


class Host:
    """A program that uses the package: a recipe, keys, an address for events."""

    def __init__(self, folder):
        files = {f"judges/j{n}.yaml": judge_text(f"j{n}") for n in range(4)}
        self.folder = Path(folder)
        commit = committed(self.folder / "r", {**files, "package.json": '{"name": "shop"}'})
        self.recipe = sandbox_judge.RecipeRef(path=str(self.folder / "r"), commit=commit)
        self.environ = {"OPENAI_API_KEY": KEY, "SANDBOX_JUDGE_STATE_DIR": str(self.folder / "state")}

    async def call(self, server, *, deadline_s=5.0, sinks=True, talk=None, **more):
        address = f"unix+ack:{self.folder}/c"
        opened = open_sinks([address], environ={}, cwd=self.folder) if sinks else []
        return await sandbox_judge.judge_conversation(
            TALK.encode() if talk is None else talk,
            recipe=self.recipe,
            envelope=sandbox_judge.Envelope(environment="development"),
            settings=sandbox_judge.Settings(providers={"openai": ProviderSettings(base_url=server.base_url)}),
            deadline_s=deadline_s,
            sinks=opened,
            environ=self.environ,
            **more,
        )


@pytest.fixture(autouse=True)
def temporary_folder_of_our_own(monkeypatch):
    """What other processes put into the machine's temporary folder is none of a call's doing."""
    with tempfile.TemporaryDirectory() as own:
        monkeypatch.setattr(tempfile, "tempdir", own)
        yield


@pytest.fixture
def host(temporary_folder_of_our_own):
    with own_folder() as folder:
        yield Host(folder)


async def settled(before):
    """The scene once it is as before, or as it is when patience ends."""
    end = time.monotonic() + SETTLED_S
    while True:
        gc.collect()
        now = scene()
        if now == before or time.monotonic() > end:
            return now
        await anyio.sleep(0.01)


@pytest.mark.parametrize("fault", [hang, reset])
async def test_however_it_ends_nothing_is_left(host, fault):
    await rounds(host, fault)  # what is imported and opened once for all is, by now
    gc.collect()
    before = scene()
    await rounds(host, fault)
    assert await settled(before) == before


async def rounds(host, fault):
    """A call that is cancelled at each of several instants, and one whose time ends. The servers are closed
    with their threads and sockets when it is over."""
    with ModelServer(fault) as server, Collector(host.folder / "c", Behaviour(acks="each")) as collector:
        for seconds in (0.0, 0.04, 0.15):
            with anyio.move_on_after(seconds):
                await host.call(server)
        report = await host.call(server, deadline_s=0.6)
        assert {told(event) for event in report.events} <= {"timeout", "connection"}
        assert {told(event) for event in judgements(collector)} <= {"cancelled", "timeout", "connection"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio has no task outside a nursery
async def test_no_task_is_left_in_a_running_loop(host):
    with ModelServer(hang) as server:
        before = asyncio.all_tasks()
        for seconds in (0.05, 0.2):
            with anyio.move_on_after(seconds):
                await host.call(server, sinks=False)
        await host.call(server, sinks=False, deadline_s=0.5)
        await anyio.lowlevel.checkpoint()
        assert asyncio.all_tasks() == before


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_host_that_cancels_its_task_sees_its_own_cancellation(host):
    """And nothing else: no group, no error of ours in its place."""
    with ModelServer(hang) as server:
        task = asyncio.create_task(host.call(server, sinks=False))
        await anyio.sleep(0.3)
        task.cancel("the host's word")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()


async def test_calls_in_two_loops_at_once_do_not_meet(host):
    with TruthfulModel(delay_s=(0.05, 0.1)) as model:
        reports = []

        def other_loop(backend):
            reports.append(anyio.run(lambda: host.call(model.server, sinks=False), backend=backend))

        threads = [threading.Thread(target=other_loop, args=(name,)) for name in ("asyncio", "trio")]
        for thread in threads:
            thread.start()
        reports.append(await host.call(model.server, sinks=False))
        await anyio.to_thread.run_sync(lambda: [thread.join(20) for thread in threads])
        assert [len(report.events) for report in reports] == [4, 4, 4]
        assert model.invented([event for report in reports for event in report.events]) == []


@pytest.mark.parametrize("talk", [b"", b"{", b"\xff" * 99, {}, [None], {"messages": 5}, "text", 7, None])
async def test_input_that_is_none_is_our_error_and_leaves_nothing(host, talk):
    with ModelServer(hang) as server:
        with pytest.raises(SandboxJudgeError):
            await host.call(server, sinks=False, talk=object() if talk is None else talk)
        assert server.requests == []

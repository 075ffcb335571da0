"""Work in threads and on a private loop: results come back, cancelled waits do not wait, nothing is left."""

import asyncio
import contextvars
import threading
import time

import anyio
import pytest

from sandbox_judge.lanes.private_loop import PrivateLoop
from sandbox_judge.lanes.threads import Background, in_daemon_thread

pytestmark = pytest.mark.anyio
HOST: contextvars.ContextVar[str] = contextvars.ContextVar("HOST", default="unset")


async def test_a_value_and_an_error_come_back() -> None:
    assert await in_daemon_thread(lambda: 7, name="t") == 7
    assert await in_daemon_thread(lambda: None, name="t") is None
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0, name="t")


async def test_a_cancelled_wait_leaves_the_thread_behind() -> None:
    release = threading.Event()
    work = Background(lambda: release.wait(30), name="stuck")
    start = time.monotonic()
    with anyio.move_on_after(0.1) as scope:
        await work.result()
    assert scope.cancelled_caught and time.monotonic() - start < 1
    assert not work.finished
    release.set()
    assert await work.result() is True
    assert work.finished


async def test_where_no_thread_can_be_started_the_work_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    work = Background(lambda: 1, name="never")
    assert work.finished
    with pytest.raises(OSError, match="no thread can be started"):
        await work.result()


async def test_many_wait_for_one() -> None:
    release = threading.Event()
    work = Background(lambda: release.wait(5), name="shared")
    seen: list[bool] = []

    async def wait() -> None:
        seen.append(await work.result())

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(wait)
        await anyio.sleep(0.02)
        release.set()
    assert seen == [True] * 5


async def test_nothing_of_the_hosts_context_is_seen() -> None:
    HOST.set("the host's")
    assert await in_daemon_thread(HOST.get, name="t") == "unset"
    loop = PrivateLoop("private")

    async def look() -> str:
        return HOST.get()

    assert await loop.run(look) == "unset"
    await loop.aclose(within_s=1)


async def test_a_private_loop_gives_values_and_errors_of_asyncio_code() -> None:
    loop = PrivateLoop("private")

    async def sleeps(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def fails() -> None:
        raise KeyError("x")

    seen: list[float] = []

    async def one(seconds: float) -> None:
        seen.append(await loop.run(lambda: sleeps(seconds)))

    start = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one, 0.1)
    assert seen == [0.1] * 10 and time.monotonic() - start < 0.6
    with pytest.raises(KeyError):
        await loop.run(fails)
    await loop.aclose(within_s=1)


async def test_code_that_will_not_be_cancelled_holds_nobody_up() -> None:
    loop = PrivateLoop("private")
    asked: list[int] = []

    async def stubborn() -> None:
        for _ in range(100):
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                asked.append(1)

    start = time.monotonic()
    with anyio.move_on_after(0.1) as scope:
        await loop.run(stubborn)
    assert scope.cancelled_caught and time.monotonic() - start < 0.5
    await loop.aclose(within_s=0.2)
    assert time.monotonic() - start < 1.5
    assert asked


async def test_closing_ends_the_thread() -> None:
    before = set(threading.enumerate())
    loop = PrivateLoop("to be closed")

    async def work() -> int:
        return 1

    await loop.run(work)
    assert any(thread.name == "to be closed" for thread in threading.enumerate())
    await loop.aclose(within_s=1)
    await loop.aclose(within_s=1)
    left = [t for t in threading.enumerate() if t not in before and t.name == "to be closed"]
    assert left == []
    assert await loop.run(work) == 1  # and it can start again
    await loop.aclose(within_s=1)


async def test_names_are_resolved_in_threads_that_nobody_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **options: release.wait(30) and [])
    loop = PrivateLoop("private")

    async def resolve() -> object:
        return await asyncio.get_running_loop().getaddrinfo("slow.example", 80)

    with anyio.move_on_after(0.1) as scope:
        await loop.run(resolve)
    assert scope.cancelled_caught
    stuck = [t for t in threading.enumerate() if t.name == "resolve"]
    assert stuck and all(t.daemon for t in stuck)
    release.set()
    await loop.aclose(within_s=1)

"""Fairness and learned limits, in virtual time."""

import anyio
import pytest
import trio.testing

from sandbox_judge.lanes.base import Call, Endpoint, ModelFailure
from sandbox_judge.resident.pacing import PacedModel
from sandbox_judge.resident.slots import FairSlots
from sandbox_judge.testing.scripted import Say, ScriptedModel


def virtual(test):
    def run(*args, **kwargs):
        clock = trio.testing.MockClock(autojump_threshold=0)
        return anyio.run(lambda: test(*args, **kwargs), backend="trio", backend_options={"clock": clock})

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


class Work:
    """Judges of several conversations, each holding a slot for a while; `began` is (conversation, time)."""

    def __init__(self, slots):
        self.slots = slots
        self.began = []
        self.most = 0
        self.now = 0

    async def judge(self, run, name, takes_s, provider="openai"):
        async with run.slot(provider):
            self.now += 1
            self.most = max(self.most, self.now)
            self.began.append((name, anyio.current_time()))
            await anyio.sleep(takes_s)
            self.now -= 1


@virtual
async def test_no_more_at_once_than_the_server_and_the_conversation_allow():
    slots = FairSlots(3)
    work = Work(slots)
    async with anyio.create_task_group() as tasks:
        for name in "ab":
            run = slots.for_run(2)
            for _ in range(5):
                tasks.start_soon(work.judge, run, name, 1)
    assert work.most == 3
    assert slots.in_flight == slots.waiting == 0
    alone = Work(slots)
    async with anyio.create_task_group() as tasks:
        run = slots.for_run(2)
        for _ in range(5):
            tasks.start_soon(alone.judge, run, "c", 1)
    assert alone.most == 2


@virtual
async def test_a_small_conversation_does_not_wait_behind_a_large_one():
    slots = FairSlots(2)
    work = Work(slots)
    started = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        large = slots.for_run(100)
        for _ in range(50):
            tasks.start_soon(work.judge, large, "large", 1)
        await anyio.sleep(0.5)
        small = slots.for_run(100)
        tasks.start_soon(work.judge, small, "small", 1)
    at = next(time for name, time in work.began if name == "small")
    assert at - started <= 1.01


@virtual
async def test_a_provider_that_asks_to_wait_holds_up_its_own_judges_only():
    slots = FairSlots(10)
    work = Work(slots)
    started = anyio.current_time()
    slots.rate_limited("slow", began=started, retry_after_s=5)
    async with anyio.create_task_group() as tasks:
        run = slots.for_run(10)
        tasks.start_soon(work.judge, run, "slow", 1, "slow")
        tasks.start_soon(work.judge, run, "quick", 1, "quick")
    times = {name: round(at - started, 3) for name, at in work.began}
    assert times == {"quick": 0, "slow": 5}


@virtual
async def test_a_pause_that_begins_while_judges_wait_holds_for_them():
    slots = FairSlots(1)
    work = Work(slots)
    started = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        run = slots.for_run(10)
        tasks.start_soon(work.judge, run, "first", 1)
        await anyio.sleep(0.1)
        tasks.start_soon(work.judge, run, "second", 1)
        await anyio.sleep(0.1)
        slots.rate_limited("openai", began=started, retry_after_s=4)
    assert [(n, round(t - started, 1)) for n, t in work.began] == [("first", 0), ("second", 4.2)]


@virtual
async def test_limits_halve_once_a_burst_and_recover_with_answers():
    slots = FairSlots(16)
    provider = slots.provider("p")
    provider.in_flight = 16
    for _ in range(10):  # one burst: calls that began before the cut say nothing new
        provider.refused(began=100, now=101, retry_after_s=None)
    assert provider.limit == 8
    provider.refused(began=102, now=103, retry_after_s=float("nan"))
    assert provider.limit == 4
    for _ in range(200):
        provider.answered(began=104, now=105)
    assert provider.limit == 16
    for attempt in range(20):
        provider.in_flight = 1
        provider.refused(began=200 + attempt, now=200.5 + attempt, retry_after_s=1e9)
    assert provider.limit == 1
    assert provider.paused_until <= 220 + 60


@virtual
async def test_waiters_that_are_cancelled_leave_nothing_behind():
    slots = FairSlots(1)
    work = Work(slots)
    async with anyio.create_task_group() as tasks:
        run = slots.for_run(3)
        tasks.start_soon(work.judge, run, "held", 5)
        await anyio.sleep(0.1)
        with anyio.move_on_after(1):
            await work.judge(slots.for_run(3), "late", 1)
        assert slots.waiting == 0
    assert slots.in_flight == 0
    assert [name for name, _ in work.began] == ["held"]


CALL = Call(provider="openai", model="m", endpoint=Endpoint(), messages=())


@virtual
async def test_a_call_that_cannot_come_back_in_time_is_not_made():
    slots = FairSlots(4)
    scripted = ScriptedModel(lambda _: Say(text="x", delay_s=1.0))
    model = PacedModel(scripted, slots)
    for _ in range(8):
        await model.complete(CALL, deadline=anyio.current_time() + 9)
    with pytest.raises(ModelFailure) as failed:
        await model.complete(CALL, deadline=anyio.current_time() + 0.5)
    assert failed.value.type == "budget_exhausted"
    assert len(scripted.calls) == 8
    await anyio.sleep(100)  # what was seen long ago says nothing about now
    with pytest.raises(ModelFailure) as failed:
        await model.complete(CALL, deadline=anyio.current_time() + 0.5)
    assert failed.value.type == "timeout"


@virtual
async def test_a_used_up_quota_teaches_no_limit():
    slots = FairSlots(4)
    failure = ModelFailure("rate_limited", "quota", retryable=False)
    with pytest.raises(ModelFailure):
        await PacedModel(ScriptedModel([failure]), slots).complete(CALL, deadline=anyio.current_time() + 9)
    assert slots.provider("openai").limit == 4

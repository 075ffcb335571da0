"""The scripted model keeps the contract of a lane, in virtual time."""

import anyio
import pytest
from trio.testing import MockClock

from sandbox_judge.lanes.base import Call, Endpoint, ModelFailure, Reply, Wire
from sandbox_judge.testing.scripted import Say, ScriptedModel

CALL = Call(provider="openai", model="m", endpoint=Endpoint(), messages=({"role": "user", "content": "hi"},))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


pytestmark = pytest.mark.anyio


async def test_replies_come_in_order_after_their_delays() -> None:
    whole = Reply(wire=Wire(lane="openai_wire"), text="b")
    model = ScriptedModel(["a", whole, Say(text="c", delay_s=60)])
    start = anyio.current_time()
    texts = [(await model.complete(CALL, deadline=start + 100)).text for _ in range(3)]
    assert texts == ["a", "b", "c"]
    assert anyio.current_time() - start == 60
    assert model.calls == [CALL] * 3 and model.deadlines == [start + 100] * 3


async def test_a_failure_is_raised_and_a_deadline_is_a_timeout() -> None:
    model = ScriptedModel([ModelFailure("auth", "no"), Say(text="late", delay_s=5)])
    for expected in ("auth", "timeout"):
        with pytest.raises(ModelFailure) as caught:
            await model.complete(CALL, deadline=anyio.current_time() + 2)
        assert caught.value.type == expected


async def test_a_function_of_the_call() -> None:
    model = ScriptedModel(lambda call: call.model.upper())
    assert (await model.complete(CALL, deadline=float("inf"))).text == "M"


async def test_a_used_up_script_is_the_tests_fault() -> None:
    with pytest.raises(AssertionError):
        await ScriptedModel([]).complete(CALL, deadline=float("inf"))

"""Which lane, and each made once."""

import sys

import pytest
from lane_calls import a_call

from sandbox_judge.lanes.choose import Lanes, lane_for
from sandbox_judge.lanes.openai_wire import OpenAiWire
from sandbox_judge.testing.scripted import ScriptedModel


@pytest.mark.parametrize(
    ("provider", "options", "lane"),
    [
        ("openai", {}, "openai_wire"),
        ("anthropic", {}, "litellm"),
        ("openrouter", {}, "litellm"),
        ("anthropic", {"local_endpoint": True}, "openai_wire"),
        ("mistral", {"provider_lane": "openai_wire"}, "openai_wire"),
        ("openai", {"provider_lane": "litellm"}, "litellm"),
        ("openai", {"provider_lane": "litellm", "local_endpoint": True}, "openai_wire"),
        ("openai", {"local_run": True}, "local"),
        ("gemini", {"local_run": True, "local_endpoint": True, "provider_lane": "litellm"}, "local"),
    ],
)
def test_lane_for(provider: str, options: dict[str, object], lane: str) -> None:
    assert lane_for(provider, **{"local_endpoint": False, **options}) == lane


@pytest.mark.anyio
async def test_a_lane_is_made_at_its_first_use_and_once() -> None:
    lanes = Lanes({})
    lanes.prepare(["openai_wire"])
    lane = lanes.get("openai_wire")
    assert isinstance(lane, OpenAiWire) and lane.lane == "openai_wire"
    assert lanes.get("openai_wire") is lane
    await lanes.aclose()


@pytest.mark.anyio
async def test_a_lane_that_cannot_be_closed_does_not_keep_the_others() -> None:
    class Broken(ScriptedModel):
        async def aclose(self) -> None:
            raise OSError("broken")

    other = ScriptedModel([], lane="local")
    lanes = Lanes({}, given={"litellm": Broken([]), "local": other})
    with pytest.raises(OSError, match="broken"):
        await lanes.aclose()
    assert other.closed == 1


@pytest.mark.anyio
async def test_given_lanes_are_used_and_closed() -> None:
    model = ScriptedModel(["hello"], lane="litellm")
    lanes = Lanes({}, given={"litellm": model})
    lanes.prepare(["litellm"])
    assert (await lanes.get("litellm").complete(a_call(), deadline=float("inf"))).text == "hello"
    await lanes.aclose()
    assert model.closed == 1
    assert "litellm" not in sys.modules

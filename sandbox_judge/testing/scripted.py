"""A model without a wire, for tests in virtual time."""

from collections.abc import Callable, Sequence

import anyio
import msgspec

from sandbox_judge.lanes.base import Call, LaneName, ModelFailure, Reply, Wire


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """What to answer, after `delay_s` seconds of the test's clock: a text, a whole reply, or a failure."""

    text: str | None = None
    reply: Reply | None = None
    failure: ModelFailure | None = None
    delay_s: float = 0.0


Turn = Say | str | Reply | ModelFailure


class ScriptedModel:
    """A `ChatModel` that answers from a list, one a call in order of arrival, or from a function of the call.

    A used-up list is an AssertionError: the test asked for more than it scripted. `calls` keeps what was
    asked, `deadlines` the deadline of each, `closed` how often `aclose` was called.
    """

    def __init__(
        self, script: Sequence[Turn] | Callable[[Call], Turn], *, lane: LaneName = "openai_wire"
    ) -> None:
        self._script = script
        self._lane = lane
        self.calls: list[Call] = []
        self.deadlines: list[float] = []
        self.closed = 0

    @property
    def lane(self) -> LaneName:
        return self._lane

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        self.calls.append(call)
        self.deadlines.append(deadline)
        say = self._turn(call)
        with anyio.CancelScope(deadline=deadline) as scope:
            await anyio.sleep(say.delay_s)
        if scope.cancelled_caught:
            raise ModelFailure("timeout", "no answer before the deadline")
        if say.failure is not None:
            raise say.failure
        return say.reply or Reply(wire=self._wire(call), text=say.text, finish="stop")

    async def aclose(self) -> None:
        self.closed += 1

    def _turn(self, call: Call) -> Say:
        if callable(self._script):
            turn = self._script(call)
        else:
            number = len(self.calls)
            assert number <= len(self._script), (
                f"the script holds {len(self._script)} replies, asked {number}"
            )
            turn = self._script[number - 1]
        if isinstance(turn, str):
            return Say(text=turn)
        if isinstance(turn, Reply):
            return Say(reply=turn)
        if isinstance(turn, ModelFailure):
            return Say(failure=turn)
        return turn

    def _wire(self, call: Call) -> Wire:
        return Wire(lane=self._lane, output_mode="schema" if call.schema else "text")

"""The lanes of a server: shared by all its runs, and learning from each answer what a provider bears."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio

from sandbox_judge.lanes.base import Call, ChatModel, LaneName, ModelFailure, Reply
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.lanes.memory import Memory
from sandbox_judge.resident.slots import FairSlots

# A call with less time than this share of the fastest recent answer would be paid for nothing.
_HOPELESS: Final = 0.8


class PacedModel:
    """A lane that tells the slots what came of each call, and makes none that cannot come back in time."""

    def __init__(self, model: ChatModel, slots: FairSlots) -> None:
        self._model = model
        self._slots = slots

    @property
    def lane(self) -> LaneName:
        return self._model.lane

    def start(self) -> None:
        """Begins what takes long, where the lane has something that does."""
        begin = getattr(self._model, "start", None)
        if begin is not None:
            begin()

    async def warm(self, base_url: str | None, *, count: int, deadline: float) -> None:
        """Opens connections ahead, where the lane keeps any."""
        open_ahead = getattr(self._model, "warm", None)
        if open_ahead is not None:
            await open_ahead(base_url, count=count, deadline=deadline)

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        """See `ChatModel.complete`; `budget_exhausted` where the provider has not been that fast lately."""
        began = anyio.current_time()
        fastest = self._slots.provider(call.provider).fastest_s(began)
        if fastest is not None and deadline - began < _HOPELESS * fastest:
            left = max(0.0, deadline - began)
            raise ModelFailure(
                "budget_exhausted",
                f"{left:.2f} s were left; the fastest recent answer took {fastest:.2f} s",
                retryable=False,
            )
        try:
            reply = await self._model.complete(call, deadline=deadline)
        except ModelFailure as failure:
            if failure.type == "rate_limited" and failure.retryable is not False:
                self._slots.rate_limited(call.provider, began=began, retry_after_s=failure.retry_after_s)
            raise
        self._slots.answered(call.provider, began=began)
        return reply

    async def aclose(self) -> None:
        await self._model.aclose()


class PacedLanes(Lanes):
    """As `Lanes`, each lane paced."""

    def __init__(
        self,
        environ: Mapping[str, str],
        slots: FairSlots,
        *,
        memory: Memory | None = None,
        weights: Path | None = None,
        given: Mapping[LaneName, ChatModel] | None = None,
    ) -> None:
        paced = {name: PacedModel(model, slots) for name, model in (given or {}).items()}
        super().__init__(environ, memory=memory, weights=weights, given=paced)
        self._slots = slots

    def _make(self, name: LaneName) -> ChatModel:
        return PacedModel(super()._make(name), self._slots)

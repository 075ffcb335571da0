"""A lane with a bound on how many calls a run may make (`max_calls` of the settings)."""

from sandbox_judge.lanes.base import Call, ChatModel, LaneName, ModelFailure, Reply


class Meter:
    """The calls of one run. `most` None: no bound."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.used = 0

    def take(self) -> bool:
        """Counts one call in; False where none is left."""
        if self._most is not None and self.used >= self._most:
            return False
        self.used += 1
        return True


class MeteredModel:
    """A lane whose calls a meter counts, retries and repairs included. Repetitions that the lane itself makes
    (a refused parameter left out) count as well, but are not cut off in the middle."""

    def __init__(self, model: ChatModel, meter: Meter) -> None:
        self._model = model
        self._meter = meter

    @property
    def lane(self) -> LaneName:
        return self._model.lane

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        if not self._meter.take():
            raise ModelFailure("budget_exhausted", "the settings' max_calls are used up", retryable=False)
        reply = await self._model.complete(call, deadline=deadline)
        self._meter.used += max(0, reply.wire.requests - 1)
        return reply

    async def aclose(self) -> None:
        """Nothing: the lane is the run's to close."""

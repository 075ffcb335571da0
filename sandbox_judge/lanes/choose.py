"""Which lane a judge's calls take, and one instance of each that is needed (design, section 12)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio

from sandbox_judge.lanes.base import ChatModel, LaneName
from sandbox_judge.lanes.memory import Memory, NoMemory


def lane_for(
    provider: str, *, local_endpoint: bool, provider_lane: str | None = None, local_run: bool = False
) -> LaneName:
    """`local_run`: the run is `--local`. `local_endpoint`: the judge has `llm.local`. `provider_lane`: what
    the settings say of this provider. A base URL alone never moves a provider to another lane."""
    if local_run:
        return "local"
    if local_endpoint or provider_lane == "openai_wire":
        return "openai_wire"
    if provider_lane == "litellm":
        return "litellm"
    return "openai_wire" if provider == "openai" else "litellm"


class Lanes:
    """Makes each lane at its first use, and once. A host may put its own in with `given` (tests do).

    `environ` is read for proxies and certificates only: keys and base URLs come with each call.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        memory: Memory | None = None,
        weights: Path | None = None,
        given: Mapping[LaneName, ChatModel] | None = None,
    ) -> None:
        self._environ = environ
        self._memory = memory or NoMemory()
        self._weights = weights
        self._made: dict[LaneName, ChatModel] = dict(given or {})

    def get(self, name: LaneName) -> ChatModel:
        """The lane. Raises MissingExtra or UsageError where the local one cannot be had."""
        lane = self._made.get(name)
        if lane is None:
            lane = self._made[name] = self._make(name)
        return lane

    def prepare(self, names: Iterable[LaneName]) -> None:
        """Begins what takes long (importing litellm, loading weights) for the lanes that will be used."""
        for name in names:
            lane: Any = self.get(name)
            start = getattr(lane, "start", None)
            if start is not None:
                start()

    async def aclose(self) -> None:
        """Closes every lane; each bounds its own wait. One that fails does not keep the others from closing:
        the first error is raised when all are done."""
        made, self._made = self._made, {}
        errors: list[Exception] = []

        async def close(lane: ChatModel) -> None:
            try:
                await lane.aclose()
            except Exception as error:
                errors.append(error)

        async with anyio.create_task_group() as group:
            for lane in made.values():
                group.start_soon(close, lane)
        if errors:
            raise errors[0]

    def _make(self, name: LaneName) -> ChatModel:
        if name == "openai_wire":
            # TLS and HTTP take a tenth of a second to import, and most conversations concern no judge.
            from sandbox_judge.lanes.http import HttpClient
            from sandbox_judge.lanes.openai_wire import OpenAiWire

            return OpenAiWire(HttpClient(self._environ), memory=self._memory)
        if name == "litellm":
            # Not the library itself yet, but a module that few runs need.
            from sandbox_judge.lanes.litellm_lane import LitellmLane

            return LitellmLane(memory=self._memory)
        from sandbox_judge.lanes.local import LocalModel

        return LocalModel(self._weights)

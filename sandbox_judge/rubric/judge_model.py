"""The model that scores: its lane, its endpoint, its slots, and a record of what it said.

Shared by rubrics, one-step judges and graders. It only picks what `lanes`, `access` and `grading` already do.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.access import endpoint_for
from sandbox_judge.grading.grade import Grading, Progress, ask, turn
from sandbox_judge.grading.instruments import AnswerSet
from sandbox_judge.lanes.base import Call, ChatModel, Endpoint, LaneName, Reply
from sandbox_judge.lanes.choose import Lanes, lane_for
from sandbox_judge.lanes.metered import Meter, MeteredModel
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import Llm
from sandbox_judge.settings import LiveSettings

# Families that take pictures, by the names that providers give them.
_SEES: Final = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-(?:[5-9]|1\d)|chatgpt|(?<![a-z0-9])o[1349](?![a-z0-9])|claude"
    r"|gemini|gemma-?(?:3|4)|pixtral|mistral-(?:small-3|medium-3)|llama-?3\.2.*vision|llama-?4|qwen.*vl|llava"
    r"|grok-(?:2-vision|4)|vision|nova-(?:lite|pro|premier)|internvl|phi-.*vision|multimodal",
    re.IGNORECASE,
)


def takes_pictures(model: str) -> bool:
    """Whether a model of this name is known to take pictures."""
    return _SEES.search(model) is not None


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one question, and the model's last text as it was."""

    grading: Grading
    raw: str | None


class _Recorder:
    """A lane that keeps the last text that went through it."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.text: str | None = None

    @property
    def lane(self) -> LaneName:
        return self._model.lane

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        reply = await self._model.complete(call, deadline=deadline)
        self.text = reply.text
        return reply

    async def aclose(self) -> None:
        """Nothing: the lane is the run's to close."""


class JudgeModel:
    """One model for one run. `concurrency` calls at once; `most_calls` in all, None without a bound."""

    def __init__(
        self,
        llm: Llm,
        *,
        lanes: Lanes,
        settings: LiveSettings,
        environ: Mapping[str, str],
        concurrency: int,
        most_calls: int | None = None,
        local: bool = False,
    ) -> None:
        self.llm = llm
        self._lanes = lanes
        self._settings = settings
        self._environ = environ
        self._slots = anyio.Semaphore(concurrency)
        self._meter = Meter(most_calls)
        self._local = local
        self.zero = anyio.current_time()

    @property
    def name(self) -> str:
        return f"{self.llm.provider}/{self.llm.model}"

    @property
    def calls(self) -> int:
        return self._meter.used

    async def ask(
        self,
        messages: tuple[dict[str, Any], ...],
        *,
        view_text: str,
        instrument: AnswerSet,
        deadline: float,
    ) -> Answered:
        """One question, answered within the deadline or not: never raises for what a model does."""
        async with self._slots:
            progress = Progress(zero=self.zero)
            endpoint = self.endpoint()
            if isinstance(endpoint, Invalid):
                return Answered(grading=progress.ended(endpoint), raw=None)
            recorder = _Recorder(self._model())
            grading = await ask(
                model=recorder,
                llm=self.llm,
                endpoint=endpoint,
                messages=messages,
                view_text=view_text,
                deadline=deadline,
                progress=progress,
                instrument=instrument,
            )
            return Answered(grading=grading, raw=recorder.text)

    async def turn(
        self,
        messages: tuple[dict[str, Any], ...],
        *,
        tools: tuple[Mapping[str, Any], ...],
        deadline: float,
    ) -> Reply | Invalid:
        """One turn of a judge with tools."""
        async with self._slots:
            endpoint = self.endpoint()
            if isinstance(endpoint, Invalid):
                return endpoint
            return await turn(
                model=self._model(),
                llm=self.llm,
                endpoint=endpoint,
                messages=messages,
                tools=tools,
                deadline=deadline,
                progress=Progress(zero=self.zero),
            )

    def endpoint(self) -> Endpoint | Invalid:
        """Where calls go, with the key as it is now; or why they cannot."""
        if self._local:
            return Endpoint()
        return endpoint_for(self.llm, self._settings, self._environ, dry_run=True)

    def _model(self) -> ChatModel:
        provider = self._settings.provider(self.llm.provider)
        lane = lane_for(
            self.llm.provider,
            local_endpoint=self.llm.local is not None,
            provider_lane=provider.lane,
            local_run=self._local,
        )
        self._lanes.prepare([lane])
        return MeteredModel(self._lanes.get(lane), self._meter)

"""A model that takes as long as past judgements took: to see what a budget gets, without paying for it.

Which judge asks is told by the instructions in its prompt. A run that was cut off is completed from the
judge's curve; what is not known never answers.
"""

import json
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio

from sandbox_judge.coverage.observed import Observation, read_lines
from sandbox_judge.coverage.survival import Survival, survival_of
from sandbox_judge.errors import InputError
from sandbox_judge.lanes.base import Call, LaneName, ModelFailure, Reply, Wire
from sandbox_judge.recipe.loaded import LoadedRecipe

REASONING: Final = "Simulated: no model was asked."
_KEY: Final = "simulated"


class RehearsalModel:
    """A lane. The latencies of each judge come in an order that `seed` fixes; a judge without a past answers
    at once, and `unknown` names it."""

    lane: LaneName = "openai_wire"

    def __init__(self, observations: Sequence[Observation], recipe: LoadedRecipe, *, seed: int = 0) -> None:
        self._ranks = random.Random(seed)
        self._curves: dict[str, tuple[list[Observation], Survival]] = {}
        for judge in {one.judge for one in observations}:
            ones = [o for o in observations if o.judge == judge and o.seconds is not None]
            whole = [o.seconds for o in ones if o.kind == "verdict" and o.seconds is not None]
            cut_off = [o.seconds for o in ones if o.kind == "cut_off" and o.seconds is not None]
            started = [o for o in ones if o.kind in ("verdict", "cut_off")]
            if started:
                self._curves[judge] = (started, survival_of(whole, cut_off))
        # The longest instructions first: one judge's may be a part of another's.
        self._judges = sorted(
            (
                (loaded.file.judge.instructions, loaded.file.judge.name)
                for loaded in recipe.judges
                if loaded.file.judge
            ),
            key=lambda pair: -len(pair[0]),
        )
        self.unknown = sorted({name for _, name in self._judges} - self._curves.keys())

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        seconds = self._seconds(self._judge(call))
        with anyio.CancelScope(deadline=deadline) as scope:
            await anyio.sleep(seconds)
        if scope.cancelled_caught:
            raise ModelFailure("timeout", "no simulated answer before the call's deadline")
        text = json.dumps({"reasoning": REASONING, "evidence": [], "verdict": "not_applicable"})
        return Reply(wire=Wire(lane=self.lane), text=text, finish="stop", response_model=_KEY)

    async def aclose(self) -> None:
        """Nothing is held."""

    def _judge(self, call: Call) -> str | None:
        prompt = "\n".join(str(message.get("content", "")) for message in call.messages)
        return next((name for instructions, name in self._judges if instructions.strip() in prompt), None)

    def _seconds(self, judge: str | None) -> float:
        if judge is None or judge not in self._curves:
            return 0.0
        ones, curve = self._curves[judge]
        one = self._ranks.choice(ones)
        if one.kind == "verdict" or one.seconds is None:
            return one.seconds or 0.0
        return curve.beyond(one.seconds, self._ranks.random()) if curve.times else math.inf


def rehearsal(events: Path, recipe: LoadedRecipe) -> RehearsalModel:
    """The model that repeats the judgements in a file of events. Raises InputError, MissingExtra."""
    try:
        with open(events, "rb") as file:
            read = read_lines(file)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"cannot be read ({reason}).", where=str(events)) from error
    known = [one for one in read.observations if one.recipe_id in ("", recipe.recipe_id)]
    if not known:
        raise InputError(
            f"there are no judgements of recipe {recipe.recipe_id} to repeat.", where=str(events)
        )
    return RehearsalModel(known, recipe)


class SimulatedKeys(Mapping[str, str]):
    """The environment with a key for every provider: a simulated model asks for none."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        if name in self._environ:
            return self._environ[name]
        if name.endswith(("_KEY", "_TOKEN")):
            return _KEY
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)

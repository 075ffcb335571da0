"""A judge in one step: items, an instruction, a closed answer set (`spec/rubric.md`, simple_judge)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from sandbox_judge.errors import UsageError
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.recipe.judge import Llm, Transport
from sandbox_judge.rubric.judge_model import JudgeModel, takes_pictures
from sandbox_judge.settings import LiveSettings
from sandbox_judge.simple_judge.config import step_of
from sandbox_judge.simple_judge.judging import judge_items, output_of

__all__ = ["simple_judge"]


async def simple_judge(
    *,
    base: Path | None = None,
    budget_s: float = 120.0,
    concurrency: int = 16,
    retries: int = 2,
    settings: LiveSettings | None = None,
    environ: Mapping[str, str] | None = None,
    lanes: Lanes | None = None,
    pictures: bool | None = None,
    **step: Any,
) -> dict[str, Any]:
    """Judges `item` or `items` by `instruction`; the keys of `step` are those of the specification.

    `base` is where paths start; `environ` holds keys (default: this process's). Gives `{"average_score",
    "results"}`; an item without a usable answer has an error of its own. On asyncio and trio. Raises
    UsageError for a step that cannot be used, MissingExtra.
    """
    wish = step_of(step, where="simple_judge")
    name = wish.model_name()
    if name is None:
        raise UsageError("no model was named to judge.", where="model")
    provider, _, model = name.partition("/")
    here = base or Path.cwd()
    instruction = instruction_of(wish.instruction, wish.instruction_path, here)
    variables = os.environ if environ is None else environ
    own = Lanes(variables) if lanes is None else lanes
    try:
        asked = JudgeModel(
            Llm(
                model=model,
                provider=provider,
                request=wish.request(),
                transport=Transport(max_retries=retries),
            ),
            lanes=own,
            settings=settings or LiveSettings(),
            environ=variables,
            concurrency=concurrency,
        )
        judged = await judge_items(
            wish,
            asked,
            instruction=instruction,
            base=here,
            deadline=anyio.current_time() + budget_s,
            pictures=takes_pictures(model) if pictures is None else pictures,
        )
    finally:
        if lanes is None:
            with anyio.CancelScope(shield=True):
                await own.aclose()
    return output_of(wish, judged)


def instruction_of(text: str | None, path: str | None, base: Path) -> str:
    """What the author asks for. Raises UsageError where it is given twice, not at all, or cannot be read."""
    if (text is None) == (path is None):
        raise UsageError("give either instruction or instruction_path.", where="instruction")
    if path is not None:
        try:
            text = (base / path).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read ({error}).", where="instruction_path") from error
    if text is None or not text.strip():
        raise UsageError("the instruction is empty.", where="instruction")
    return text

"""Judging items, all at once: each gets one answer of the instrument's set, or an error of its own."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from sandbox_judge.grading.grade import Graded
from sandbox_judge.grading.instruments import Instrument
from sandbox_judge.nulls import Invalid
from sandbox_judge.rubric.documents import Document, documents_of
from sandbox_judge.rubric.judge_model import JudgeModel
from sandbox_judge.rubric.outputs_view import show
from sandbox_judge.rubric.prompt import messages_of, one_answer
from sandbox_judge.rubric.scores import mean_of
from sandbox_judge.rubric.tree import Caps, Found
from sandbox_judge.simple_judge.config import Item, Step

# A bare word that ends like this is meant as a file, even where there is none.
_FILE_NAME: Final = re.compile(
    r"[^\s]{1,1000}\.(?:txt|md|markdown|json|jsonl|csv|tsv|html?|xml|ya?ml|pdf|docx|xlsx|pptx|ipynb|py|log"
    r"|png|jpe?g|gif|webp|svg)",
    re.IGNORECASE,
)
_MOST_PATH: Final = 1_024
# Items that are held in memory at once; fewer of them are asked about at once.
_HELD: Final = 64


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One item's result: a score, a label, or an error."""

    score: int | None = None
    label: str | None = None
    explanation: str = ""
    raw_result: str | None = None
    error: Invalid | None = None


async def judge_items(
    step: Step,
    model: JudgeModel,
    *,
    instruction: str,
    base: Path,
    deadline: float,
    pictures: bool,
    ended: Callable[[Judged], None] = lambda judged: None,
) -> tuple[Judged, ...]:
    """Every item's result, in their order. Raises UsageError for a step that cannot be used, MissingExtra."""
    instrument = step.instrument()
    items = step.all_items()
    results: dict[int, Judged] = {}
    held = anyio.CapacityLimiter(_HELD)

    async def one(at: int, item: str | Item) -> None:
        async with held:
            judged = await _one(step, instrument, model, item, instruction, base, deadline, pictures)
        results[at] = judged
        ended(judged)

    async with anyio.create_task_group() as group:
        for at, item in enumerate(items):
            group.start_soon(one, at, item)
    return tuple(results[at] for at in range(len(items)))


def output_of(step: Step, judged: Sequence[Judged]) -> dict[str, Any]:
    """The step's output. The average is of usable scores only; labels have none."""
    mean = mean_of(one.score for one in judged if one.score is not None)
    return {
        "average_score": None if mean is None else float(mean),
        "results": [_result(step, one) for one in judged],
    }


def _result(step: Step, judged: Judged) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if judged.error is not None:
        result["error"] = {"type": judged.error.type, "message": judged.error.message}
    elif judged.score is not None:
        result["score"] = judged.score
    else:
        result["label"] = judged.label
    if step.with_explanation:
        result["explanation"] = judged.explanation
    if step.save_raw_response:
        result["raw_result"] = judged.raw_result
    return result


async def _one(
    step: Step,
    instrument: Instrument,
    model: JudgeModel,
    item: str | Item,
    instruction: str,
    base: Path,
    deadline: float,
    pictures: bool,
) -> Judged:
    document = await _document(item, base, deadline)
    if isinstance(document, Invalid):
        return Judged(error=document)
    if document.unseen or (document.picture is not None and not pictures):
        why = document.unseen or "it is a picture, and this model is not known to take pictures"
        return Judged(error=Invalid(type="missing_context", message=f"{document.path} is unseen: {why}"))
    shown = show([document], pictures=pictures, what="Item")
    if shown.overflow:
        return Judged(error=Invalid(type="context_overflow", message="the item is too long to be judged"))
    answered = await model.ask(
        messages_of(
            shown=shown,
            task=f"Judge the item by this instruction of the author's:\n{instruction.strip()}",
            reply_format=one_answer(instrument),
            pictures=pictures,
            extra_system=step.system_prompt or "",
        ),
        view_text=shown.text,
        instrument=instrument,
        deadline=deadline,
    )
    outcome = answered.grading.outcome
    if not isinstance(outcome, Graded):
        return Judged(raw_result=answered.raw, error=outcome)
    if instrument.kind == "score":
        return Judged(score=int(outcome.answer), explanation=outcome.reasoning, raw_result=answered.raw)
    return Judged(label=str(outcome.answer), explanation=outcome.reasoning, raw_result=answered.raw)


async def _document(item: str | Item, base: Path, deadline: float) -> Document | Invalid:
    if isinstance(item, Item):
        if (item.text is None) == (item.path is None):
            return Invalid(type="missing_context", message="an item has either a text or a path")
        if item.text is not None:
            return _text(item.text)
        path: Path | None = base / str(item.path)
    else:
        path = _meant_file(item, base)
        if path is None:
            return _text(item)
    assert path is not None
    found = await anyio.to_thread.run_sync(_read, path, abandon_on_cancel=True)
    if isinstance(found, Invalid):
        return found
    return (await documents_of([found], deadline=deadline))[0]


def _text(text: str) -> Document | Invalid:
    if not text.strip():
        return Invalid(type="missing_context", message="the item is empty")
    return Document(path="item", size=len(text.encode("utf-8", "replace")), text=text)


def _meant_file(item: str, base: Path) -> Path | None:
    """The file that a bare string names: one below `base` that is there, or a single word that ends like one.
    Elsewhere a path must be said outright, so that an item's text cannot name a file of this machine."""
    if len(item) > _MOST_PATH or not item.isprintable() or not item.strip():
        return None
    path = Path(os.path.normpath(base / item))
    below = path.is_relative_to(os.path.normpath(base))
    if below and _is_file(path) and path.resolve().is_relative_to(base.resolve()):
        return path
    return path if below and _FILE_NAME.fullmatch(item) and "://" not in item else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _read(path: Path) -> Found | Invalid:
    most = Caps().file_bytes
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            data = file.read(most + 1) or b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Invalid(type="missing_context", message=f"{path.name} cannot be read ({reason})")
    if len(data) > most:
        return Invalid(type="missing_context", message=f"{path.name} is larger than 16 MiB")
    if not data.strip():
        return Invalid(type="missing_context", message=f"{path.name} is empty")
    return Found(path=path.name, data=data)

"""Scoring outputs by a rubric: a call a criterion, all at once; or one call for all (`spec/rubric.md`)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from sandbox_judge.errors import InputError
from sandbox_judge.grading.grade import Graded, Grading
from sandbox_judge.grading.reply import Quote, Read, read_object
from sandbox_judge.nulls import Invalid
from sandbox_judge.rubric.criteria import Criterion
from sandbox_judge.rubric.documents import Document, documents_of
from sandbox_judge.rubric.judge_model import JudgeModel
from sandbox_judge.rubric.outputs_view import Shown, located, show
from sandbox_judge.rubric.prompt import messages_of, one_answer, whole_sheet
from sandbox_judge.rubric.runbook import Runbook
from sandbox_judge.rubric.scores import Score, Source, combined
from sandbox_judge.rubric.sheet import Sheet
from sandbox_judge.rubric.tree import Caps, Found, LeftOut, read_tree

# Reports hold scores that the agent gave itself: a judge that reads them is not independent.
OWN_FILES: Final = frozenset({"validation_report.json", "grade.json"})


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """The files to be scored and what they are checked against, read. `files` are the outputs' paths."""

    documents: tuple[Document, ...]
    left_out: tuple[LeftOut, ...]
    files: tuple[str, ...]

    def shown(self, *, pictures: bool) -> Shown:
        return show(self.documents, self.left_out, pictures=pictures)

    def unseen(self, *, pictures: bool) -> tuple[str, ...]:
        """What the judge will not see, a line each."""
        lines = [f"{one.path}: {one.why}" for one in self.left_out]
        for document in self.documents:
            if document.unseen:
                lines.append(f"{document.path}: {document.unseen}")
            elif document.picture is not None and not pictures:
                lines.append(f"{document.path}: a picture, and this model is not known to take pictures")
        return tuple(lines)


async def read_outputs(
    directory: Path, *, context: Sequence[Path] = (), runbook: Runbook | None, deadline: float
) -> Outputs:
    """Reads the outputs in `directory` and the context files. Raises InputError where nothing is there, or a
    primary output is not: what was not made cannot be scored; and MissingExtra."""
    tree = await anyio.to_thread.run_sync(
        lambda: read_tree(directory, skip=OWN_FILES), abandon_on_cancel=True
    )
    if not tree.files:
        reasons = "; ".join(f"{one.path}: {one.why}" for one in tree.left_out[:5])
        raise InputError(
            f"holds no outputs{f' ({reasons})' if reasons else ''}.",
            where=str(directory),
            remedy="Missing outputs are an error, not a low score; nothing was scored.",
        )
    paths = tuple(found.path for found in tree.files)
    missing = missing_outputs(runbook, tree.files) if runbook is not None else ()
    if missing:
        raise InputError(
            f"primary outputs are missing or empty: {', '.join(missing)}.",
            where=str(directory),
            remedy="Missing outputs are an error, not a low score; nothing was scored.",
        )
    documents = await documents_of(tree.files, deadline=deadline)
    left_out = list(tree.left_out)
    for path in context:
        found, left = await anyio.to_thread.run_sync(_context, path, abandon_on_cancel=True)
        documents = (*documents, *await documents_of(found, kind="context", deadline=deadline))
        left_out += left
    return Outputs(documents=documents, left_out=tuple(left_out), files=paths)


def missing_outputs(runbook: Runbook, files: Sequence[Found]) -> tuple[str, ...]:
    """The declared primary outputs that are not among `files`, or are empty."""
    there = {found.path for found in files if found.data.strip()}
    return tuple(name for name in runbook.primary_outputs() if name not in there)


def _context(path: Path) -> tuple[tuple[Found, ...], tuple[LeftOut, ...]]:
    if path.is_dir():
        tree = read_tree(path)
        return tuple(_under(path.name, one) for one in tree.files), tree.left_out
    most = Caps().file_bytes
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", where=str(path)) from error
    if len(data) > most:
        raise InputError("is larger than 16 MiB.", where=str(path))
    return (Found(path=path.name, data=data),), ()


def _under(folder: str, found: Found) -> Found:
    return Found(path=f"{folder}/{found.path}", data=found.data)


async def score_rubric(
    runbook: Runbook,
    outputs: Outputs,
    model: JudgeModel,
    *,
    deadline: float,
    pictures: bool,
    one_call: bool = False,
    repeats: int = 1,
    source: Source = "judge",
    ended: Callable[[Score], None] = lambda score: None,
) -> tuple[Score, ...]:
    """Every criterion's score, in the rubric's order; `ended` is told of each as it comes."""
    runbook.usable()
    scorer = _Scorer(runbook, outputs.shown(pictures=pictures), model, deadline, pictures, source)
    if scorer.shown.overflow:
        null = Invalid(
            type="context_overflow", message="the outputs cannot be shortened to what a judge may see"
        )
        return tuple(scorer.without(criterion, null) for criterion in runbook.criteria)
    samples: dict[str, list[Score]] = {criterion.id: [] for criterion in runbook.criteria}
    scores: dict[str, Score] = {}

    def took(score: Score) -> None:
        samples[score.id].append(score)
        if len(samples[score.id]) == repeats:
            scores[score.id] = combined(samples[score.id])
            ended(scores[score.id])

    async def by_criterion(criterion: Criterion) -> None:
        took(await scorer.one(criterion))

    async def all_at_once() -> None:
        for score in await scorer.sheet():
            took(score)

    async with anyio.create_task_group() as group:
        for _ in range(repeats):
            if one_call:
                group.start_soon(all_at_once)
                continue
            for criterion in runbook.criteria:
                group.start_soon(by_criterion, criterion)
    return tuple(scores[criterion.id] for criterion in runbook.criteria)


class _Scorer:
    def __init__(
        self,
        runbook: Runbook,
        shown: Shown,
        model: JudgeModel,
        deadline: float,
        pictures: bool,
        source: Source,
    ) -> None:
        self.runbook, self.shown, self.model = runbook, shown, model
        self.deadline, self.pictures, self.source = deadline, pictures, source
        self.documents = dict(enumerate(shown.documents, 1))

    async def one(self, criterion: Criterion) -> Score:
        instrument = criterion.instrument(floor=self.runbook.bar.floor_of(criterion.id))
        answered = await self.model.ask(
            messages_of(
                shown=self.shown,
                task=_task(criterion, self.runbook),
                reply_format=one_answer(instrument),
                pictures=self.pictures,
            ),
            view_text=self.shown.text,
            instrument=instrument,
            deadline=self.deadline,
        )
        outcome = answered.grading.outcome
        if not isinstance(outcome, Graded):
            return self.without(criterion, outcome)
        read = read_object(outcome.value, instrument=instrument)
        quotes = read.evidence if isinstance(read, Read) else ()
        return self.scored(criterion, int(outcome.answer), outcome.reasoning, quotes)

    async def sheet(self) -> tuple[Score, ...]:
        sheet = sheet_of(self.runbook)
        task = "Score every criterion of the author's rubric, each by itself."
        if self.runbook.notes:
            task += f"\nThe author adds: {self.runbook.notes}"
        answered = await self.model.ask(
            messages_of(shown=self.shown, task=task, reply_format=whole_sheet(sheet), pictures=self.pictures),
            view_text=self.shown.text,
            instrument=sheet,
            deadline=self.deadline,
        )
        return scores_of(self.runbook, sheet, answered.grading, self.documents, source=self.source)

    def scored(self, criterion: Criterion, score: int, message: str, quotes: Sequence[Quote]) -> Score:
        return Score(
            id=criterion.id,
            name=criterion.name,
            source=self.source,
            score=score,
            message=message,
            evidence=located(quotes, self.documents),
        )

    def without(self, criterion: Criterion, null: Invalid) -> Score:
        return Score(id=criterion.id, name=criterion.name, source=self.source, error=null)


def sheet_of(runbook: Runbook) -> Sheet:
    return Sheet({one.id: one.instrument(floor=runbook.bar.floor_of(one.id)) for one in runbook.criteria})


def scores_of(
    runbook: Runbook,
    sheet: Sheet,
    grading: Grading,
    documents: dict[int, Document],
    *,
    source: Source,
) -> tuple[Score, ...]:
    """A sheet's cells as scores; where the sheet itself could not be read, each has its error."""
    outcome = grading.outcome
    cells = sheet.cells(outcome.value) if isinstance(outcome, Graded) else {}
    scores = []
    for criterion in runbook.criteria:
        cell = cells.get(criterion.id, outcome)
        plain = Score(id=criterion.id, name=criterion.name, source=source)
        if isinstance(cell, Read):
            scores.append(
                msgspec.structs.replace(
                    plain,
                    score=int(cell.answer),
                    message=cell.reasoning,
                    evidence=located(cell.evidence, documents),
                )
            )
        else:
            assert isinstance(cell, Invalid), "a graded sheet has a cell for every criterion"
            scores.append(msgspec.structs.replace(plain, error=cell))
    return tuple(scores)


def _task(criterion: Criterion, runbook: Runbook) -> str:
    """One criterion, with what the author says of it beside the table; nothing of the others."""
    task = f"Score one criterion of the author's rubric: {criterion.name}"
    notes = runbook.notes_on(criterion)
    return f"{task}\nThe author adds: {notes}" if notes else task

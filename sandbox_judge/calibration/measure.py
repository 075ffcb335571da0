"""Labelled rows against a judge: every row graded, every disagreement kept for a person to read."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from sandbox_judge.calibration.agreement import Agreement, Tally
from sandbox_judge.calibration.dataset import Dataset, Known
from sandbox_judge.calibration.row import FixtureRow
from sandbox_judge.calibration.trials import Grader, Trial, work_through
from sandbox_judge.caps import cut
from sandbox_judge.figures import Interval, wilson
from sandbox_judge.grading.evidence import Evidence
from sandbox_judge.grading.view import View

_ENTRY_CHARS: Final = 1_200
_ENTRIES: Final = 6
_KINDS_TOLD: Final = 12
_ENTRY: Final = re.compile(r"^\[(\d+)\] ", re.MULTILINE)


class Cited(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the view, cut where it is long."""

    n: int
    text: str


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """A row where label and verdict differ: what the judge said and cited, and who labelled it."""

    id: str
    expected: str
    verdict: str
    reasoning: str
    evidence: tuple[Evidence, ...]
    entries: tuple[Cited, ...]
    approved_by: str | None
    note: str | None


class Stability(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the rows that had a verdict each time did not have the same one each time."""

    repeats: int
    rows: int
    flipped: int
    interval: Interval | None

    @property
    def share(self) -> float | None:
        return self.flipped / self.rows if self.rows else None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a set. `faults` are messages of nulls, the most frequent first."""

    agreement: Agreement
    disagreements: tuple[Disagreement, ...]
    stability: Stability | None
    response_models: tuple[str | None, ...]
    faults: tuple[tuple[str, int], ...]


class Measuring:
    """One run over rows, in the order of their ends. The first of several repeats counts for the figures."""

    def __init__(
        self, grader: Grader, dataset: Dataset, *, repeats: int, step: Callable[[bool], None]
    ) -> None:
        self.grader, self.dataset, self.repeats, self.step = grader, dataset, repeats, step
        self.tally = Tally()
        self.disagreements: dict[str, Disagreement] = {}
        self.faults: Counter[str] = Counter()
        self.models: set[str | None] = set()
        self.steady = self.flipped = 0

    async def run(self, rows: Sequence[Known], *, concurrency: int, max_invalid: float) -> Measured:
        """Grades the rows. Raises InputError where the set changes meanwhile, MissingExtra."""
        await work_through(self._rows(rows), self._row, concurrency=concurrency)
        agreement = self.tally.agreement(max_invalid=max_invalid)
        told = () if agreement.withheld else tuple(self._ordered(rows))
        return Measured(
            agreement=agreement,
            disagreements=told,
            stability=self._stability(),
            response_models=tuple(sorted(self.models, key=lambda name: name or "")),
            faults=tuple(self.faults.most_common(_KINDS_TOLD)),
        )

    def _rows(self, rows: Sequence[Known]) -> Iterator[FixtureRow]:
        for _, row in self.dataset.read(rows):
            assert isinstance(row, FixtureRow), "only fixtures are calibrated on"
            yield row

    async def _row(self, row: FixtureRow) -> None:
        view = await self.grader.view(row.conversation)
        trials = [
            await self.grader.trial(row.conversation, view=view, repeat=number)
            for number in range(self.repeats)
        ]
        for trial in trials:
            self._heard(trial)
        first = trials[0]
        expected = str(row.expected)
        self.tally.add(expected, first.answer, first.error.type if first.error else None)
        if first.answer is not None and first.answer != expected:
            self.disagreements[row.id] = disagreement(row, view, first)
        answers = {trial.answer for trial in trials}
        if self.repeats > 1 and None not in answers:
            self.steady += len(answers) == 1
            self.flipped += len(answers) > 1
        self.step(all(trial.reused for trial in trials))

    def _heard(self, trial: Trial) -> None:
        if trial.error is not None:
            self.faults[f"{trial.error.type}: {trial.error.message}"] += 1
        else:
            self.models.add(trial.response_model)

    def _ordered(self, rows: Sequence[Known]) -> Iterator[Disagreement]:
        yield from (self.disagreements[row.id] for row in rows if row.id in self.disagreements)

    def _stability(self) -> Stability | None:
        if self.repeats < 2:
            return None
        rows = self.steady + self.flipped
        return Stability(
            repeats=self.repeats, rows=rows, flipped=self.flipped, interval=wilson(self.flipped, rows)
        )


def disagreement(row: FixtureRow, view: View, trial: Trial) -> Disagreement:
    cited = {one.entry for one in trial.evidence if one.entry is not None}
    return Disagreement(
        id=row.id,
        expected=str(row.expected),
        verdict=str(trial.answer),
        reasoning=trial.reasoning,
        evidence=trial.evidence,
        entries=entries_of(view.text, cited),
        approved_by=row.approved_by,
        note=row.note,
    )


def entries_of(view_text: str, numbers: set[int]) -> tuple[Cited, ...]:
    """The entries that are cited; without any, the last message of the view."""
    starts = list(_ENTRY.finditer(view_text))
    ends = [start.start() for start in starts[1:]] + [len(view_text)]
    known = {int(start[1]) for start in starts}
    wanted = numbers & known or {max(known, default=0)}
    found = [
        Cited(n=int(start[1]), text=cut(view_text[start.start() : end].rstrip("\n"), _ENTRY_CHARS))
        for start, end in zip(starts, ends, strict=True)
        if int(start[1]) in wanted
    ]
    return tuple(found[:_ENTRIES])

"""One run of probes over rows: the verdict as it is, then under each change. Nothing else differs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from sandbox_judge.calibration.dataset import Dataset, Known
from sandbox_judge.calibration.row import FixtureRow, PairRow, Row
from sandbox_judge.calibration.trials import Grader, Trial, work_through
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.grading.instruments import VERDICT
from sandbox_judge.grading.prompt import build_messages
from sandbox_judge.grading.view import View
from sandbox_judge.probes import makers
from sandbox_judge.probes.count import Count, Moved, difference
from sandbox_judge.probes.familiarity import LEAST, restated
from sandbox_judge.probes.pairs import SWAPPED, both_ways
from sandbox_judge.probes.variant import Variant

_CONTROL: Final = ("control", "asked again, nothing changed")
_PAIRS: Final = ("pairs", "first and second exchanged")
_FAMILIARITY: Final = ("familiarity", "restated by the judge's model")


class PairFigures(msgspec.Struct, kw_only=True):
    """Of pairs shown both ways: how many keep their preference, and how often that is the label's."""

    n: int = 0
    kept: int = 0
    labelled: int = 0
    agreed: int = 0
    first_both_times: int = 0
    second_both_times: int = 0


class Probing:
    """`wanted` are names of probes. Rows whose judge gives no verdict as they are cannot be probed."""

    def __init__(
        self, grader: Grader, dataset: Dataset, *, wanted: frozenset[str], step: Callable[[bool], None]
    ) -> None:
        self.grader, self.dataset, self.wanted, self.step = grader, dataset, wanted, step
        self.counts: dict[tuple[str, str], Count] = {}
        self.pairs = PairFigures()
        self.rows = self.without_verdict = 0
        self.faults: Counter[str] = Counter()

    async def run(self, rows: Sequence[Known], *, concurrency: int) -> None:
        """Raises InputError where the set changes meanwhile, MissingExtra."""
        await work_through(self._rows(rows), self._row, concurrency=concurrency)

    def results(self) -> list[dict[str, Any]]:
        """The probes in a steady order."""
        return [self.counts[key].as_json() for key in sorted(self.counts, key=_place)]

    def _rows(self, rows: Sequence[Known]) -> Iterator[Row]:
        yield from (row for _, row in self.dataset.read(rows))

    async def _row(self, row: Row) -> None:
        if isinstance(row, PairRow):
            await self._pair(row)
        else:
            await self._fixture(row)
        self.step(False)

    async def _fixture(self, row: FixtureRow) -> None:
        self.rows += 1
        view = await self.grader.view(row.conversation)
        base = await self.grader.trial(row.conversation, view=view)
        if base.answer is None:
            self.without_verdict += 1
            self._failed(base)
            return
        again = await self.grader.trial(row.conversation, view=view, repeat=1)
        self._counted(_CONTROL, row, base, again, "nothing", ())
        for variant in self._variants(row.conversation, base.answer):
            await self._variant(row, view, base, variant)
        if "familiarity" in self.wanted:
            await self._restated(row, view, base)

    def _variants(self, conversation: Conversation, verdict: str) -> Iterator[Variant]:
        if "length" in self.wanted:
            yield from makers.length(conversation)
        if "order" in self.wanted:
            yield from makers.order(conversation, self.grader.judge.instructions)
        if "surface" in self.wanted:
            yield from makers.surface(conversation)
        if "injection" in self.wanted:
            yield from makers.injection(conversation, verdict)

    async def _variant(self, row: FixtureRow, view: View, base: Trial, variant: Variant) -> None:
        conversation = variant.conversation or row.conversation
        seen = view if variant.conversation is None else await self.grader.view(conversation)
        trial = await self.grader.trial(
            conversation,
            view=seen,
            instructions=variant.instructions,
            instrument=variant.instrument or VERDICT,
        )
        moved = trial.answer is not None and trial.answer != base.answer
        diff = self._diff(view, seen, variant) if moved else ()
        self._counted((variant.probe, variant.name), row, base, trial, variant.changed, diff)

    async def _restated(self, row: FixtureRow, view: View, base: Trial) -> None:
        variant = await restated(self.grader, row.conversation)
        count = self._count(_FAMILIARITY, least=LEAST)
        if isinstance(variant, str):
            count.drop(variant)
        elif variant is not None:
            await self._variant(row, view, base, variant)

    async def _pair(self, row: PairRow) -> None:
        there, back, view, swapped = await both_ways(self.grader, *row.candidates)
        count, figures = self._count(_PAIRS), self.pairs
        if there.answer is None or back.answer is None:
            count.invalid += 1
            self._failed(there if there.answer is None else back)
            return
        figures.n += 1
        kept = SWAPPED[back.answer] == there.answer
        if kept:
            count.same("the candidates stand the other way round")
            figures.kept += 1
            figures.labelled += row.expected is not None
            figures.agreed += row.expected == there.answer
            return
        first, second = (there.answer == back.answer == word for word in ("first", "second"))
        figures.first_both_times += first
        figures.second_both_times += second
        moved = Moved(
            id=row.id,
            before=there.answer,
            after=SWAPPED[back.answer],
            expected=row.expected,
            changed="the candidates stand the other way round",
            diff=difference(view.text, swapped.text),
        )
        count.flip(moved, to_pass=first, from_pass=second)

    def _failed(self, trial: Trial) -> None:
        if trial.error is not None:
            self.faults[f"{trial.error.type}: {trial.error.message}"] += 1

    def _count(self, key: tuple[str, str], *, least: int = 1) -> Count:
        return self.counts.setdefault(key, Count(*key, least=least))

    def _counted(
        self,
        key: tuple[str, str],
        row: FixtureRow,
        base: Trial,
        trial: Trial,
        changed: str,
        diff: tuple[str, ...],
    ) -> None:
        count = self._count(key, least=LEAST if key == _FAMILIARITY else 1)
        if trial.answer is None:
            count.invalid += 1
            self._failed(trial)
        elif trial.answer == base.answer:
            count.same(changed)
        else:
            moved = Moved(
                id=row.id,
                before=str(base.answer),
                after=trial.answer,
                expected=row.expected,
                changed=changed,
                diff=diff,
            )
            count.flip(moved, to_pass=trial.answer == "pass", from_pass=base.answer == "pass")

    def _diff(self, view: View, seen: View, variant: Variant) -> tuple[str, ...]:
        """The difference of the whole prompt where the question changed, else of the views."""
        if variant.conversation is not None:
            return difference(view.text, seen.text)
        own = self.grader.judge.instructions
        before = build_messages(view=view, instructions=own, instrument=VERDICT)
        after = build_messages(
            view=view, instructions=variant.instructions or own, instrument=variant.instrument or VERDICT
        )
        return difference(str(before[-1]["content"]), str(after[-1]["content"]))


def _place(key: tuple[str, str]) -> tuple[int, str]:
    order = ("control", "length", "order", "familiarity", "surface", "injection", "pairs")
    return order.index(key[0]), key[1]

"""Walking a person through the rows that have no label yet. The judge's own opinion is never shown: whoever
sees it first agrees with it too often.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sandbox_judge.calibration.dataset import read_dataset
from sandbox_judge.calibration.edit import put_words
from sandbox_judge.calibration.row import PREFERENCES, SPLITS, VERDICTS, FixtureRow, Row
from sandbox_judge.grading.view import build_view

_QUIT: Final = "q"
_SKIP: Final = "s"

Show = Callable[[str], None]
Ask = Callable[[str], str | None]
"""Shows a question and gives the line that was answered; None at the end of the input."""


class Ended(Exception):
    """The person stopped, or the input ended; what was labelled is saved."""


class Labelling:
    """One sitting. Each label is on disk before the next question."""

    def __init__(
        self, path: Path, *, ask: Ask, show: Show, approved_by: str | None, split: str | None
    ) -> None:
        self.path, self.ask, self.show = path, ask, show
        self.approver, self.fixed_split, self.split = approved_by, split, split
        self.labelled = 0

    def walk(self) -> int:
        """Asks about every row without a label; the number of those that are left. Raises InputError."""
        dataset = read_dataset(self.path)
        if dataset.faults:
            self.show(f"{len(dataset.faults)} rows cannot be read; `sandbox-judge fixture check` says why.")
        waiting = [row for row in dataset.rows if row.expected is None]
        left = len(waiting)
        try:
            for number, (known, row) in enumerate(dataset.read(waiting), 1):
                self.show(f"\n{'─' * 72}\nRow {number} of {len(waiting)}: {row.id}\n")
                words = self._words(row)
                if words is not None:
                    put_words(self.path, known, words)
                    self.labelled += 1
                    left -= 1
        except Ended:
            pass
        return left

    def _words(self, row: Row) -> dict[str, str] | None:
        answers: tuple[str, ...]
        if isinstance(row, FixtureRow):
            self.show(build_view(row.conversation).text)
            answers = VERDICTS
        else:
            for name, candidate in zip(("FIRST", "SECOND"), row.candidates, strict=True):
                self.show(f"{name}\n{build_view(candidate).text}\n")
            answers = PREFERENCES
        expected = self._choice("\nYour verdict", answers)
        if expected is None:
            return None
        words = {"expected": expected}
        if isinstance(row, FixtureRow):
            words["split"] = self._split()
        words["approved_by"] = self._approver()
        note = self._line("Note (empty: none): ").strip()
        return words | ({"note": note} if note else {})

    def _choice(self, question: str, answers: tuple[str, ...]) -> str | None:
        # "second" takes the letter of "skip", which then is written out.
        keys = {_SKIP: None, "skip": None} | {answer[0]: answer for answer in answers}
        keys |= {answer: answer for answer in answers}
        skip = "[skip]" if keys[_SKIP] else f"[{_SKIP}] skip"
        offered = ", ".join(f"[{answer[0]}] {answer}" for answer in answers)
        while True:
            said = self._line(f"{question}: {offered}, {skip}, [{_QUIT}] quit: ").strip().lower()
            if said in (_QUIT, "quit"):
                raise Ended
            if said in keys:
                return keys[said]
            self.show(f"{said!r} is none of these.")

    def _split(self) -> str:
        if self.fixed_split is not None:
            return self.fixed_split
        while True:
            usual = f" (empty: {self.split})" if self.split else ""
            said = self._line(f"Split: {', '.join(SPLITS)}{usual}: ").strip() or self.split
            if said in SPLITS:
                self.split = said
                return said
            self.show(f"{said!r} is no split.")

    def _approver(self) -> str:
        while not self.approver:
            self.approver = self._line("\nWho approves these labels (name): ").strip() or None
        return self.approver

    def _line(self, question: str) -> str:
        said = self.ask(question)
        if said is None:
            raise Ended
        return said

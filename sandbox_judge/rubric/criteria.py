"""What a rubric asks for: its criteria, and the bar that their scores must reach (`spec/rubric.md`). Pure."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, Literal

import msgspec

from sandbox_judge.grading.instruments import Instrument, criterion

LOWEST: Final = 1
HIGHEST: Final = 5
DEFAULT_AVERAGE: Final = 4.0
DEFAULT_FLOOR: Final = 3.0
_NOT_DESCRIBED: Final = "(the rubric does not say)"


class Doubt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something about a runbook that its author should know. `line` counts from 1; only errors keep the
    rubric from being used."""

    code: str
    message: str
    severity: Literal["error", "warning", "advice"] = "warning"
    line: int | None = None


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a rubric. `anchors` by score: 5, 3 and 1 where the author wrote them, 4 and 2 if there."""

    id: str
    name: str
    anchors: Mapping[int, str]
    line: int = 0

    def instrument(self, *, floor: float) -> Instrument:
        """The criterion as a closed answer set: whole scores from 1 to 5, failing below `floor`."""
        plain = criterion(
            name=self.name,
            five=self._anchor(5),
            three=self._anchor(3),
            one=self._anchor(1),
            threshold=math.ceil(floor),
        )
        between = {score: text for score, text in self.anchors.items() if score in (4, 2)}
        if not between:
            return plain
        lines = [f"- {score}: {self._anchor(score)}" for score in (5, 4, 3, 2, 1)]
        return msgspec.structs.replace(
            plain, guidance="\n".join([f"Score the criterion: {self.name}", *lines])
        )

    def _anchor(self, score: int) -> str:
        if score in self.anchors:
            return self.anchors[score]
        return {4: "between 5 and 3", 2: "between 3 and 1"}.get(score, _NOT_DESCRIBED)


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """What a run must reach. `floors` are of single criteria, by id, where the rubric states them; `free` are
    clauses that no table can check, `remark` is text behind the line. `line` None: no line, the default."""

    average: float = DEFAULT_AVERAGE
    floor: float = DEFAULT_FLOOR
    strictly_above: bool = False
    floors: Mapping[str, float] = {}
    free: tuple[str, ...] = ()
    remark: str = ""
    line: int | None = None

    def floor_of(self, criterion_id: str) -> float:
        """Below this the criterion fails, whatever the mean."""
        return max(self.floor, self.floors.get(criterion_id, self.floor))

    def reached_by(self, mean: Fraction) -> bool:
        """Whether an unrounded mean is high enough. The bar is the decimal that was written, not the binary
        number next to it: 3.7 is reached by 37/10."""
        bar = Fraction(repr(self.average))
        return mean > bar if self.strictly_above else mean >= bar

    @property
    def item(self) -> str:
        """The checklist item that states the average, in the runbook's own number."""
        word = "above" if self.strictly_above else "at least"
        return f"Overall rubric average is {word} {self.average}"

    @property
    def item_id(self) -> str:
        return slug(self.item)


def slug(text: str) -> str:
    """The id that a name makes: lower case, every run of other characters than letters and digits a hyphen,
    the ends trimmed. May be empty."""
    words = "".join(char if char.isalnum() else " " for char in text.lower()).split()
    return "-".join(words)


def number(value: float) -> float | int:
    """3.0 as 3, for reports and messages; other numbers as they are."""
    return int(value) if float(value).is_integer() else value

"""Closed answer sets (design, section 8): what a judge may answer, how it is asked for, how it is read.

An instrument gives the reply's JSON Schema, reads an answer strictly and knows its threshold. It never
guesses: what is not exactly one of the set is no answer.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

Answer = str | int
Kind = Literal["words", "score"]

# Above this many values a score is asked for by range in words, not by an enumeration.
_ENUMERATED: Final = 20
_ASCII_FOLD: Final = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} | {0x20: "_", 0x2D: "_"}


class AnswerSet(Protocol):
    """What the reader of a reply asks of a closed answer set: an instrument, or several on one sheet."""

    @property
    def key(self) -> str: ...

    def read(self, value: Any) -> Answer | None: ...

    def schema(self) -> dict[str, Any]: ...

    def wanted(self) -> str: ...


class Instrument(msgspec.Struct, frozen=True, kw_only=True):
    """One closed answer set. `answers` in order; `key` is the answer's key in the reply.

    `passing`: the answers that pass, where the set itself says so; None where nothing passes or fails.
    `guidance` are the lines that tell the model what the answers mean.
    """

    key: str
    kind: Kind
    answers: tuple[Answer, ...]
    guidance: str
    passing: tuple[Answer, ...] | None = None
    threshold: int | None = None

    def read(self, value: Any) -> Answer | None:
        """The answer that `value` (parsed JSON) is, or None.

        Words: after trimming, ASCII case folding and reading a space or hyphen as an underscore, exactly one
        of the set. Scores: an integer of the range; no booleans, strings or fractions.
        """
        if self.kind == "score":
            whole = isinstance(value, int) and not isinstance(value, bool)
            whole = whole or (isinstance(value, float) and value.is_integer())
            return int(value) if whole and value in self.answers else None
        if not isinstance(value, str):
            return None
        wanted = _folded(value)
        return next((a for a in self.answers if _folded(str(a)) == wanted), None)

    def passes(self, answer: Answer) -> bool | None:
        """Whether `answer` passes; None where the set has no threshold, or the answer is not counted."""
        if self.threshold is not None:
            return int(answer) >= self.threshold
        if self.passing is None or answer == "not_applicable":
            return None
        return answer in self.passing

    def schema(self) -> dict[str, Any]:
        """The reply's JSON Schema, in the subset that OpenAI's strict mode takes: every key required, none
        other allowed. Reasoning comes first, so that the answer follows from it."""
        answer: dict[str, Any] = {"type": "integer" if self.kind == "score" else "string"}
        if self.kind == "words" or len(self.answers) <= _ENUMERATED:
            answer["enum"] = list(self.answers)
        quote = {"entry": {"type": "integer"}, "quote": {"type": "string"}}
        evidence = {"type": "array", "items": _closed(quote)}
        return _closed({"reasoning": {"type": "string"}, "evidence": evidence, self.key: answer})

    def wanted(self) -> str:
        """The answer set as one clause, for prompts and messages."""
        if self.kind == "score":
            return f"an integer from {self.answers[0]} to {self.answers[-1]}"
        return "one of " + ", ".join(f'"{a}"' for a in self.answers)


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _folded(word: str) -> str:
    # No compatibility folding: full-width or look-alike letters are other words.
    return word.strip().translate(_ASCII_FOLD)


VERDICT: Final = Instrument(
    key="verdict",
    kind="words",
    answers=("pass", "fail", "not_applicable"),
    passing=("pass",),
    guidance=(
        '- "pass": the judge\'s instructions apply to this conversation, and what they ask for holds.\n'
        '- "fail": they apply, and it does not hold.\n'
        '- "not_applicable": the conversation never comes to the situation that the instructions are about,\n'
        "  or they themselves say that it is to be left out. Doubt is no reason for it: where the situation\n"
        "  is there, decide between pass and fail."
    ),
)

YES_NO: Final = Instrument(
    key="answer",
    kind="words",
    answers=("yes", "no"),
    passing=("yes",),
    guidance='- "yes": the statement or question in the instructions holds.\n- "no": it does not.',
)


def criterion(*, name: str, five: str, three: str, one: str, threshold: int = 3) -> Instrument:
    """A rubric's criterion: 1 to 5 with anchors at 5, 3 and 1. Below `threshold` it fails."""
    return Instrument(
        key="score",
        kind="score",
        answers=(1, 2, 3, 4, 5),
        threshold=threshold,
        guidance=(
            f"Score the criterion: {name}\n- 5: {five}\n- 4: between 5 and 3\n- 3: {three}\n"
            f"- 2: between 3 and 1\n- 1: {one}"
        ),
    )


def scale(*, low: int = 1, high: int = 5, threshold: int | None = None) -> Instrument:
    """Whole numbers from `low` to `high`. Raises ValueError for an empty, single or huge range."""
    if not low < high or high - low > 1_000:
        raise ValueError(f"a scale from {low} to {high} is not one: it needs 2 to 1001 whole numbers")
    return Instrument(
        key="score",
        kind="score",
        answers=tuple(range(low, high + 1)),
        threshold=threshold,
        guidance=f"- {low} is the lowest score, {high} the highest. Whole numbers only.",
    )


def categories(labels: Sequence[str], *, passing: Sequence[str] | None = None) -> Instrument:
    """One label out of `labels`. Raises ValueError for fewer than two, for blank ones, and for two labels
    that the reader could not tell apart."""
    folded = [_folded(label) for label in labels]
    if len(labels) < 2 or not all(folded) or len(set(folded)) < len(folded):
        raise ValueError("categories need at least two labels that differ by more than case and hyphens")
    if passing is not None and not set(passing) <= set(labels):
        raise ValueError("a passing category must be one of the categories")
    return Instrument(
        key="label",
        kind="words",
        answers=tuple(labels),
        passing=None if passing is None else tuple(passing),
        guidance="Choose the one label that fits best.",
    )

"""The pass threshold line of a rubric (`spec/rubric.md`): many wordings, one bar. Pure.

What cannot be read as an average, a floor for every criterion or a floor for a named one is kept as a free
clause. A number on another scale than 1 to 5 is an error, never a guess.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sandbox_judge.rubric.criteria import (
    DEFAULT_AVERAGE,
    DEFAULT_FLOOR,
    HIGHEST,
    LOWEST,
    Bar,
    Criterion,
    Doubt,
    number,
    slug,
)
from sandbox_judge.rubric.markdown import Prose

_LABEL: Final = re.compile(
    r"^[\W_]{0,10}pass(?:ing)?[ -](?:threshold|mark|bar|score|criteria)s?\b\s*[:=–—-]?\s*", re.IGNORECASE
)
# A number, or a parameter that stands for one, with the scale that may follow.
_NUMBER: Final = re.compile(
    r"(?<![\w.])(?:\{\{\s*([\w.-]{1,100})\s*\}\}|(\d{1,4}(?:\.\d{1,6})?))(?!\.?\d)"
    r"(?:\s{0,2}(%|percent\b|/\s{0,2}\d{1,4}|out of \d{1,4}))?"
)
_AVERAGE: Final = re.compile(r"\b(?:overall|average|mean|avg)\b", re.IGNORECASE)
_EACH: Final = re.compile(
    r"\b(?:criterion|criteria|dimensions?|individual|none|each|every|per|all (?:scores|of them)|no score)\b",
    re.IGNORECASE,
)
_AT_LEAST: Final = re.compile(
    r">=|=>|≥|⩾|\bat least\b|\bmin(?:imum)?\b|\bnot? (?:below|less than|lower than|under)\b"
    r"|\bor (?:higher|above|more|better|greater)\b|\bmust be\b|\bis\b|\bof\b",
    re.IGNORECASE,
)
_ABOVE: Final = re.compile(r">|\b(?:above|over|more than|greater than|exceeds?)\b", re.IGNORECASE)
_BELOW: Final = re.compile(r"<|\b(?:below|under|less than|lower than)\b", re.IGNORECASE)
_AT_MOST: Final = re.compile(r"<=|≤|⩽|\bat most\b|\bno more than\b|\bup to\b|\bmax(?:imum)?\b", re.IGNORECASE)
_NEGATED: Final = re.compile(r"\b(?:no|none|not|never|nothing)\b", re.IGNORECASE)
_FAILS: Final = re.compile(r"\bfails?\b", re.IGNORECASE)
_PIECES: Final = re.compile(r"[;,]\s+|(?<=[\w)}])\.\s+|\.$|\n")
_AND: Final = re.compile(r"\s+(?:and|AND|&|with)\s+|^(?:and|with)\s+")
_GOES_ON: Final = re.compile(r"[,;&]|(?:and|with)\b")
_BARE: Final = re.compile(r"[\W_]*(?:points?)?[\W_]*", re.IGNORECASE)


class _Fault(Exception):
    """A clause that names a number that cannot be used."""


class _Found(msgspec.Struct):
    average: float | None = None
    strictly: bool = False
    floor: float | None = None
    floors: dict[str, float] = {}


def is_threshold_line(prose: Prose) -> bool:
    return _LABEL.match(prose.text) is not None and bool(_rest(prose)[0] or _rest(prose)[1])


def read_threshold(
    prose: Prose, *, criteria: Sequence[Criterion], parameters: Mapping[str, str]
) -> tuple[Bar, tuple[Doubt, ...]]:
    """The bar of one threshold line. A line that names a number on another scale, or a parameter without a
    number, is an error and leaves the default standing, which nobody should then use."""
    stated, behind = _rest(prose)
    reader = _Reader(criteria, parameters)
    free: list[str] = []
    try:
        for piece in _pieces(stated):
            free += reader.leaves(piece)
        if _GOES_ON.match(behind):
            free += [part for piece in _pieces(behind) for part in reader.leaves(piece)]
            behind = ""
    except _Fault as fault:
        doubt = Doubt(code="threshold_invalid", message=str(fault), severity="error", line=prose.line)
        return Bar(line=prose.line), (doubt,)
    found = reader.found
    doubts = [
        Doubt(code="clause_unchecked", message=f"no table can check this clause: {clause}", line=prose.line)
        for clause in free
    ]
    for said, what, default in (
        (found.average, "an average", DEFAULT_AVERAGE),
        (found.floor, "a floor for every criterion", DEFAULT_FLOOR),
    ):
        if said is None:
            message = f"the threshold line does not state {what}; {number(default)} is used"
            doubts.append(Doubt(code="threshold_default", message=message, line=prose.line))
    return (
        Bar(
            average=DEFAULT_AVERAGE if found.average is None else found.average,
            floor=DEFAULT_FLOOR if found.floor is None else found.floor,
            strictly_above=found.strictly,
            floors=found.floors,
            free=tuple(free),
            remark=behind,
            line=prose.line,
        ),
        tuple(doubts),
    )


def _rest(prose: Prose) -> tuple[str, str]:
    """What is stated behind the label, and what follows the bold part (all is stated where only the label is
    bold, or nothing)."""
    match = _LABEL.match(prose.text)
    cut = match.end() if match else 0
    stated, behind, closed = "", "", False
    bold_first = next((span.bold for span in prose.spans if span.text.strip()), False)
    for span in prose.spans:
        text, cut = span.text[cut:], max(0, cut - len(span.text))
        closed = closed or (bold_first and not span.bold and bool(stated.strip(" .:")))
        if closed:
            behind += text
        else:
            stated += text
    return stated.strip(), behind.strip()


def _pieces(text: str) -> list[str]:
    return [piece.strip(" .") for piece in _PIECES.split(text) if piece and piece.strip(" .*")]


class _Reader:
    def __init__(self, criteria: Sequence[Criterion], parameters: Mapping[str, str]) -> None:
        self.criteria = criteria
        self.parameters = parameters
        self.found = _Found(floors={})

    def leaves(self, clause: str) -> list[str]:
        """Reads one clause; gives what of it could not be read."""
        if self._reads(clause):
            return []
        parts = [part for part in _AND.split(clause) if part.strip()]
        left = [part for part in parts if not self._reads(part)] if len(parts) > 1 else [clause]
        return [clause] if len(left) == len(parts) else left

    def _reads(self, clause: str) -> bool:
        numbers = list(_NUMBER.finditer(clause))
        if len(numbers) != 1:
            return False
        rest = clause[: numbers[0].start()] + clause[numbers[0].end() :]
        named = self._named(clause, numbers[0])
        individual = _EACH.search(clause) and not (
            _AVERAGE.search(clause) and "individual" not in clause.lower()
        )
        overall = _BARE.fullmatch(rest) or (_AVERAGE.search(clause) and not individual)
        bound = _lower_bound(rest)
        if named is not None and bound:
            self.found.floors[named] = self._value(numbers[0])
        elif individual and bound:
            self._once("floor", self._value(numbers[0]))
        elif overall and (bound or not (_BELOW.search(rest) or _AT_MOST.search(rest))):
            self._once("average", self._value(numbers[0]))
            self.found.strictly = bound == "above"
        else:
            return False
        return True

    def _once(self, what: str, value: float) -> None:
        if getattr(self.found, what) is None:
            setattr(self.found, what, value)
        elif getattr(self.found, what) != value:
            raise _Fault(f"the threshold line states two numbers for the {what}")

    def _named(self, clause: str, match: re.Match[str]) -> str | None:
        """The criterion whose whole name the clause says before its number."""
        text = f" {slug(clause[: match.start()]).replace('-', ' ')} "
        best = None
        for one in self.criteria:
            words = one.id.replace("-", " ")
            if words and f" {words} " in text and (best is None or len(words) > len(best[0])):
                best = (words, one.id)
        return None if best is None else best[1]

    def _value(self, match: re.Match[str]) -> float:
        parameter, digits, scale = match.groups()
        text = digits
        if parameter is not None:
            given = self.parameters.get(parameter)
            if given is None:
                raise _Fault(
                    f"the threshold is the parameter {parameter}, which has no default here: give it with "
                    f"--param {parameter}=NUMBER"
                )
            whole = re.fullmatch(r"\s*(\d{1,4}(?:\.\d{1,6})?)\s*(%|/\s*\d+)?\s*", given)
            if whole is None:
                raise _Fault(f"the threshold is the parameter {parameter}, and {given!r} is no number")
            text, scale = whole[1], whole[2] or scale
        other = scale is not None and re.sub(r"\D", "", scale) != str(HIGHEST)
        if other or not LOWEST <= float(text) <= HIGHEST:
            raise _Fault(
                f"the threshold {text}{scale or ''} is not on the rubric's scale of {LOWEST} to {HIGHEST}"
            )
        return float(text)


def _lower_bound(rest: str) -> str | None:
    """`least`, `above`, or None where the words around the number set no lower bound."""
    if _AT_MOST.search(rest):
        return None
    if _BELOW.search(rest):
        return "least" if _NEGATED.search(rest) or _FAILS.search(rest) else None
    if _AT_LEAST.search(rest) and not re.search(r"(?<![=-])>(?!=)", rest):
        return "least"
    return "above" if _ABOVE.search(rest) else None

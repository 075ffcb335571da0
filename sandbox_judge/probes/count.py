"""What came of a probe: how many verdicts moved, in which direction, and which. Pure."""

import difflib
from itertools import takewhile
from typing import Any, Final

import msgspec

from sandbox_judge.figures import Interval, mcnemar_exact, wilson

_DIFF_LINES: Final = 40
_DIFF_CHARS: Final = 300
_DIFF_BEFORE: Final = 60


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict that moved, and the difference of what the judge saw."""

    id: str
    before: str
    after: str
    expected: str | None
    changed: str
    diff: tuple[str, ...]


class Count:
    """The flips under one variant. `least`: fewer rows leave no figure."""

    def __init__(self, probe: str, variant: str, *, least: int = 1) -> None:
        self.probe, self.variant, self.least = probe, variant, least
        self.n = self.to_pass = self.from_pass = self.invalid = 0
        self.moved: list[Moved] = []
        self.dropped: dict[str, int] = {}
        self.example = ""

    def same(self, changed: str) -> None:
        """A verdict that stayed."""
        self.n += 1
        self.example = self.example or changed

    def flip(self, moved: Moved, *, to_pass: bool, from_pass: bool) -> None:
        self.same(moved.changed)
        self.moved.append(moved)
        self.to_pass += to_pass
        self.from_pass += from_pass

    def drop(self, why: str) -> None:
        """A row that could not be changed as the probe wants."""
        self.dropped[why] = self.dropped.get(why, 0) + 1

    @property
    def undefined(self) -> str | None:
        if self.n >= self.least:
            return None
        if self.least == 1:
            return "no row has a verdict both ways"
        return f"{self.n} rows are left; fewer than {self.least} say nothing"

    @property
    def interval(self) -> Interval | None:
        return None if self.undefined else wilson(len(self.moved), self.n)

    def as_json(self) -> dict[str, Any]:
        defined = self.undefined is None
        return {
            "probe": self.probe,
            "variant": self.variant,
            "n": self.n,
            "flips": len(self.moved),
            "share": len(self.moved) / self.n if defined else None,
            "interval": None if self.interval is None else list(self.interval),
            "to_pass": self.to_pass,
            "from_pass": self.from_pass,
            "mcnemar_p": mcnemar_exact(self.from_pass, self.to_pass) if defined else None,
            "invalid": self.invalid,
            "dropped": self.dropped,
            "undefined": self.undefined,
            "changed": self.example,
            "moved": [msgspec.to_builtins(one) for one in sorted(self.moved, key=lambda one: one.id)],
        }


def difference(before: str, after: str) -> tuple[str, ...]:
    """The lines that differ, long ones from where they differ on; the headers of a diff say nothing here."""
    lines = list(difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=0))[2:]
    shown = [_cut(lines, at) for at in range(len(lines))]
    more = len(shown) - _DIFF_LINES
    return (*shown[:_DIFF_LINES], *([f"… and {more} more lines"] if more > 0 else []))


def _cut(lines: list[str], at: int) -> str:
    line = lines[at]
    if len(line) <= _DIFF_CHARS:
        return line
    # The line that this one replaced, or that replaced it.
    other = {"-": lines[at + 1 : at + 2], "+": lines[max(0, at - 1) : at]}.get(line[0], [])
    same = 1
    for one in other if other and other[0][:1] in "+-" else ():
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(line[1:], one[1:], strict=False))
        same = sum(1 for _ in alike) + 1
    begin = max(1, same - _DIFF_BEFORE)
    text = line[begin : begin + _DIFF_CHARS]
    return f"{line[0]}{'…' if begin > 1 else ''}{text}{'…' if begin + _DIFF_CHARS < len(line) else ''}"

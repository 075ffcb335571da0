"""Figures and text on their way to a person or a spreadsheet: aligned, escaped, never executed."""

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from sandbox_judge.figures import Interval
from sandbox_judge.store.compare import Difference
from sandbox_judge.store.tally import Drift, Tally
from sandbox_judge.terminal import escaped

# What a spreadsheet takes for the beginning of a formula (OWASP, CSV injection).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def _width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, widest: int = 60) -> list[str]:
    """Lines of an aligned table; cells are escaped, and cut visibly where they are wider than `widest`."""
    cells = [[_cut(escaped(cell), widest) for cell in row] for row in [head, *rows]]
    widths = [max(_width(row[column]) for row in cells) for column in range(len(head))]
    return [
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def _cut(text: str, widest: int) -> str:
    return text if len(text) <= widest else text[: widest - 1] + "…"


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV (RFC 4180); a cell that a spreadsheet would run as a formula gets an apostrophe before."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([[_cell(value) for value in row] for row in rows])
    return out.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.replace("\0", "�")
    return f"'{text}" if text.lstrip(" \n").startswith(_FORMULA) else text


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.1f} %"


def percents(interval: Interval | None) -> str:
    return "–" if interval is None else f"{interval.low * 100:.1f}–{interval.high * 100:.1f} %"


def points(difference: Difference) -> str:
    """A difference in percentage points, with its interval and test."""
    if difference.value is None or difference.interval is None or difference.test is None:
        return "undefined: a side has no pass or fail"
    low, high = difference.interval
    return (
        f"{difference.value * 100:+.1f} points ({low * 100:+.1f} to {high * 100:+.1f}), "
        f"p = {difference.test.p:.3g} ({difference.test.name})"
    )


def nulls(tally: Tally) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in tally.nulls.items()) or "–"


FIGURES: Final = ("pass rate", "interval", "n", "not applicable", "coverage", "nulls")


def figures(tally: Tally, z: float) -> list[str]:
    """A tally's cells, under `FIGURES`."""
    return [
        percent(tally.rate),
        percents(tally.interval(z)),
        f"{tally.decided:,}",
        f"{tally.not_applicable:,}",
        percent(tally.coverage),
        nulls(tally),
    ]


def drift_text(changes: Iterable[Drift]) -> str:
    return "; ".join(
        f"{one.field.replace('_', ' ')}: {', '.join(one.before)} → {', '.join(one.after)}" for one in changes
    )


def short(hashed: str | None) -> str:
    """A commit or hash as people write it."""
    return "(none)" if hashed is None else hashed.removeprefix("sha256:")[:12]

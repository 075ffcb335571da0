"""Which tables of a runbook are its rubric (`spec/rubric.md`), and their criteria. Pure.

A rubric has a `Criterion` column and columns that start with the integers 5, 3 and 1, in any order. Tables
that only look like one (a score table, common fixes, gates, pass conditions) are left alone.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sandbox_judge.rubric.criteria import Criterion, Doubt, slug
from sandbox_judge.rubric.markdown import Table

_CRITERION: Final = frozenset({"criterion", "criteria"})
_LEVEL: Final = re.compile(r"\W{0,4}(\d{1,3})(?![\w%/]|[.,]\d)")
# Each is a model call: what is longer is no rubric, or a mistake.
MOST_CRITERIA: Final = 100
_WANTED: Final = frozenset({5, 3, 1})
_PLACEHOLDER: Final = re.compile(r"\{[^{}]{1,80}\}|\.{3}|…|\b(?:TODO|TBD|FIXME)\b:?.{0,80}")
_PARAMETER: Final = re.compile(r"\{\{\s*([\w.-]{1,100})\s*\}\}")


def columns_of(table: Table) -> dict[str | int, int] | None:
    """Where the criterion and each level stand; None where the table is no rubric."""
    columns = _columns(table)
    return columns if columns is not None and set(columns) >= _WANTED else None


def other_scale(table: Table) -> tuple[int, ...]:
    """The levels of a table that is built like a rubric but on another scale; else nothing."""
    columns = _columns(table) or {}
    levels = tuple(key for key in columns if isinstance(key, int))
    return levels if len(levels) >= 2 and not set(levels) >= _WANTED else ()


def _columns(table: Table) -> dict[str | int, int] | None:
    columns: dict[str | int, int] = {}
    for at, cell in enumerate(table.header):
        if cell.lower().strip(" :*_") in _CRITERION:
            columns.setdefault("criterion", at)
        elif cell.lower().strip() == "score":
            return None
        elif level := _LEVEL.match(cell):
            columns.setdefault(int(level[1]), at)
    return columns if "criterion" in columns else None


def read_criteria(
    table: Table, columns: Mapping[str | int, int], *, parameters: Mapping[str, str]
) -> tuple[tuple[Criterion, ...], tuple[Doubt, ...]]:
    """The rows as criteria, with every doubt. Rows without any text are skipped."""
    criteria: list[Criterion] = []
    doubts: list[Doubt] = []
    levels = sorted((key for key in columns if isinstance(key, int)), reverse=True)
    for position, (row, line) in enumerate(zip(table.rows, table.lines, strict=True), 1):
        cells = {key: _filled(row[at], parameters) if at < len(row) else "" for key, at in columns.items()}
        name = cells["criterion"]
        if not any(cells.values()):
            continue
        if not name:
            doubts.append(_error("criterion_unnamed", f"row {position} of the rubric has no criterion", line))
            continue
        criteria.append(
            Criterion(
                id=slug(name) or f"criterion-{position}",
                name=name,
                anchors={level: cells[level] for level in levels if 1 <= level <= 5 and cells[level]},
                line=line,
            )
        )
        doubts += _row_doubts(criteria[-1])
    if len(criteria) > MOST_CRITERIA:
        message = f"{len(criteria):,} criteria are more than a rubric has ({MOST_CRITERIA} at most)"
        return (), (_error("rubric_too_long", message, table.line),)
    if not criteria:
        doubts.append(_error("rubric_empty", "the rubric table has no criterion", table.line))
    doubts += _table_doubts(table, levels, criteria)
    return tuple(criteria), tuple(doubts)


def _filled(text: str, parameters: Mapping[str, str]) -> str:
    return _PARAMETER.sub(lambda match: parameters.get(match[1], match[0]), text)


def _row_doubts(criterion: Criterion) -> list[Doubt]:
    doubts = []
    for level in sorted(_WANTED, reverse=True):
        if level not in criterion.anchors:
            message = f"{criterion.name}: no anchor says what a {level} looks like"
            doubts.append(Doubt(code="anchor_missing", message=message, line=criterion.line))
    texts = [criterion.name, *criterion.anchors.values()]
    for text in texts:
        for name in _PARAMETER.findall(text):
            message = f"{criterion.name}: the parameter {name} has no value here"
            doubts.append(Doubt(code="parameter_unset", message=message, line=criterion.line))
    if any(_PLACEHOLDER.fullmatch(text.strip()) and not _PARAMETER.fullmatch(text) for text in texts):
        message = f"{criterion.name}: placeholder text still stands in this row"
        doubts.append(Doubt(code="placeholder", message=message, line=criterion.line))
    return doubts


def _table_doubts(table: Table, levels: Sequence[int], criteria: Sequence[Criterion]) -> list[Doubt]:
    doubts = []
    first: dict[str, Criterion] = {}
    for criterion in criteria:
        earlier = first.setdefault(criterion.id, criterion)
        if earlier is not criterion:
            message = (
                f"two criteria have the id {criterion.id} (lines {earlier.line} and {criterion.line}); "
                "rename one"
            )
            doubts.append(_error("criterion_duplicate", message, criterion.line))
    beyond = [level for level in levels if not 1 <= level <= 5]
    if beyond:
        message = f"the column {beyond[0]} is outside the scale of 1 to 5"
        doubts.append(_error("scale_invalid", message, table.line))
    if any("weight" in cell.lower() for cell in table.header):
        message = "the weights are not used: the average is the plain mean of the criteria"
        doubts.append(Doubt(code="weights_unused", message=message, line=table.line))
    return doubts


def _error(code: str, message: str, line: int) -> Doubt:
    return Doubt(code=code, message=message, severity="error", line=line)

"""A runbook as the rubric's tools see it: frontmatter, rubric, bar, parameters, declared checks (pure)."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sandbox_judge.errors import InputError
from sandbox_judge.rubric.anchors import anchor_doubts
from sandbox_judge.rubric.criteria import Bar, Criterion, Doubt, number, slug
from sandbox_judge.rubric.frontmatter import Frontmatter, read_frontmatter, split
from sandbox_judge.rubric.markdown import Block, Fence, Prose, Table, blocks_of
from sandbox_judge.rubric.table import columns_of, other_scale, read_criteria
from sandbox_judge.rubric.threshold_line import is_threshold_line, read_threshold

MOST_BYTES: Final = 512 * 1024
_SECTION_CHECKS: Final = "code checks"
_SECTION_LIST: Final = "checklist"
_CHECK: Final = re.compile(r"([A-Za-z0-9._-]{1,100})\s*(?:—|–|--|-|:)\s*(.{1,500})")
_BOX: Final = re.compile(r"\[[ xX]\]\s+(.{1,500})", re.DOTALL)
_VARIABLE: Final = re.compile(r"\{\{\s*([\w.-]{1,100})\s*\}\}")
_NONE: Final = frozenset({"", "-", "—", "–", "none", "n/a"})


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A check that the runbook declares. `how`: the language of a code check's fence (`bash`, `agent`)."""

    kind: str
    id: str
    name: str
    line: int
    how: str = ""


class Runbook(msgspec.Struct, frozen=True, kw_only=True):
    """`criteria` empty: there is no rubric, or none that can be used (see the errors in `doubts`)."""

    name: str
    frontmatter: Frontmatter
    criteria: tuple[Criterion, ...]
    bar: Bar
    parameters: Mapping[str, str]
    declared: tuple[Declared, ...]
    doubts: tuple[Doubt, ...]
    # The part of the text that holds table and bar, for a judge that reads notes around them.
    notes: str = ""

    @property
    def errors(self) -> tuple[Doubt, ...]:
        return tuple(doubt for doubt in self.doubts if doubt.severity == "error")

    def usable(self) -> "Runbook":
        """Itself. Raises InputError where the rubric cannot be scored, with every reason."""
        if self.errors or not self.criteria:
            told = "; ".join(
                f"line {doubt.line}: {doubt.message}" if doubt.line else doubt.message
                for doubt in self.errors or self.doubts
            )
            raise InputError(
                f"its rubric cannot be used: {told}.",
                where=self.name,
                remedy="`sandbox-judge rubric check` shows how it is read; nothing was scored.",
            )
        return self

    def primary_outputs(self) -> tuple[str, ...]:
        """The outputs that must be there, relative to the results, where their names are known."""
        names = (self.filled(name) for name in self.frontmatter.primary_outputs)
        return tuple(name.removeprefix("./") for name in names if name and "{" not in name)

    def notes_on(self, criterion: Criterion) -> str:
        """The sentences beside the rubric that speak of one criterion, by its name or as `criterion 4`."""
        position = self.criteria.index(criterion) + 1
        about = re.compile(
            rf"\bcriterion {position}\b|(?<!\w){re.escape(criterion.name)}(?!\w)", re.IGNORECASE
        )
        sentences = re.split(r"(?<=[.!?])\s+", " ".join(self.notes.split()))
        return " ".join(sentence for sentence in sentences if about.search(sentence))

    def filled(self, text: str) -> str:
        return _VARIABLE.sub(lambda match: self.parameters.get(match[1], match[0]), text)


def read_runbook(data: bytes, *, name: str, given: Mapping[str, str] | None = None) -> Runbook:
    """Reads a runbook; `given` are parameters from the command line. Raises InputError for bytes that are no
    text, or too many."""
    if len(data) > MOST_BYTES:
        raise InputError("is larger than 512 KiB, which no runbook is.", where=name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start}).", where=name) from error
    head, body, first = split(text.replace("\r\n", "\n").replace("\r", "\n"))
    frontmatter, doubts = read_frontmatter(head or "")
    blocks = blocks_of(body, first_line=first)
    parameters = {**_parameters(blocks), **(given or {})}
    criteria, table, more = _rubric(blocks, frontmatter, parameters)
    bar, about_bar = _bar(blocks, table, criteria, parameters)
    found = [*doubts, *more, *about_bar, *anchor_doubts(criteria)]
    found.sort(key=lambda doubt: doubt.line or 0)
    return Runbook(
        name=name,
        frontmatter=frontmatter,
        criteria=criteria,
        bar=bar,
        parameters=parameters,
        declared=tuple(_declared(blocks)),
        doubts=tuple(found),
        notes=_notes(blocks, table),
    )


def _parameters(blocks: Sequence[Block]) -> dict[str, str]:
    """The defaults of the Parameters table: by template variable, plain text."""
    defaults = {}
    for table in (block for block in blocks if isinstance(block, Table)):
        header = [cell.lower() for cell in table.header]
        if "default" not in header or not {"template variable", "parameter", "variable"} & set(header):
            continue
        name_at = next(header.index(h) for h in ("template variable", "variable", "parameter") if h in header)
        for row in table.rows:
            value = row[header.index("default")].strip()
            name = _VARIABLE.search(row[name_at])
            key = name[1] if name else row[name_at].strip()
            if key and value.lower() not in _NONE:
                defaults[key] = value
    return defaults


def _rubric(
    blocks: Sequence[Block], frontmatter: Frontmatter, parameters: Mapping[str, str]
) -> tuple[tuple[Criterion, ...], Table | None, tuple[Doubt, ...]]:
    tables = [block for block in blocks if isinstance(block, Table)]
    rubrics = [(table, columns) for table in tables if (columns := columns_of(table)) is not None]
    if len(rubrics) > 1:
        lines = " and ".join(str(table.line) for table, _ in rubrics)
        message = f"there are {len(rubrics)} rubric tables (lines {lines}); one run has one rubric"
        return (), None, (_error("rubric_several", message, rubrics[1][0].line),)
    if rubrics:
        table, columns = rubrics[0]
        criteria, doubts = read_criteria(table, columns, parameters=parameters)
        return criteria, table, doubts
    for table in tables:
        if levels := other_scale(table):
            shown = ", ".join(map(str, levels))
            message = f"this table scores {shown}; a rubric has a Criterion column and columns 5, 3 and 1"
            return (), None, (_error("scale_invalid", message, table.line),)
    if frontmatter.evaluation == "programmatic":
        message = "no rubric: the runbook is evaluated by programs"
        return (), None, (Doubt(code="rubric_missing", message=message),)
    message = "there is no rubric table: a Criterion column and columns that start with 5, 3 and 1"
    return (), None, (_error("rubric_missing", message, None),)


def _bar(
    blocks: Sequence[Block],
    table: Table | None,
    criteria: Sequence[Criterion],
    parameters: Mapping[str, str],
) -> tuple[Bar, tuple[Doubt, ...]]:
    if table is None:
        return Bar(), ()
    lines = [block for block in blocks if isinstance(block, Prose) and is_threshold_line(block)]
    # The line belongs to the table before it: one above the table counts where none stands below.
    lines = [line for line in lines if line.line > table.line] or lines
    if not lines:
        default = Bar()
        message = (
            f"there is no pass threshold line: an average of at least {default.average} and no criterion "
            f"below {number(default.floor)} are used"
        )
        return default, (Doubt(code="threshold_default", message=message, line=table.line),)
    bar, doubts = read_threshold(lines[0], criteria=criteria, parameters=parameters)
    for other in lines[1:]:
        theirs, _ = read_threshold(other, criteria=criteria, parameters=parameters)
        if (theirs.average, theirs.floor) != (bar.average, bar.floor):
            message = f"another threshold line (line {bar.line}) says something else"
            doubts = (*doubts, _error("threshold_several", message, other.line))
    return bar, doubts


def _declared(blocks: Sequence[Block]) -> list[Declared]:
    """Code checks (`### id — name` with a fence) and checklist items, each in its own section."""
    found: list[Declared] = []
    section = ""
    pending: tuple[Prose, re.Match[str]] | None = None
    for block in blocks:
        if isinstance(block, Prose) and block.level in (1, 2):
            section, pending = block.text.strip().lower(), None
        elif section.endswith(_SECTION_CHECKS):
            if isinstance(block, Prose) and block.level >= 3:
                match = _CHECK.fullmatch(block.text.strip())
                pending = None if match is None else (block, match)
            elif isinstance(block, Fence) and pending is not None:
                heading, match = pending
                found.append(
                    Declared(
                        kind="code_check", id=match[1], name=match[2], line=heading.line, how=block.language
                    )
                )
                pending = None
        elif section.endswith(_SECTION_LIST) and isinstance(block, Prose) and block.listed:
            item = _BOX.match(block.text.strip())
            if item and slug(item[1]):
                found.append(Declared(kind="checklist", id=slug(item[1]), name=item[1], line=block.line))
    return found


def _notes(blocks: Sequence[Block], table: Table | None) -> str:
    """The paragraphs that follow the rubric, up to the next heading: they say how to read it."""
    if table is None:
        return ""
    notes = []
    for block in blocks[blocks.index(table) + 1 :]:
        if not isinstance(block, Prose) or block.level:
            break
        if not is_threshold_line(block):
            notes.append(block.text)
    return "\n".join(notes)


def _error(code: str, message: str, line: int | None) -> Doubt:
    return Doubt(code=code, message=message, severity="error", line=line)

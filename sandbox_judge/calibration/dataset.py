"""A calibration set on disk, read row by row: what stands in each, where, and what is wrong with it.

Only a summary of each row stays in memory; the conversations are read again where they are needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

from sandbox_judge.calibration.row import (
    FIXTURE,
    PAIR,
    FixtureRow,
    Preference,
    Row,
    Split,
    Verdict,
    read_row,
)
from sandbox_judge.canonical import canonical_json, sha256
from sandbox_judge.conversation.document import parse_json
from sandbox_judge.errors import InputError

# A view has at most 400,000 characters; a row many times that is no conversation that a judge could see.
MAX_ROW_BYTES: Final = 64 << 20
# What the hook reads at most of a set, at the pinned commit.
HOOK_BYTES: Final = 50 << 20
_FAULTS_TOLD: Final = 20


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wrong, or doubtful, in a set. `line` counts from 1; 0 where the fault is the whole set's."""

    code: str
    message: str
    severity: Literal["error", "warning"] = "error"
    line: int = 0
    id: str | None = None
    help: str = ""

    @property
    def is_error(self) -> bool:
        return self.severity == "error"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What stays of a row. `offset` is where its line begins in the file."""

    line: int
    offset: int
    kind: Literal["judge_fixture", "judge_pair"]
    id: str
    snapshot_hash: str
    sequence_hash: str
    expected: Verdict | Preference | None
    split: Split | None
    approved_by: str | None
    stale: bool


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file: a row, or a fault."""

    line: int
    offset: int
    row: Row | None = None
    fault: Fault | None = None


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """A set as it was read once. `faults` are those of single rows."""

    path: Path
    rows: tuple[Known, ...]
    faults: tuple[Fault, ...] = ()

    @property
    def fixtures(self) -> tuple[Known, ...]:
        return tuple(row for row in self.rows if row.kind == FIXTURE)

    @property
    def pairs(self) -> tuple[Known, ...]:
        return tuple(row for row in self.rows if row.kind == PAIR)

    @property
    def dataset_hash(self) -> str:
        return dataset_hash(self.fixtures)

    @property
    def test_split_hash(self) -> str:
        return test_split_hash(self.fixtures)

    def read(self, known: Sequence[Known]) -> Iterator[tuple[Known, Row]]:
        """The rows in the order given, read from the file again. Raises InputError where it has changed."""
        with _opened(self.path) as file:
            for one in known:
                file.seek(one.offset)
                numbered = _numbered(file.readline(MAX_ROW_BYTES + 1), one.line, one.offset)
                if numbered.row is None or numbered.row.snapshot_hash != one.snapshot_hash:
                    raise InputError(
                        f"row {one.id} changed while it was in use.",
                        where=f"{self.path}:{one.line}",
                        remedy="Run again.",
                    )
                yield one, numbered.row


def dataset_hash(rows: Iterable[Known]) -> str:
    """Of the sorted [id, snapshot_hash, expected, split] (`spec/judge-file.md`). Pairs are for probes and no
    part of the contract."""
    return sha256(
        canonical_json(_sorted([row.id, row.snapshot_hash, row.expected, row.split] for row in rows))
    )


def test_split_hash(rows: Iterable[Known]) -> str:
    """The same over the rows of the test split, without the split."""
    test = (row for row in rows if row.split == "test")
    return sha256(canonical_json(_sorted([row.id, row.snapshot_hash, row.expected] for row in test)))


def _sorted(rows: Iterable[list[str | None]]) -> list[list[str | None]]:
    return sorted(rows, key=lambda row: [word or "" for word in row])


def read_rows(path: Path) -> Iterator[Numbered]:
    """Every line of the file that is not blank. Raises InputError where the file cannot be read."""
    offset = 0
    with _opened(path) as file:
        for line in range(1, 1 << 62):
            data = file.readline(MAX_ROW_BYTES + 1)
            if not data:
                return
            if data.strip():
                yield _numbered(data, line, offset)
            if len(data) > MAX_ROW_BYTES:
                return
            offset += len(data)


def read_dataset(path: Path) -> Dataset:
    """The set, each row's hashes and words checked. Raises InputError where the file cannot be read."""
    rows, faults = [], []
    for numbered in read_rows(path):
        if numbered.fault is not None:
            faults.append(numbered.fault)
        elif numbered.row is not None:
            rows.append(known(numbered.row, line=numbered.line, offset=numbered.offset))
    return Dataset(path=path, rows=tuple(rows), faults=tuple(faults))


def known(row: Row, *, line: int, offset: int) -> Known:
    return Known(
        line=line,
        offset=offset,
        kind=row.kind,
        id=row.id,
        snapshot_hash=row.snapshot_hash,
        sequence_hash=row.sequence_hash if isinstance(row, FixtureRow) else row.snapshot_hash,
        expected=row.expected,
        split=row.split,
        approved_by=row.approved_by,
        stale=isinstance(row, FixtureRow) and row.stale,
    )


def refuse(faults: Sequence[Fault], path: Path) -> None:
    """Raises InputError, which tells the errors among `faults`, if there are any."""
    errors = [fault for fault in faults if fault.is_error]
    if not errors:
        return
    told = "; ".join(f"line {fault.line}: {fault.message}" for fault in errors[:_FAULTS_TOLD])
    more = len(errors) - _FAULTS_TOLD
    raise InputError(
        f"{len(errors)} faults: {told}{f'; and {more} more' if more > 0 else ''}",
        where=str(path),
        remedy="`sandbox-judge fixture check` lists them all.",
    )


def _numbered(data: bytes, line: int, offset: int) -> Numbered:
    id = None
    try:
        if len(data) > MAX_ROW_BYTES:
            raise InputError(f"the row is longer than {MAX_ROW_BYTES:,} bytes.")
        value = parse_json(data.decode("utf-8"))
        id = value.get("id") if isinstance(value, dict) and isinstance(value.get("id"), str) else None
        return Numbered(line=line, offset=offset, row=read_row(value))
    except InputError as error:
        message, help = error.message, error.remedy
    except (ValueError, RecursionError) as error:
        message, help = f"the line is no JSON ({error}).", "Each line holds one whole row."
    if id is not None:
        message = f"row {id[:80]}: {message}"
    return Numbered(
        line=line,
        offset=offset,
        fault=Fault(code="fixture.row_invalid", message=message, line=line, id=id, help=help),
    )


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(
            f"the calibration set cannot be read ({error.strerror}).",
            where=str(path),
            remedy="`sandbox-judge fixture new CONVERSATION --judge NAME` begins one.",
        ) from error

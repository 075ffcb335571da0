"""What is wrong with a calibration set as a whole: ids, splits, labels, leaks, balance."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sandbox_judge.calibration.dataset import (
    HOOK_BYTES,
    Dataset,
    Fault,
    Known,
    known,
    read_rows,
)
from sandbox_judge.calibration.leaks import Sketch, near_pairs, sketch
from sandbox_judge.calibration.row import FIXTURE, SPLITS, VERDICTS, FixtureRow
from sandbox_judge.calibration.shortcuts import Features, Shortcut, features, shortcuts

# What separates the session from the turn in an id.
_GROUP_MARKS: Final = "/#"
# With fewer labels of a class than these an interval spans half of what is possible.
_FEW: Final = 10


class SetReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `fixture check` says. `balance` counts labels by split; `unlabelled` wait for a person."""

    dataset: Dataset
    faults: tuple[Fault, ...]
    balance: dict[str, dict[str, int]]
    unlabelled: int
    shortcuts: tuple[Shortcut, ...]

    @property
    def valid(self) -> bool:
        return not any(fault.is_error for fault in self.faults)


def check_dataset(path: Path) -> SetReport:
    """Reads a set once and holds it against all rules. Raises InputError where it cannot be read."""
    rows: list[Known] = []
    faults: list[Fault] = []
    sketches: list[Sketch] = []
    seen: list[tuple[str, Features]] = []
    for numbered in read_rows(path):
        if numbered.fault is not None:
            faults.append(numbered.fault)
            continue
        row = numbered.row
        assert row is not None, "a line is a row or a fault"
        rows.append(known(row, line=numbered.line, offset=numbered.offset))
        sketches.append(sketch(row.conversation) if isinstance(row, FixtureRow) else ())
        if isinstance(row, FixtureRow) and row.expected is not None:
            seen.append((row.expected, features(row.conversation)))
    dataset = Dataset(path=path, rows=tuple(rows), faults=tuple(faults))
    found = [*faults, *set_faults(rows), *_near(rows, sketches), *_size(path)]
    table = balance(dataset.fixtures)
    found += _balance(table)
    return SetReport(
        dataset=dataset,
        faults=tuple(sorted(found, key=lambda fault: (not fault.is_error, fault.line))),
        balance=table,
        unlabelled=sum(row.expected is None for row in rows),
        shortcuts=shortcuts(seen),
    )


def set_faults(rows: Sequence[Known]) -> list[Fault]:
    """The faults that need no conversation: what `calibrate` and `probe` refuse too."""
    return [*_ids(rows), *_people(rows), *_same(rows), *_groups(rows)]


def balance(rows: Iterable[Known]) -> dict[str, dict[str, int]]:
    """{split: {label: rows}}, every label of every split that has rows."""
    counts = Counter((row.split, row.expected) for row in rows if row.split and row.expected)
    present = [split for split in SPLITS if any(key[0] == split for key in counts)]
    return {split: {word: counts[split, word] for word in VERDICTS} for split in present}


def _ids(rows: Sequence[Known]) -> Iterator[Fault]:
    first: dict[str, Known] = {}
    for row in rows:
        earlier = first.setdefault(row.id, row)
        if earlier is row:
            continue
        if earlier.split != row.split:
            where = f"{earlier.split or 'no split'} (line {earlier.line}) and {row.split or 'no split'}"
            yield _fault("split_leak", row, f"{row.id} stands in two splits: {where}", "Keep one of them.")
        else:
            text = f"{row.id} stands twice (line {earlier.line} too)"
            yield _fault("id_duplicate", row, text, "Keep one of them.")


def _people(rows: Sequence[Known]) -> Iterator[Fault]:
    for row in rows:
        if row.expected is None:
            continue
        if row.approved_by is None:
            yield _fault(
                "approver_missing",
                row,
                f"{row.id} has a label and nobody who approves it",
                "Add approved_by.",
            )
        if row.split is None and row.kind == FIXTURE:
            yield _fault(
                "split_missing", row, f"{row.id} has a label and no split", "Add train, dev or test."
            )
        if row.stale:
            yield _fault(
                "row_stale",
                row,
                f"{row.id} was exported under another contract",
                "Export the conversation again with `fixture new`.",
            )


def _same(rows: Sequence[Known]) -> Iterator[Fault]:
    """The same view under two ids: over two splits a leak, within one a row that counts twice."""
    first: dict[str, Known] = {}
    for row in rows:
        earlier = first.setdefault(row.sequence_hash, row)
        if earlier is row or earlier.id == row.id:
            continue
        text = f"{row.id} is the same conversation as {earlier.id} (line {earlier.line})"
        if earlier.split != row.split:
            text += f", in {row.split or 'no split'} and {earlier.split or 'no split'}"
            yield _fault("split_leak", row, text, "Keep one of them.")
        else:
            fault = _fault("content_duplicate", row, text, "It counts twice.")
            yield msgspec.structs.replace(fault, severity="warning")


def _groups(rows: Sequence[Known]) -> Iterator[Fault]:
    """Turns of one session over several splits: an id such as `session/3`."""
    splits: dict[str, dict[str, Known]] = defaultdict(dict)
    for row in rows:
        at = max(row.id.rfind(mark) for mark in _GROUP_MARKS)
        if at > 0 and row.split is not None:
            splits[row.id[:at]].setdefault(row.split, row)
    for group, held in splits.items():
        if len(held) > 1:
            last = max(held.values(), key=lambda row: row.line)
            text = f"the session {group} stands over several splits: {', '.join(sorted(held))}"
            fault = _fault("session_over_splits", last, text, "Keep a session in one split.")
            yield msgspec.structs.replace(fault, severity="warning")


def _near(rows: Sequence[Known], sketches: Sequence[Sketch]) -> Iterator[Fault]:
    for earlier, later, alike in near_pairs(sketches):
        one, other = rows[earlier], rows[later]
        if one.sequence_hash == other.sequence_hash or one.id == other.id:
            continue
        leak = one.split != other.split and one.split is not None and other.split is not None
        text = (
            f"{other.id} is nearly {one.id} (line {one.line}): {alike:.0%} of their runs of words are shared"
        )
        if leak:
            text += f", in {other.split} and {one.split}"
        fault = _fault("split_leak" if leak else "near_duplicate", other, text, "Keep both in one split.")
        yield msgspec.structs.replace(fault, severity="warning")


def _balance(table: dict[str, dict[str, int]]) -> Iterator[Fault]:
    for split in (name for name in table if name != "train"):
        counts = table[split]
        for word in ("fail", "pass"):
            if not counts[word]:
                text = f"{split} has no row labelled {word}: its recall cannot be known"
                yield Fault(code="fixture.class_missing", message=text, severity="warning")
            elif counts[word] < _FEW:
                text = f"{split} has {counts[word]} rows labelled {word}: intervals will be wide"
                yield Fault(code="fixture.class_small", message=text, severity="warning")


def _size(path: Path) -> Iterator[Fault]:
    size = path.stat().st_size
    if size > HOOK_BYTES:
        text = f"the set has {size:,} bytes; the hook reads {HOOK_BYTES:,} and would say uncalibrated"
        yield Fault(code="fixture.too_large", message=text, severity="warning")


def _fault(code: str, row: Known, message: str, help: str) -> Fault:
    return Fault(code=f"fixture.{code}", message=message, line=row.line, id=row.id, help=help)

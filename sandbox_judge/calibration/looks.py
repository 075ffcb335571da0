"""The guard of the test split: rows that were looked at once are spent, whatever the definition was then."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sandbox_judge.calibration.dataset import Known, test_split_hash
from sandbox_judge.calibration.record import Asked, Look, LookRow, Record

_IDS_TOLD = 5


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the test split may be looked at. `look` is the number that this look has (1: the first);
    `refusals` say why it may not be, unless a reason is given; `resumes`: a look without a result goes on."""

    look: int
    refusals: tuple[str, ...] = ()
    resumes: bool = False


def guard(
    record: Record, rows: Sequence[Known], *, definition_hash: str, contract_version: str, llm: Asked
) -> Guarded:
    """Holds the labelled rows of a set against all earlier looks."""
    wanted = look_rows(rows)
    last = record.looks[-1] if record.looks else None
    same = last is not None and (
        (last.definition_hash, last.contract_version, last.llm) == (definition_hash, contract_version, llm)
        and _test(last.rows) == _test(wanted)
    )
    if last is not None and same and not _ended(record, last, test_split_hash(rows)):
        earlier = msgspec.structs.replace(record, looks=record.looks[:-1])
        return Guarded(look=_number(earlier, rows), resumes=True)
    return Guarded(look=_number(record, rows), refusals=tuple(_refusals(record, rows)))


def _test(rows: Iterable[LookRow]) -> tuple[LookRow, ...]:
    return tuple(row for row in rows if row.split == "test")


def look_rows(rows: Iterable[Known]) -> tuple[LookRow, ...]:
    """The labelled rows as a look records them, by id."""
    labelled = (row for row in rows if row.expected is not None and row.split is not None)
    return tuple(
        LookRow(
            id=row.id,
            snapshot_hash=row.snapshot_hash,
            expected=str(row.expected),
            split=row.split or "train",
        )
        for row in sorted(labelled, key=lambda row: row.id)
    )


def _ended(record: Record, look: Look, split_hash: str) -> bool:
    """Whether a result stands for this look."""
    return any(
        result.at >= look.at
        and (result.definition_hash, result.contract_version, result.test_split_hash)
        == (look.definition_hash, look.contract_version, split_hash)
        and Asked(provider=result.llm.provider, model=result.llm.model, endpoint=result.llm.endpoint)
        == look.llm
        for result in record.results
    )


def _number(record: Record, rows: Sequence[Known]) -> int:
    """1 and as many as looks that saw the row that was seen most often."""
    seen: Counter[str] = Counter()
    for look in record.looks:
        held = {word for row in look.rows if row.split == "test" for word in (row.id, row.snapshot_hash)}
        seen.update(row.id for row in rows if row.split == "test" and {row.id, row.snapshot_hash} & held)
    return 1 + max(seen.values(), default=0)


def _refusals(record: Record, rows: Sequence[Known]) -> Iterator[str]:
    looked: dict[str, LookRow] = {}
    other: dict[str, LookRow] = {}
    for look in record.looks:
        for row in look.rows:
            for word in (row.id, row.snapshot_hash):
                (looked if row.split == "test" else other)[word] = row
    again, relabelled, moved = [], [], []
    for own in rows:
        if own.expected is None:
            continue
        before = looked.get(own.id) or looked.get(own.snapshot_hash)
        if before is not None and before.expected != own.expected:
            relabelled.append(own.id)
        if before is not None and own.split != "test":
            moved.append(own.id)
        elif before is not None:
            again.append(own.id)
        elif own.split == "test" and (own.id in other or own.snapshot_hash in other):
            moved.append(own.id)
    if again:
        yield f"{len(again)} rows of the test split were looked at before: {_told(again)}"
    if relabelled:
        yield f"the label of {len(relabelled)} rows changed after they were looked at: {_told(relabelled)}"
    if moved:
        yield f"{len(moved)} rows moved into or out of the test split after a look: {_told(moved)}"


def _told(ids: Sequence[str]) -> str:
    more = len(ids) - _IDS_TOLD
    return ", ".join(ids[:_IDS_TOLD]) + (f" and {more} more" if more > 0 else "")

"""One batch of lines into the store, in one transaction: identity first, then what it names.

Everything here may run twice, and on many collectors at once: keys decide who stores, so a batch that is
tried again after an unclear commit adds nothing. Keys are written in one order, so that collectors wait for
each other rather than deadlock.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Table, and_, or_, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import Insert

from sandbox_judge.store import schema
from sandbox_judge.store.arrival import arrival
from sandbox_judge.store.database import Database, passing
from sandbox_judge.store.months import ensure_partitions, month_of
from sandbox_judge.store.records import (
    Incoming,
    JudgementRow,
    KeptConversation,
    LedgerRow,
    Quarantined,
    Series,
    series_id,
)

# Below every engine's bound on the parameters of one statement.
_CHUNK: Final = 500
_SERIES_KEPT: Final = 50_000


class Taken(msgspec.Struct, kw_only=True):
    """What became of lines. `repeats` are judgement ids that came again and found the same; `unstable` found
    something else, `flipped` of those another result."""

    judgements: int = 0
    ledgers: int = 0
    duplicates: int = 0
    repeats: int = 0
    unstable: int = 0
    flipped: int = 0
    conversations: int = 0
    quarantined: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, other: "Taken") -> None:
        for field in (
            "judgements",
            "ledgers",
            "duplicates",
            "repeats",
            "unstable",
            "flipped",
            "conversations",
        ):
            setattr(self, field, getattr(self, field) + getattr(other, field))
        for reason, n in other.quarantined.items():
            self.quarantined[reason] = self.quarantined.get(reason, 0) + n


Stored = JudgementRow | LedgerRow


class Ingest:
    """Writes batches. One instance a writer: it remembers which series and partitions are there."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._series: dict[Series, int] = {}
        self._months: set[int] = set()

    def store(self, lines: Sequence[Incoming]) -> Taken:
        """Stores what is a judgement or a ledger and quarantines the rest. Raises SQLAlchemyError, after
        which nothing of the batch is stored and it may be given again."""
        rows = [line for line in lines if isinstance(line, JudgementRow | LedgerRow)]
        aside = [line for line in lines if isinstance(line, Quarantined)]
        self._ensure_months(rows)
        fresh = dict(self._series)
        try:
            with self._database.engine.begin() as connection:
                batch = _Batch(connection, self._database.postgresql, fresh)
                batch.write(rows, aside)
        except DBAPIError as err:
            self._months.clear()
            if passing(err) or len(lines) == 1:
                raise
            return self._one_by_one(lines)
        self._series = fresh if len(fresh) < _SERIES_KEPT else {}
        return batch.taken

    def _ensure_months(self, rows: Iterable[Stored]) -> None:
        if not self._database.postgresql:
            return
        missing = {month_of(row.at) for row in rows} - self._months
        if missing:
            ensure_partitions(self._database, missing)
            self._months |= missing

    def _one_by_one(self, lines: Sequence[Incoming]) -> Taken:
        """Finds the line that the database will not have, so that it cannot hold up the others."""
        taken = Taken()
        for line in lines:
            try:
                taken.add(self.store([line]))
            except DBAPIError as err:
                if passing(err) or not isinstance(line, JudgementRow | LedgerRow):
                    raise
                refused = Quarantined(
                    reason="refused_by_store",
                    detail=type(err.orig).__name__,
                    ack=line.ack,
                    received_at=line.received_at,
                    line=line.body.encode(),
                )
                taken.add(self.store([refused]))
        return taken


class _Batch:
    def __init__(self, connection: Connection, is_postgresql: bool, known: dict[Series, int]) -> None:
        self.taken = Taken()
        self._connection = connection
        self._postgresql = is_postgresql
        self._insert_into = postgresql.insert if is_postgresql else sqlite.insert
        self._series = known

    def write(self, rows: Sequence[Stored], aside: Sequence[Quarantined]) -> None:
        rows, gone = self._within_retention(rows)
        new, reused = self._claim_events(rows)
        judgements = [row for row in new if isinstance(row, JudgementRow)]
        self._add_series(judgements)
        first, again = self._claim_judgements(judgements)
        if first:
            number = arrival(self._connection, postgresql=self._postgresql)
            self._insert(schema.judgement, [self._judgement(row, number) for row in first])
        self._raise_standing(first)
        self._insert(schema.aside, again)
        ledgers = [row for row in new if isinstance(row, LedgerRow)]
        self._insert(schema.ledger, [_ledger(row) for row in ledgers])
        self.taken.judgements += len(first)
        self.taken.ledgers += len(ledgers)
        self._quarantine([*aside, *gone, *reused])

    def _within_retention(self, rows: Sequence[Stored]) -> tuple[list[Stored], list[Quarantined]]:
        before = self._connection.execute(
            select(schema.retention.c.before).order_by(schema.retention.c.before.desc()).limit(1)
        ).scalar()
        if before is None:
            return list(rows), []
        kept = [row for row in rows if row.at >= before]
        late = [row for row in rows if row.at < before]
        return kept, [_set_aside(row, "past_retention", "older than what the store keeps") for row in late]

    def _claim_events(self, rows: Sequence[Stored]) -> tuple[list[Stored], list[Quarantined]]:
        """The rows whose event id is new, and those that reuse one for other content."""
        by_id: dict[str, Stored] = {}
        rest: list[Stored] = []
        for row in rows:
            if row.event_id in by_id:
                rest.append(row)
            else:
                by_id[row.event_id] = row
        keys = [{"event_id": i, "at": by_id[i].at, "digest": by_id[i].digest} for i in sorted(by_id)]
        new = self._claim(schema.event_key, "event_id", keys)
        rest += [row for event_id, row in by_id.items() if event_id not in new]
        stored = self._look_up(schema.event_key, "event_id", [row.event_id for row in rest])
        reused = [row for row in rest if stored[row.event_id]["digest"] != row.digest]
        self.taken.duplicates += len(rest) - len(reused)
        return (
            [row for event_id, row in by_id.items() if event_id in new],
            [_set_aside(row, "event_id_reused", "another event has this id") for row in reused],
        )

    def _claim_judgements(
        self, rows: Sequence[JudgementRow]
    ) -> tuple[list[JudgementRow], list[dict[str, Any]]]:
        """The rows whose judgement id is new, and those that come again, as rows for `aside`."""
        by_id: dict[str, JudgementRow] = {}
        rest: list[JudgementRow] = []
        for row in rows:
            if row.judgement_id in by_id:
                rest.append(row)
            else:
                by_id[row.judgement_id] = row
        keys = [_judgement_key(by_id[i]) for i in sorted(by_id)]
        new = self._claim(schema.judgement_key, "judgement_id", keys)
        rest += [row for judgement_id, row in by_id.items() if judgement_id not in new]
        stored = self._look_up(schema.judgement_key, "judgement_id", [row.judgement_id for row in rest])
        again = [self._again(row, stored[row.judgement_id]) for row in rest]
        return [row for judgement_id, row in by_id.items() if judgement_id in new], again

    def _again(self, row: JudgementRow, stood: Mapping[str, Any]) -> dict[str, Any]:
        unstable, flipped = stood["judged"] != row.judged, stood["result"] != row.result
        self.taken.repeats += not unstable
        self.taken.unstable += unstable
        self.taken.flipped += flipped
        return {
            "event_id": row.event_id,
            "at": row.at,
            "judgement_id": row.judgement_id,
            "series_id": self._series[row.series],
            "result": row.result,
            "unstable": int(unstable),
            "flipped": int(flipped),
            "body": row.body,
        }

    def _add_series(self, rows: Iterable[JudgementRow]) -> None:
        missing = {row.series for row in rows} - self._series.keys()
        if not missing:
            return
        made = []
        for one in missing:
            digest = one.digest()
            self._series[one] = series_id(digest)
            made.append({"id": series_id(digest), "digest": digest, **msgspec.structs.asdict(one)})
        made.sort(key=lambda row: str(row["digest"]))
        # A number that another digest already has (63 bits) would raise, never merge two series.
        statement = self._insert_into(schema.series).on_conflict_do_nothing(index_elements=["digest"])
        self._connection.execute(statement, made)

    def _judgement(self, row: JudgementRow, number: int) -> dict[str, Any]:
        return {
            "at": row.at,
            "event_id": row.event_id,
            "judgement_id": row.judgement_id,
            "grading_key": row.grading_key,
            "series_id": self._series[row.series],
            "result": row.result,
            "error_type": row.error_type,
            "regrade": int(row.regrade),
            "conversation_id": row.conversation_id,
            "sequence_hash": row.sequence_hash,
            "said_at": row.said_at,
            "received_at": row.received_at,
            "duration_ms": row.duration_ms,
            "body": row.body,
            "arrival": number,
        }

    def _raise_standing(self, rows: Sequence[JudgementRow]) -> None:
        """In each group the highest rank stands: whatever the order, and however many collectors."""
        best: dict[tuple[str, bool], JudgementRow] = {}
        for row in rows:
            key = (row.grading_key, row.regrade)
            if key not in best or best[key].rank < row.rank:
                best[key] = row
        values = [
            {
                "grading_key": row.grading_key,
                "regrade": int(row.regrade),
                "event_id": row.event_id,
                "at": row.at,
                "verdict": int(row.result is not None),
                "result": row.result,
                "error_type": row.error_type,
                "series_id": self._series[row.series],
            }
            for _, row in sorted(best.items())
        ]
        statement = self._insert_into(schema.standing)
        new, table = statement.excluded, schema.standing.c
        statement = statement.on_conflict_do_update(
            index_elements=["grading_key", "regrade"],
            set_={c.name: new[c.name] for c in table if c.name not in ("grading_key", "regrade")},
            where=or_(
                new.verdict > table.verdict,
                and_(
                    new.verdict == table.verdict,
                    tuple_(new.at, new.event_id) > tuple_(table.at, table.event_id),
                ),
            ),
        )
        if values:
            self._connection.execute(statement, values)

    def _quarantine(self, lines: Sequence[Quarantined]) -> None:
        values = {
            line.digest: {
                "digest": line.digest,
                "at": line.received_at,
                "reason": line.reason,
                "detail": line.detail.replace("\0", "�").encode("utf-8", "replace").decode(),
                "line": line.line,
            }
            for line in lines
        }
        for line in lines:
            self.taken.quarantined[line.reason] = self.taken.quarantined.get(line.reason, 0) + 1
        statement: Insert = self._insert_into(schema.quarantine).on_conflict_do_nothing()
        if values:
            self._connection.execute(statement, [values[digest] for digest in sorted(values)])

    def _insert(self, table: Table, values: Sequence[Mapping[str, Any]]) -> None:
        if values:
            self._connection.execute(table.insert(), list(values))

    def _claim(self, table: Table, key: str, values: Sequence[Mapping[str, Any]]) -> set[str]:
        """Inserts keys; those that were not there before."""
        if not values:
            return set()
        statement = self._insert_into(table).on_conflict_do_nothing().returning(table.c[key])
        return set(self._connection.execute(statement, list(values)).scalars())

    def _look_up(self, table: Table, key: str, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for start in range(0, len(ids), _CHUNK):
            chosen = select(table).where(table.c[key].in_(ids[start : start + _CHUNK]))
            for row in self._connection.execute(chosen).mappings():
                found[row[key]] = dict(row)
        return found


def _judgement_key(row: JudgementRow) -> dict[str, Any]:
    return {
        "judgement_id": row.judgement_id,
        "event_id": row.event_id,
        "at": row.at,
        "judged": row.judged,
        "result": row.result,
    }


def _ledger(row: LedgerRow) -> dict[str, Any]:
    return {
        "at": row.at,
        "event_id": row.event_id,
        "conversation_id": row.conversation_id,
        "recipe_id": row.recipe_id,
        "commit": row.commit,
        "environment": row.environment,
        "received_at": row.received_at,
        "body": row.body,
    }


def _set_aside(row: Stored, reason: str, detail: str) -> Quarantined:
    return Quarantined(
        reason=reason, detail=detail, ack=row.ack, received_at=row.received_at, line=row.body.encode()
    )


def kept_conversations(lines: Iterable[Incoming]) -> list[KeptConversation]:
    return [line for line in lines if isinstance(line, KeptConversation)]

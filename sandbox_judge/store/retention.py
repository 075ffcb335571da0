"""Letting old months go: on PostgreSQL by dropping their partitions, on SQLite row by row; keys with them.

What goes is written down first (`retention`): the triggers let nothing else be deleted, and an event of a
month that is gone is quarantined when it comes again, not stored anew.
"""

from typing import Final

import msgspec
from sqlalchemy import Connection, delete, func, select, text

from sandbox_judge.store import schema
from sandbox_judge.store.database import Database, told
from sandbox_judge.store.months import month_of, partition, partitions

_KEYED: Final = (schema.event_key, schema.judgement_key, schema.standing, schema.aside, schema.quarantine)
_ROWS: Final = (schema.judgement, schema.ledger)
_LOCK_MILLISECONDS: Final = 5000


class LetGo(msgspec.Struct, frozen=True, kw_only=True):
    """Judgements and ledgers that went, and the moment before which nothing is left (microseconds)."""

    before: int
    judgements: int
    ledgers: int


def let_go(database: Database, *, keep_s: float, now: int) -> LetGo:
    """Drops the whole months that ended more than `keep_s` seconds before `now` (microseconds since 1970).
    Raises DeliveryError."""
    before = month_of(now - round(keep_s * 1_000_000))
    with told(database, writing=True), database.engine.begin() as connection:
        if database.postgresql:
            # Dropping a partition waits for readers; a collector must not wait behind that for long.
            connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}"))
        last = connection.execute(select(func.max(schema.retention.c.before))).scalar()
        if last is None or last < before:
            connection.execute(schema.retention.insert(), {"before": before, "at": now})
        counts = {table.name: _count(connection, table.name, before) for table in _ROWS}
        if database.postgresql:
            _drop_partitions(connection, before)
        else:
            for table in _ROWS:
                connection.execute(delete(table).where(table.c.at < before))
        for table in _KEYED:
            connection.execute(delete(table).where(table.c.at < before))
    return LetGo(before=before, judgements=counts["judgement"], ledgers=counts["ledger"])


def _count(connection: Connection, name: str, before: int) -> int:
    table = schema.metadata.tables[name]
    return connection.execute(select(func.count()).where(table.c.at < before).select_from(table)).scalar_one()


def _drop_partitions(connection: Connection, before: int) -> None:
    for table in schema.PARTITIONED:
        for name in partitions(connection, table):
            if name < partition(table, before):
                connection.execute(text(f"DROP TABLE {name}"))

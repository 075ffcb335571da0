"""The order in which batches of judgements came into the store, as a number that each batch has of its own.

A reader that goes by this number misses nothing: no batch may appear later with a number that the reader has
passed. SQLite has one writer at a time, so counting is enough. On PostgreSQL batches commit in any order and
nothing may wait for a counter, so the number is that of the transaction, and a reader keeps below the oldest
one that is still under way (`settled`).
"""

from typing import Final

from sqlalchemy import ColumnElement, Connection, func, literal_column, select, text

from sandbox_judge.store import schema

_XACT: Final = text("SELECT pg_current_xact_id()::text::bigint")
_SETTLED: Final[ColumnElement[int]] = literal_column("pg_snapshot_xmin(pg_current_snapshot())::text::bigint")


def arrival(connection: Connection, *, postgresql: bool) -> int:
    """The number of the batch that the connection's transaction writes. Raises SQLAlchemyError."""
    if postgresql:
        return int(connection.execute(_XACT).scalar_one())
    # Retention may let go of the newest arrivals, when they told of a time long past: a destination's
    # place counts too, or what comes next would lie behind it.
    seen = (func.max(schema.judgement.c.arrival), func.max(schema.forwarding.c.arrival))
    return 1 + max(connection.execute(select(one)).scalar() or 0 for one in seen)


def settled(*, postgresql: bool) -> list[ColumnElement[bool]]:
    """Conditions on judgements that no later commit can come before."""
    return [schema.judgement.c.arrival < _SETTLED] if postgresql else []

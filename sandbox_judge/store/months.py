"""Months as the store divides time: where one begins, and the partitions that hold them on PostgreSQL."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Connection, text

from sandbox_judge.store.database import Database
from sandbox_judge.store.revision import ADVISORY_LOCK
from sandbox_judge.store.schema import PARTITIONED

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _micro(moment: datetime) -> int:
    return int((moment - _EPOCH).total_seconds()) * 1_000_000


def month_of(at: int) -> int:
    """The start of the month (UTC) that `at` lies in; both in microseconds since 1970."""
    moment = datetime.fromtimestamp(at / 1_000_000, UTC)
    return _micro(datetime(moment.year, moment.month, 1, tzinfo=UTC))


def month_after(start: int) -> int:
    """The start of the month after the one that starts at `start`."""
    moment = datetime.fromtimestamp(start / 1_000_000, UTC)
    return _micro(datetime(moment.year + moment.month // 12, moment.month % 12 + 1, 1, tzinfo=UTC))


def partition(table: str, start: int) -> str:
    return f"{table}_{datetime.fromtimestamp(start / 1_000_000, UTC):%Y%m}"


def ensure_partitions(database: Database, starts: Iterable[int]) -> None:
    """Makes the partitions of the months that begin at `starts`, in a short transaction of its own: it locks
    the tables, so it must not wait behind, nor hold up, a batch."""
    with database.engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        for start in sorted(starts):
            for table in PARTITIONED:
                connection.execute(
                    text(
                        f"CREATE TABLE IF NOT EXISTS {partition(table, start)} PARTITION OF {table} "
                        f"FOR VALUES FROM ({start}) TO ({month_after(start)})"
                    )
                )


def partitions(connection: Connection, table: str) -> list[str]:
    """The names of a table's partitions, oldest first."""
    found = connection.execute(
        text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = CAST(:t AS regclass)"),
        {"t": table},
    )
    return sorted(found.scalars())

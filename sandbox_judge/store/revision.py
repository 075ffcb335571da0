"""Which schema the code reads, and which one a database has.

Readers need no more: alembic takes 0.4 s of CPU to import, and only who writes migrates.
"""

from typing import Final

from sqlalchemy import ColumnClause, Connection, inspect, select
from sqlalchemy.sql import column, table

from sandbox_judge.errors import InputError
from sandbox_judge.store.database import Database, told

# Oldest first; the last is what this code reads and writes. A test holds them to the migrations.
REVISIONS: Final = ("0001", "0002")
# Any number will do: it only must be the same for all who change the schema or its partitions.
ADVISORY_LOCK: Final = 0x5A4DB0C5


def revision(connection: Connection) -> str | None:
    """The revision that a database is at; None where it has no schema of ours."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: ColumnClause[str] = column("version_num")
    return connection.execute(select(version).select_from(table("alembic_version"))).scalars().first()


def refuse_newer(database: Database, found: str | None) -> None:
    """Raises InputError for a revision that this code does not know."""
    if found is not None and found not in REVISIONS:
        raise InputError(
            f"the store's schema is at revision {found}, which this version does not know: it is newer.",
            where=database.shown,
            remedy="Upgrade sandbox-judge on this machine.",
        )


def require_current(database: Database) -> None:
    """Holds that the schema is the one that this code reads. Raises InputError."""
    with told(database), database.engine.connect() as connection:
        found = revision(connection)
    refuse_newer(database, found)
    if found != REVISIONS[-1]:
        what = f"at revision {found}, older than this version reads" if found else "not a store's"
        raise InputError(
            f"the schema is {what}.",
            where=database.shown,
            remedy="`sandbox-judge collect --store` with this address brings it up to date.",
        )

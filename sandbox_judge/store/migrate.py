"""The schema's revision: brought up to date by writers, asked for by readers."""

from typing import Final

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from sandbox_judge.errors import InputError
from sandbox_judge.store.database import Database, told

# Any number will do: it only must be the same for all who change the schema or its partitions.
ADVISORY_LOCK: Final = 0x5A4DB0C5


def _scripts() -> tuple[Config, ScriptDirectory]:
    config = Config()
    config.set_main_option("script_location", "sandbox_judge.store:migrations")
    return config, ScriptDirectory.from_config(config)


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_newer(database: Database, scripts: ScriptDirectory, revision: str | None) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    if revision is not None and revision not in known:
        raise InputError(
            f"the store's schema is at revision {revision}, which this version does not know: it is newer.",
            where=database.shown,
            remedy="Upgrade sandbox-judge on this machine.",
        )


def bring_up_to_date(database: Database) -> None:
    """Makes or migrates the schema, one process at a time. Raises InputError where it is newer than this
    code, DeliveryError where the database cannot be reached."""
    config, scripts = _scripts()
    head = scripts.get_current_head()
    with told(database, writing=True), database.engine.begin() as connection:
        if database.postgresql:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        revision = _revision(connection)
        _refuse_newer(database, scripts, revision)
        if revision == head:
            return
        # On SQLite too the schema is made within our own transaction: two collectors may start at once.
        with EnvironmentContext(
            config,
            scripts,
            fn=lambda rev, _context: scripts._upgrade_revs("head", rev),
            destination_rev="head",
        ) as environment:
            environment.configure(connection=connection, transactional_ddl=True)
            environment.run_migrations()


def require_current(database: Database) -> None:
    """Holds that the schema is the one that this code reads. Raises InputError."""
    _, scripts = _scripts()
    with told(database), database.engine.connect() as connection:
        revision = _revision(connection)
    _refuse_newer(database, scripts, revision)
    if revision != scripts.get_current_head():
        found = f"at revision {revision}, older than this version reads" if revision else "not a store's"
        raise InputError(
            f"the schema is {found}.",
            where=database.shown,
            remedy="`sandbox-judge collect --store` with this address brings it up to date.",
        )

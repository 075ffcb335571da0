"""The schema, brought up to date by whoever writes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from sandbox_judge.store.database import Database, open_database, told
from sandbox_judge.store.options import store_address
from sandbox_judge.store.revision import ADVISORY_LOCK, REVISIONS, refuse_newer, revision


def scripts() -> tuple[Config, ScriptDirectory]:
    """The migrations, as alembic takes them: they are part of the package."""
    config = Config()
    config.set_main_option("script_location", "sandbox_judge.store:migrations")
    return config, ScriptDirectory.from_config(config)


def bring_up_to_date(database: Database) -> None:
    """Makes or migrates the schema, one process at a time. Raises InputError where it is newer than this
    code, DeliveryError where the database cannot be reached."""
    with told(database, writing=True), database.engine.begin() as connection:
        if database.postgresql:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        found = revision(connection)
        refuse_newer(database, found)
        if found == REVISIONS[-1]:
            return
        config, directory = scripts()
        # On SQLite too the schema is made within our own transaction: two collectors may start at once.
        with EnvironmentContext(
            config,
            directory,
            fn=lambda rev, _context: directory._upgrade_revs("head", rev),
            destination_rev="head",
        ) as environment:
            environment.configure(connection=connection, transactional_ddl=True)
            environment.run_migrations()


@contextmanager
def writing(given: str | None, environ: Mapping[str, str]) -> Iterator[Database]:
    """The store, its schema brought up to date. Raises DeliveryError where it cannot be reached."""
    database = open_database(store_address(given, environ), write=True)
    try:
        bring_up_to_date(database)
        yield database
    finally:
        database.close()

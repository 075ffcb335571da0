"""Opening the database: which engine, how long to wait, and what its failures mean.

SQLite (a file, WAL) is the embedded default; PostgreSQL serves a fleet. Every wait is bounded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from sandbox_judge.errors import DeliveryError, InputError, MissingExtra, UsageError

CONNECT_SECONDS: Final = 5
STATEMENT_MILLISECONDS: Final = 60_000
BUSY_MILLISECONDS: Final = 30_000

_POSTGRESQL_NAMES: Final = ("postgresql", "postgres", "postgresql+psycopg")


class Database(msgspec.Struct, frozen=True, kw_only=True):
    """An engine and its address without the password."""

    engine: Engine
    shown: str
    postgresql: bool

    def close(self) -> None:
        self.engine.dispose()


def store_url(text: str) -> URL:
    """The address of a store: `postgresql://…`, `sqlite:///PATH`, or just a path. Raises UsageError."""
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).absolute()))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as err:
        raise UsageError(
            "the store's address cannot be read.", remedy="Give a path, sqlite:///PATH or postgresql://…"
        ) from err
    if url.drivername in _POSTGRESQL_NAMES:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername != "sqlite" or url.database in (None, "", ":memory:"):
        raise UsageError(
            f"{url.render_as_string(hide_password=True)} is not a store.",
            remedy="A store is a file (a path, sqlite:///PATH) or a PostgreSQL database (postgresql://…).",
        )
    return url


def open_database(text: str, *, write: bool) -> Database:
    """An engine for the store at `text`; nothing is connected yet. A reader's SQLite must exist (InputError),
    a writer's is made, 0600. Raises UsageError, InputError, MissingExtra."""
    url = store_url(text)
    shown = url.render_as_string(hide_password=True)
    if url.drivername == "sqlite":
        return Database(engine=_sqlite(url, write=write), shown=shown, postgresql=False)
    options = f"-c statement_timeout={STATEMENT_MILLISECONDS} -c application_name=sandbox_judge"
    if not write:
        options += " -c default_transaction_read_only=on"
    arguments: dict[str, Any] = {"options": options}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = CONNECT_SECONDS
    try:
        engine = create_engine(
            url,
            connect_args=arguments,
            pool_pre_ping=True,
            pool_timeout=CONNECT_SECONDS,
            hide_parameters=True,
        )
    except (ImportError, NoSuchModuleError) as err:
        raise MissingExtra(
            "PostgreSQL needs psycopg, which is not installed.",
            remedy="Install it with: pip install 'sandbox-judge[store]'",
        ) from err
    return Database(engine=engine, shown=shown, postgresql=True)


def _sqlite(url: URL, *, write: bool) -> Engine:
    path = Path(str(url.database))
    if write:
        _make_file(path)
    elif not path.is_file():
        raise InputError(
            "there is no store yet.", where=str(path), remedy="`sandbox-judge collect` makes one."
        )
    engine = create_engine(url, connect_args={"timeout": BUSY_MILLISECONDS / 1000}, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # The driver must not open transactions of its own: `_begin` says which kind they are.
        connection.isolation_level = None
        pragmas = [f"busy_timeout={BUSY_MILLISECONDS}", "recursive_triggers=ON", "cache_size=-65536"]
        # An acknowledged event is struck off its sender's spool: the commit must survive a power cut.
        # Ids are random, so each row dirties pages of its own: a longer log (64 MB) writes a page back once
        # for many rows.
        writing = ["journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=16384"]
        pragmas += writing if write else ["query_only=ON"]
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        # A writer takes the lock at once: a transaction that reads first and writes later can be refused.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _make_file(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600, exist_ok=True)
    except OSError as err:
        raise UsageError(f"the store cannot be made: {err.strerror}.", where=str(path)) from err


def first_line(err: SQLAlchemyError) -> str:
    """What the engine says, without the statement and its values."""
    cause: Any = err.orig if isinstance(err, DBAPIError) else err
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def passing(err: SQLAlchemyError) -> bool:
    """Whether a write may succeed when tried again: the database is away, locked or full, or another
    collector was in the way."""
    if isinstance(err, DBAPIError) and err.connection_invalidated:
        return True
    state = getattr(getattr(err, "orig", None), "sqlstate", None)
    if state is not None:
        # Connection, serialisation and deadlock, resources, operator's intervention, and a partition that
        # retention dropped while a batch was on its way (check_violation of the partitioned table).
        return str(state)[:2] in ("08", "40", "53", "57") or state in ("55P03", "23514", "42P01")
    return isinstance(err, OperationalError)


@contextmanager
def told(database: Database, *, writing: bool = False) -> Iterator[None]:
    """Turns the engine's failures into ours: what happened, where, and what to do."""
    try:
        yield
    except SQLAlchemyError as err:
        kind = DeliveryError if writing else InputError
        remedy = (
            "Events stay in their senders' spools." if writing else "Is it running, and is this its address?"
        )
        raise kind(f"the store failed: {first_line(err)}.", where=database.shown, remedy=remedy) from err

"""The migrations make what the code believes, once, and never touch a newer schema."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from sandbox_judge.errors import DeliveryError, InputError, UsageError
from sandbox_judge.store import schema
from sandbox_judge.store.database import Database, open_database, store_url
from sandbox_judge.store.migrate import bring_up_to_date, scripts
from sandbox_judge.store.revision import REVISIONS, require_current


def test_migrations_and_tables_agree(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    bring_up_to_date(database)
    require_current(database)
    assert [one.revision for one in scripts()[1].walk_revisions()] == list(reversed(REVISIONS))


def test_many_may_start_at_once(store_url: str) -> None:
    faults: list[BaseException] = []

    def start() -> None:
        opened = open_database(store_url, write=True)
        try:
            bring_up_to_date(opened)
        except BaseException as err:
            faults.append(err)
        finally:
            opened.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_newer_schema_is_left_alone(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for look in (bring_up_to_date, require_current):
        with pytest.raises(InputError, match="newer") as caught:
            look(database)
        assert "Upgrade sandbox-judge" in caught.value.remedy


def test_a_store_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no store yet"):
        open_database(str(tmp_path / "absent.db"), write=False)
    (tmp_path / "empty.db").touch()
    with pytest.raises(InputError, match="not a store's"):
        require_current(open_database(str(tmp_path / "empty.db"), write=False))
    (tmp_path / "text.db").write_text("this is no database, however long one makes it" * 20)
    with pytest.raises(InputError, match="not a database"):
        require_current(open_database(str(tmp_path / "text.db"), write=False))


def test_a_reader_cannot_write(store_url: str) -> None:
    writer = open_database(store_url, write=True)
    bring_up_to_date(writer)
    writer.close()
    reader = open_database(store_url, write=False)
    with pytest.raises(Exception, match=r"read-?only"), reader.engine.begin() as connection:
        connection.execute(text("INSERT INTO retention VALUES (1, 1)"))
    reader.close()


def test_an_unreachable_database_is_told_soon(tmp_path: Path) -> None:
    started = time.monotonic()
    database = open_database(f"postgresql://judge:hunter2@/x?host={tmp_path}", write=True)
    with pytest.raises(DeliveryError, match="No such file") as caught:
        bring_up_to_date(database)
    assert time.monotonic() - started < 8
    assert "hunter2" not in caught.value.paragraph()
    assert "spool" in caught.value.remedy


@pytest.mark.parametrize(
    "address", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "http://x", "://", "postgresql://h:port/x"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError):
        store_url(address)


def test_addresses(tmp_path: Path) -> None:
    assert store_url("/a/b.db").database == "/a/b.db"
    assert store_url("postgres://h/x").drivername == "postgresql+psycopg"


@pytest.mark.parametrize("name", ["sqlalchemy", "alembic", "plotly"])
def test_without_the_extra_the_remedy_is_told(name: str) -> None:
    code = (
        f"import sys; sys.modules[{name!r}] = None\n"
        "from sandbox_judge.errors import MissingExtra\n"
        "try:\n    import sandbox_judge.store.database\n"
        "except MissingExtra as err:\n    sys.exit(err.paragraph())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert name in done.stderr and "pip install 'sandbox-judge[store]'" in done.stderr

"""A real SQLite file and a real PostgreSQL, one cluster a test session and one database a test."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from sandbox_judge.store.database import Database, open_database
from sandbox_judge.store.migrate import bring_up_to_date

_PORT = "5432"


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _as_postgres(command: list[str]) -> list[str]:
    """initdb and postgres refuse root: run them as an unprivileged user there."""
    if os.geteuid():
        return command
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    user = "postgres" if "postgres" in names else "nobody"
    entry = pwd.getpwnam(user)
    ids = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    return ["setpriv", *ids, *command]


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The socket directory of a private PostgreSQL cluster; no TCP, no durability."""
    programs = _programs()
    if programs is None:
        assert os.environ.get("CI") != "true", "CI must test PostgreSQL: install Debian's postgresql"
        pytest.skip("no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    with tempfile.TemporaryDirectory(prefix="sj-pg-", dir="/tmp") as place:
        os.chmod(place, 0o777)
        data = f"{place}/data"
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "timeout": 60, "cwd": "/"}
        init = [
            f"{programs}/initdb",
            "-D",
            data,
            "-U",
            "judge",
            "-A",
            "trust",
            "--no-sync",
            "--locale=C.UTF-8",
        ]
        subprocess.run(_as_postgres(init), **quiet)
        options = f"-c listen_addresses= -c unix_socket_directories={place} -p {_PORT} -c fsync=off"
        control = [f"{programs}/pg_ctl", "-D", data, "-w", "-s", "-l", f"{place}/log"]
        subprocess.run(_as_postgres([*control, "-o", options, "start"]), **quiet)
        try:
            yield place
        finally:
            subprocess.run(_as_postgres([*control, "-m", "immediate", "stop"]), **quiet)
            subprocess.run(_as_postgres(["rm", "-rf", data]), check=False, timeout=60, cwd="/")


@pytest.fixture
def postgresql_url(cluster: str, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "t" + os.urandom(6).hex()
    admin = create_engine(
        f"postgresql+psycopg://judge@/postgres?host={cluster}&port={_PORT}", isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield f"postgresql://judge@/{name}?host={cluster}&port={_PORT}"
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_database(store_url, write=True)
    bring_up_to_date(opened)
    yield opened
    opened.close()

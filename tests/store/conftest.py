"""A real SQLite file and a real PostgreSQL, one cluster a test session and one database a test."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def _new_database(place: str, how: str = "") -> Iterator[str]:
    name = "t" + os.urandom(6).hex()
    admin = create_engine(
        f"postgresql+psycopg://judge@/postgres?host={place}&port={_PORT}", isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} {how}"))
    yield f"postgresql://judge@/{name}?host={place}&port={_PORT}"
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture
def postgresql_url(cluster: str) -> Iterator[str]:
    with _new_database(cluster) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each engine."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "store.db"
    opened = open_database(str(path), write=True)
    bring_up_to_date(opened)
    opened.close()
    return path


@pytest.fixture(scope="session")
def postgresql_template(cluster: str) -> str:
    admin = create_engine(
        f"postgresql+psycopg://judge@/postgres?host={cluster}&port={_PORT}", isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        connection.execute(text("CREATE DATABASE ready"))
    admin.dispose()
    opened = open_database(f"postgresql://judge@/ready?host={cluster}&port={_PORT}", write=True)
    bring_up_to_date(opened)
    opened.close()
    return "ready"


@pytest.fixture(params=["sqlite", "postgresql"])
def ready_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of each engine with the schema in place (made once, copied for each test)."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "store.db")
        yield f"sqlite:///{tmp_path}/store.db"
        return
    place, template = request.getfixturevalue("cluster"), request.getfixturevalue("postgresql_template")
    with _new_database(place, f"TEMPLATE {template} STRATEGY FILE_COPY") as url:
        yield url


@pytest.fixture
def database(ready_url: str) -> Iterator[Database]:
    opened = open_database(ready_url, write=True)
    yield opened
    opened.close()

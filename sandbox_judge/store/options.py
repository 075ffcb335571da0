"""Which store a command means, the same for all of them: `--store`, else the variable, else the data dir."""

import argparse
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from sandbox_judge.errors import UsageError
from sandbox_judge.paths import data_dir
from sandbox_judge.store.database import Database, open_database, told
from sandbox_judge.store.records import microseconds
from sandbox_judge.store.revision import require_current

VARIABLE: Final = "SANDBOX_JUDGE_STORE"
_AGO: Final = re.compile(r"(\d{1,6})(m|h|d|w)", re.ASCII)
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="URL",
        help=f"a path, sqlite:///PATH or postgresql://… (default: ${VARIABLE}, else the data directory)",
    )


def store_address(given: str | None, environ: Mapping[str, str]) -> str:
    """The store's address as text. Raises SettingsError for an unusable data directory."""
    return given or environ.get(VARIABLE) or str(data_dir(environ).path / "store.db")


@contextmanager
def reading(given: str | None, environ: Mapping[str, str]) -> Iterator[Database]:
    """The store, read-only. Raises InputError where it is not there, or its schema is another."""
    database = open_database(store_address(given, environ), write=False)
    try:
        require_current(database)
        with told(database):
            yield database
    finally:
        database.close()


def moment(text: str, *, now: datetime) -> int:
    """A point in time in microseconds since 1970: RFC 3339, a date (UTC), or how long ago (`90m`, `36h`,
    `7d`, `2w`). Raises UsageError."""
    ago = _AGO.fullmatch(text)
    if ago:
        return microseconds(now) - int(ago[1]) * _SECONDS[ago[2]] * 1_000_000
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text[:80]!r} is no time.", remedy="Write 2026-11-30, 2026-11-30T21:00:00Z, or 36h, 7d, 2w ago."
        ) from None
    return microseconds(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))

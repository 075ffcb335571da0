"""How fast the store answers: 20 judges × 200 versions × 5 services, loaded in bulk past the collector.

    python bench/store.py [--rows 500000] [--store URL] [--body 900]

Prints the disk that it needs first, then the best and the worst of five runs after one to warm up. The target
is under 1 s for `trend` and `compare` with 5,000,000 rows.
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import text

from sandbox_judge.store import schema
from sandbox_judge.store.commit_order import CommitOrder
from sandbox_judge.store.compare import compare
from sandbox_judge.store.database import Database, open_database
from sandbox_judge.store.evidence import Choice, cells
from sandbox_judge.store.migrate import bring_up_to_date
from sandbox_judge.store.months import ensure_partitions, month_of
from sandbox_judge.store.records import Series, series_id
from sandbox_judge.store.trend import trend

JUDGES, VERSIONS, SERVICES = 20, 200, 5
START = 1_790_000_000_000_000
SPAN = 180 * 86_400_000_000
OVERHEAD = 1300  # keys, indexes and columns of one judgement, in bytes (measured)


def all_series() -> list[tuple[int, Series]]:
    out = []
    for judge in range(JUDGES):
        for version in range(VERSIONS):
            for service in range(SERVICES):
                one = Series(
                    judge_id=str(uuid.UUID(int=judge)),
                    judge_name=f"judge-{judge}",
                    recipe_id="bench",
                    definition_hash=f"sha256:{judge:032x}{version // 50:032x}",
                    grading_hash=f"sha256:{judge:032x}{version // 50:032x}",
                    contract_version="1",
                    commit=f"{version:040x}",
                    service=f"service-{service}",
                    environment="production",
                    response_model=f"model-{version // 100}",
                    output_mode="schema",
                    endpoint="default",
                    lane="openai_wire",
                    sample_rate=1.0,
                )
                out.append((series_id(one.digest()), one))
    return out


def rows(count: int, body: int, series: list[tuple[int, Series]]) -> Iterator[dict[str, Any]]:
    filler = "x" * body
    for n in range(count):
        key = uuid.UUID(bytes=hashlib.md5(str(n).encode()).digest())
        number, _ = series[n % len(series)]
        outcome = n // len(series) % 20
        result = (
            "fail" if outcome < 3 else "not_applicable" if outcome == 3 else None if outcome == 4 else "pass"
        )
        yield {
            "at": START + n * (SPAN // count),
            "event_id": str(key),
            "judgement_id": str(key),
            "grading_key": str(key),
            "digest": key.hex,
            "judged": key.hex,
            "series_id": number,
            "result": result,
            "error_type": "timeout" if result is None else None,
            "verdict": int(result is not None),
            "regrade": 0,
            "conversation_id": f"c{n // JUDGES}",
            "sequence_hash": None,
            "said_at": START,
            "received_at": START,
            "duration_ms": 900.0,
            "body": filler,
            "arrival": 1 + n // 2000,
        }


def chunks(source: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for one in source:
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


TABLES = (schema.event_key, schema.judgement_key, schema.judgement, schema.standing)


def load(database: Database, count: int, body: int) -> None:
    series = all_series()
    if database.postgresql:
        ensure_partitions(database, {month_of(START + n * SPAN // 400) for n in range(401)})
    with database.engine.begin() as connection:
        values = [{"id": n, "digest": one.digest(), **msgspec.structs.asdict(one)} for n, one in series]
        connection.execute(schema.series.insert(), values)
    for batch in chunks(rows(count, body, series), 50_000):
        with database.engine.begin() as connection:
            for table in TABLES:
                names = [column.name for column in table.columns]
                if database.postgresql:
                    _copy(connection, table.name, names, batch)
                else:
                    marks = ",".join("?" * len(names))
                    connection.exec_driver_sql(
                        f"INSERT INTO {table.name} VALUES ({marks})",
                        [tuple(row[name] for name in names) for row in batch],
                    )
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE" if database.postgresql else "ANALYZE"))


def _copy(connection: Any, table: str, names: list[str], batch: list[dict[str, Any]]) -> None:
    cursor = connection.connection.cursor()
    with cursor.copy(f"COPY {table} ({','.join(names)}) FROM STDIN") as copy:
        for row in batch:
            copy.write_row([row[name] for name in names])


def timed(name: str, ask: Any) -> None:
    started = time.perf_counter()
    ask()
    cold = time.perf_counter() - started
    took = []
    for _ in range(5):
        started = time.perf_counter()
        ask()
        took.append(time.perf_counter() - started)
    print(f"{name:34} first {cold * 1000:7.0f} ms, then {min(took) * 1000:6.0f}–{max(took) * 1000:.0f} ms")


def measure(database: Database) -> None:
    judge = str(uuid.UUID(int=JUDGES - 1))
    if not cells(database, Choice(judge_id=judge)):
        raise SystemExit("nothing was loaded for the judge that is asked about")
    one, two = (Choice(judge_id=judge, commits=(f"{n:040x}",)) for n in (120, 121))
    timed("trend by version", lambda: trend(cells(database, Choice(judge_id=judge)), CommitOrder()))
    timed(
        "trend by version and service",
        lambda: trend(cells(database, Choice(judge_id=judge)), CommitOrder(), split_services=True),
    )
    timed(
        "trend by day",
        lambda: trend(cells(database, Choice(judge_id=judge), by_day=True), CommitOrder(), by="day"),
    )
    timed("compare two versions", lambda: compare(cells(database, one), cells(database, two), z=1.96))
    windows = [
        Choice(judge_id=judge, since=START + SPAN // 2 - SPAN // 10, until=START + SPAN // 2),
        Choice(judge_id=judge, since=START + SPAN // 2, until=START + SPAN // 2 + SPAN // 10),
    ]
    timed("compare two windows", lambda: compare(*(cells(database, w) for w in windows), z=1.96))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--store", help="an empty database (default: a SQLite file that is removed again)")
    parser.add_argument("--body", type=int, default=900, help="bytes of each stored event")
    args = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="bench-store-"))
    needed = args.rows * (args.body + OVERHEAD)
    print(f"needs {needed / 1e9:.1f} GB of disk for {args.rows:,} judgements", flush=True)
    if not args.store and shutil.disk_usage(place).free < needed * 1.2:
        print("there is not enough", file=sys.stderr)
        return 2
    database = open_database(args.store or str(place / "store.db"), write=True)
    try:
        bring_up_to_date(database)
        started = time.perf_counter()
        load(database, args.rows, args.body)
        took = time.perf_counter() - started
        print(f"loaded in {took:.0f} s ({args.rows / took:,.0f} a second)", flush=True)
        if not args.store:
            print(f"{os.path.getsize(place / 'store.db') / 1e9:.2f} GB on disk")
        measure(database)
    finally:
        database.close()
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())

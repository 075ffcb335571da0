"""What is stored goes on to a real OTLP receiver: at least once, whatever stops, waits or is away."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from alembic.runtime.environment import EnvironmentContext
from made_events import DAY, START, event, incoming, line
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from sqlalchemy import text

from sandbox_judge.sinks.otlp import OtlpSink
from sandbox_judge.store import forwarder as forwarder_module
from sandbox_judge.store.database import Database, open_database
from sandbox_judge.store.forwarder import Forwarder
from sandbox_judge.store.forwarding import Forwarding
from sandbox_judge.store.ingest import Ingest
from sandbox_judge.store.migrate import bring_up_to_date, scripts
from sandbox_judge.store.retention import let_go

COLLECT = [sys.executable, "-m", "sandbox_judge", "collect"]


class Receiver:
    """OTLP over HTTP. `refuse` is a conversation whose requests get 400; `delay_s` before answers."""

    def __init__(self, port: int = 0) -> None:
        self.batches: list[list[str]] = []
        self.refuse: str | None = None
        self.delay_s = 0.0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.take(ExportLogsServiceRequest.FromString(body)))
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportLogsServiceResponse().SerializeToString())

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/logs"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def take(self, request: ExportLogsServiceRequest) -> int:
        found = [
            attribute.value.string_value
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
            for attribute in record.attributes
            if attribute.key == "gen_ai.conversation.id"
        ]
        time.sleep(self.delay_s)
        if self.refuse in found:
            return 400
        self.batches.append(found)
        return 200

    @property
    def received(self) -> list[str]:
        return [one for batch in self.batches for one in batch]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder_module, "_FIRST_PAUSE", 0.01)


def store(database: Database, *names: str, at: int = START, **more: Any) -> None:
    lines = [incoming(event(conversation=name, at=at, **more), received=START + 900 * DAY) for name in names]
    Ingest(database).store(lines)


@contextmanager
def forwarding(
    database: Database, url: str, *, from_now: bool = False
) -> Iterator[tuple[Forwarder, list[str]]]:
    reader = open_database(database.engine.url.render_as_string(hide_password=False), write=False)
    complaints: list[str] = []
    sink = OtlpSink(f"otlp:{url}")
    made = Forwarding(database, reader, sink.name)
    made.register(from_now=from_now)
    try:
        yield Forwarder(made, sink, complaints.append), complaints
    finally:
        reader.close()


def drained(one: Forwarder, *, close: bool = True, within: float = 10.0) -> bool:
    async def whole() -> bool:
        try:
            return await one.drain(within)
        finally:
            if close:
                await one.aclose()

    return anyio.run(whole, backend="trio" if close else "asyncio")


def test_in_order_of_arrival_and_once_where_nothing_fails(database: Database, receiver: Receiver) -> None:
    """An event that tells of an earlier time arrives later all the same."""
    store(database, "first", at=START + DAY)
    store(database, *(f"c{n:03}" for n in range(300)))
    with forwarding(database, receiver.url) as (one, complaints):
        assert drained(one)
        assert one.sent == 301
    assert receiver.received[0] == "first"
    assert sorted(receiver.received[1:]) == [f"c{n:03}" for n in range(300)]
    assert len(receiver.batches) == 2, "in pages"
    store(database, "later", at=START - DAY)
    with forwarding(database, receiver.url, from_now=True) as (again, _):
        assert drained(again), "a known destination goes on from its own place"
    assert receiver.received[301:] == ["later"]
    assert complaints == []


def test_progress_is_waited_for_and_silence_is_not(
    sqlite_url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    store(database, *(f"c{n}" for n in range(12)))
    monkeypatch.setattr(forwarder_module, "PAGE", 1)
    receiver.delay_s = 0.1
    with forwarding(database, receiver.url) as (one, _):
        assert anyio.run(lambda: one.drain(0.6, patient=True)), "1.2 s in all, and never 0.6 without progress"
        store(database, "more")
        receiver.delay_s = 1.5
        assert not anyio.run(lambda: one.drain(0.3, patient=True))
        anyio.run(one.aclose)
    database.close()


def test_a_new_destination_may_begin_now(database: Database, receiver: Receiver) -> None:
    store(database, "before")
    with forwarding(database, receiver.url, from_now=True) as (one, _):
        store(database, "after")
        assert drained(one)
    assert receiver.received == ["after"]


def test_one_collector_at_a_time_has_a_destination(database: Database, receiver: Receiver) -> None:
    store(database, "a", "b")
    with forwarding(database, receiver.url) as (one, _), forwarding(database, receiver.url) as (two, _):
        assert drained(one, close=False)
        store(database, "c")
        assert drained(two, close=False) and two.held_elsewhere and two.sent == 0
        assert drained(one)
        store(database, "d")
        assert drained(two) and two.sent == 1, "what was let go of is taken over at once"
    assert sorted(receiver.received) == ["a", "b", "c", "d"]


def test_a_collector_that_died_is_followed(database: Database, receiver: Receiver, monkeypatch: Any) -> None:
    store(database, "a")
    with forwarding(database, receiver.url) as (one, _), forwarding(database, receiver.url) as (two, _):
        monkeypatch.setattr("sandbox_judge.store.forwarding.HOLD_MICROSECONDS", 200_000)
        assert drained(one, close=False)
        store(database, "b")
        deadline = time.monotonic() + 5
        while not two.sent and time.monotonic() < deadline:
            drained(two, close=False)
        drained(two)
    assert receiver.received == ["a", "b"]


def test_a_commit_under_way_is_not_passed_by(postgresql_url: str, receiver: Receiver) -> None:
    """Another collector's batch, begun earlier, commits after one that was begun later."""
    database = open_database(postgresql_url, write=True)
    bring_up_to_date(database)
    store(database, "partition")
    slow = database.engine.connect()
    slow.execute(text("INSERT INTO event_key VALUES ('slow', 1, 'x')"))
    slow.execute(
        text(
            "INSERT INTO judgement SELECT at, 'slow', 'slow', 'slow', series_id, result, error_type, "
            "regrade, 'slow', sequence_hash, said_at, received_at, duration_ms, "
            "replace(body, 'partition', 'slow'), pg_current_xact_id()::text::bigint FROM judgement"
        )
    )
    store(database, "quick")
    with forwarding(database, receiver.url) as (one, _):
        assert not drained(one, close=False, within=0.5), "what is not settled is not taken for sent"
        assert receiver.received == ["partition"]
        slow.commit()
        assert drained(one)
    assert sorted(receiver.received) == ["partition", "quick", "slow"]
    slow.close()
    database.close()


def test_what_a_destination_will_not_have_holds_up_nothing(database: Database, receiver: Receiver) -> None:
    receiver.refuse = "bad"
    store(database, *(f"c{n}" for n in range(6)), "bad", *(f"d{n}" for n in range(6)))
    store(database, "from before the epoch", envelope={"timestamp": "0001-01-02T00:00:00Z"})
    store(database, "last")
    with forwarding(database, receiver.url) as (one, complaints):
        assert drained(one, within=20)
        assert (one.sent, one.left_out) == (13, 2)
    assert set(receiver.received) == {*(f"c{n}" for n in range(6)), *(f"d{n}" for n in range(6)), "last"}
    told = [said for said in complaints if "is not sent judgement event" in said]
    assert len(told) == 2 and all("refused alone" in said for said in told)


def test_a_sink_that_fails_in_a_way_of_its_own_is_survived(sqlite_url: str, receiver: Receiver) -> None:
    class Odd(OtlpSink):
        async def send(self, lines: Any, **more: Any) -> None:
            if any(b"odd" in line.data for line in lines):
                raise ValueError("odd")
            await super().send(lines, **more)

    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    store(database, "a", "odd", "b")
    with forwarding(database, receiver.url) as (one, complaints):
        one._sink = Odd(f"otlp:{receiver.url}")
        assert drained(one)
    assert sorted(receiver.received) == ["a", "b"]
    assert len(complaints) == 1 and "cannot be encoded: ValueError" in complaints[0]
    database.close()


def test_what_retention_lets_go_moves_nobody_back(sqlite_url: str, receiver: Receiver) -> None:
    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    store(database, "new", at=START + 400 * DAY)
    store(database, "old, and last to arrive", at=START)
    with forwarding(database, receiver.url) as (one, _):
        assert drained(one, close=False)
        assert let_go(database, keep_s=86_400, now=START + 300 * DAY).judgements == 1
        store(database, "after", at=START + 401 * DAY)
        assert drained(one)
    assert receiver.received == ["new", "old, and last to arrive", "after"]
    database.close()


def test_a_store_of_the_first_schema_is_sent_on(store_url: str, receiver: Receiver) -> None:
    database = open_database(store_url, write=True)
    config, directory = scripts()
    with (
        database.engine.begin() as connection,
        EnvironmentContext(
            config,
            directory,
            fn=lambda rev, _: directory._upgrade_revs("0001", rev),
            destination_rev="0001",
        ) as environment,
    ):
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()
        if database.postgresql:
            connection.execute(text("CREATE TABLE judgement_x PARTITION OF judgement DEFAULT"))
        for n in range(2):
            body = line(event(conversation=f"old-{n}")).decode()
            connection.execute(
                text(
                    "INSERT INTO judgement VALUES "
                    "(:at, :id, :id, :id, 1, 'pass', NULL, 0, 'c', NULL, 1, 1, 1, :body)"
                ),
                {"at": START - n, "id": f"id-{n}", "body": body},
            )
    bring_up_to_date(database)
    with forwarding(database, receiver.url) as (one, _):
        assert drained(one)
    assert receiver.received == ["old-1", "old-0"]
    database.close()


def test_an_endpoint_that_comes_late_and_a_collector_that_is_killed(sqlite_url: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    captured = tmp_path / "events.jsonl"
    captured.write_bytes(b"".join(line(event(conversation=f"c{n}")) + b"\n" for n in range(40)))
    url = f"http://127.0.0.1:{port}/v1/logs"
    place = tmp_path / "run"
    place.mkdir(mode=0o700)
    listen = [*COLLECT, "--listen", f"unix:{place}/c.sock", "--store", sqlite_url, "--otlp", url]
    process = subprocess.Popen(listen, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert b"collecting on" in process.stderr.readline()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(f"{place}/c.sock")
            client.sendall(captured.read_bytes())
            client.shutdown(socket.SHUT_WR)
            acks = b""
            while chunk := client.recv(65536):
                acks += chunk
        assert acks.count(b'"ack"') == 40, "an endpoint that is away holds up nobody"
    finally:
        process.kill()
        process.communicate(timeout=10)
    receiver = Receiver(port)
    try:
        # The killed one may hold the destination for a minute more: as if that had passed.
        database = open_database(sqlite_url, write=True)
        with database.engine.begin() as connection:
            connection.execute(text("UPDATE forwarding SET held_until = 0"))
        database.close()
        done = subprocess.run(
            [*COLLECT, str(captured), "--store", sqlite_url, "--otlp", url, "-o", "json"],
            capture_output=True,
            timeout=40,
        )
        assert done.returncode == 0, done.stderr
        assert b'"duplicates": 40' in done.stdout and b'"sent_on": 40' in done.stdout
        assert sorted(receiver.received) == sorted(f"c{n}" for n in range(40))
    finally:
        receiver.close()

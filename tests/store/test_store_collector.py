"""Real sockets and real databases: everything that was acknowledged is stored, once."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from made_events import event, ledger, line
from sqlalchemy import event as hooks
from sqlalchemy import func, select

from sandbox_judge.errors import DeliveryError, TrustError, UsageError
from sandbox_judge.sinks.base import Line
from sandbox_judge.sinks.unix import UnixSink
from sandbox_judge.store import schema
from sandbox_judge.store.collector import Collector, unix_listener
from sandbox_judge.store.conversations import kept_in
from sandbox_judge.store.database import Database, open_database
from sandbox_judge.store.lines import LineBuffer, Overlong
from sandbox_judge.store.migrate import bring_up_to_date
from sandbox_judge.store.writer import Storing, Writer, read_lines

COMMAND = """
import argparse, sys
from sandbox_judge.cli import collect
from sandbox_judge.cli.surface import process_surface
parser = argparse.ArgumentParser()
collect.add(parser.add_subparsers())
args = parser.parse_args(sys.argv[1:])
sys.exit(collect.run(args, process_surface()))
"""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("s")
    path.chmod(0o700)
    return path


@contextmanager
def collecting(place: Path, url: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    path = place / "c.sock"
    command = [sys.executable, "-c", COMMAND, "collect", "--listen", f"unix:{path}", "--store", url, *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert b"collecting on" in first, first + process.stderr.read()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=10)


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(20)
    client.connect(str(path))
    return client


def stored(database: Database, table: str = "judgement") -> set[str]:
    with database.engine.connect() as connection:
        return set(connection.execute(select(schema.metadata.tables[table].c.event_id)).scalars())


def acknowledged(client: socket.socket) -> set[str]:
    received = b""
    while chunk := client.recv(65536):
        received += chunk
    return {json.loads(one)["ack"] for one in received.splitlines()}


def exchange(client: socket.socket, sent: bytes) -> set[str]:
    client.sendall(sent)
    client.shutdown(socket.SHUT_WR)
    return acknowledged(client)


class Running:
    def __init__(self, database: Database, path: Path, kept_dir: Path | None = None, **bounds: float) -> None:
        self.complaints: list[str] = []
        kept = kept_in(kept_dir) if kept_dir else None
        self.writer = Storing(database, kept)
        self.collector = Collector(Writer(self.writer, self.complaints.append), **bounds)
        self.path = path

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with unix_listener(self.path) as listener:
            await self.collector.serve(listener, ready=task_status.started)


def test_lines_are_cut_out_of_any_chunks() -> None:
    text = b'{"a":1}\n\n  \n{"b":2}\r\nx' + b"y" * 40 + b"\n{}\nrest"
    for size in range(1, len(text) + 1):
        buffer = LineBuffer(20)
        lines = [one for at in range(0, len(text), size) for one in buffer.feed(text[at : at + size])]
        assert [one for one in lines if isinstance(one, bytes)] == [b'{"a":1}', b'{"b":2}', b"{}"]
        assert sum(isinstance(one, Overlong) for one in lines) == 1
        assert buffer.end() == b"rest"
        assert buffer.end() is None


@pytest.mark.anyio
async def test_a_hooks_own_sink_is_served(database: Database, place: Path) -> None:
    running = Running(database, place / "c.sock")
    events = [event(conversation=f"c{n}") for n in range(50)] + [ledger()]
    lines = [Line(one["id"], line(one)) for one in events]
    taken: list[str] = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(running.serve)
        assert (place / "c.sock").stat().st_mode & 0o777 == 0o600
        for acks in (True, False):
            sink = UnixSink(place / "c.sock", acks=acks)
            deadline = anyio.current_time() + 10
            await sink.send(lines, deadline=deadline, taken=taken.append)
            await sink.finish(deadline=deadline, taken=taken.append)
            await sink.aclose()
        running.collector.stop()
    assert len(taken) == 102
    assert stored(database) | stored(database, "ledger") == set(taken)
    assert (running.writer.taken.judgements, running.writer.taken.duplicates) == (50, 51)
    assert not (place / "c.sock").exists()


@pytest.mark.anyio
async def test_what_was_sent_before_a_stop_is_stored(sqlite_url: str, place: Path) -> None:
    """Sent, shut down and closed without reading a word, even before it was accepted; and a line that was
    being written."""
    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    running = Running(database, place / "c.sock")
    whole, cut = event(conversation="whole"), event(conversation="cut")
    async with anyio.create_task_group() as tasks:
        await tasks.start(running.serve)
        for _ in range(20):
            with connect(running.path) as client:
                client.sendall(line(whole) + b"\n")
        lingering = connect(running.path)
        lingering.sendall(line(cut))
        running.collector.stop()
    lingering.close()
    assert stored(database) == {whole["id"], cut["id"]}
    database.close()


@pytest.mark.anyio
async def test_hostile_clients_are_bounded(sqlite_url: str, place: Path) -> None:
    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    running = Running(database, place / "c.sock", max_connections=4, idle_s=0.3, max_line=2000)
    good = event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(running.serve)
        silent = [connect(running.path) for _ in range(8)]
        client = connect(running.path)
        sent = b"\0\n\xff\n[1,2]\n" + b"x" * 500_000 + b"\n" + line(good) + b"\n"
        acks = await anyio.to_thread.run_sync(exchange, client, sent)
        running.collector.stop()
    for one in [*silent, client]:
        one.close()
    assert acks == {good["id"]}
    assert running.writer.taken.quarantined == {
        "not_json": 1,
        "not_utf8": 1,
        "unknown_event": 1,
        "too_long": 1,
    }
    database.close()


@pytest.mark.anyio
async def test_an_outage_is_waited_out(sqlite_url: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is locked by somebody else: nothing is acknowledged until it is stored."""
    monkeypatch.setattr("sandbox_judge.store.database.BUSY_MILLISECONDS", 50)
    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    running = Running(database, place / "c.sock")
    locker = open_database(sqlite_url, write=True)
    given = event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(running.serve)
        with connect(running.path) as client:
            with locker.engine.begin():
                client.sendall(line(given) + b"\n")
                client.shutdown(socket.SHUT_WR)
                await anyio.sleep(0.5)
                client.setblocking(False)
                with pytest.raises(BlockingIOError):
                    client.recv(1)
                client.settimeout(10)
            assert await anyio.to_thread.run_sync(acknowledged, client) == {given["id"]}
        running.collector.stop()
    assert running.complaints[0].startswith("the store takes nothing")
    assert stored(database) == {given["id"]}
    locker.close()
    database.close()


def conversation(text: str) -> dict[str, object]:
    return {
        "schema": "sandbox_judge.conversation/1",
        "source_format": "openai_chat",
        "status": "completed",
        "warnings": [],
        "entries": [{"kind": "message", "n": 1, "role": "user", "parts": [{"type": "text", "text": text}]}],
    }


@pytest.mark.anyio
@pytest.mark.parametrize("keeps", [True, False])
async def test_conversations_are_kept_only_when_asked(sqlite_url: str, place: Path, keeps: bool) -> None:
    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    running = Running(database, place / "c.sock", kept_dir=place / "kept" if keeps else None)
    given = event()["payload"]["sequence_hash"]
    records = [
        {"event_name": "sandbox_judge.conversation", "sequence_hash": name, "conversation": body, "id": one}
        for one, name, body in (
            (event()["id"], given, conversation("hello")),
            (event()["id"], given, conversation("another of the same hash")),
            (event()["id"], "sha256:../../etc/passwd", conversation("x")),
            (event()["id"], "sha256:" + "0" * 64, {"entries": "none"}),
        )
    ]
    async with anyio.create_task_group() as tasks:
        await tasks.start(running.serve)
        client = connect(running.path)
        client.sendall(b"".join(line(one) + b"\n" for one in records))
        client.shutdown(socket.SHUT_WR)
        acks = await anyio.to_thread.run_sync(acknowledged, client)
        running.collector.stop()
        client.close()
    assert acks == {one["id"] for one in records}
    assert running.writer.taken.quarantined == {"invalid": 2}
    assert running.writer.taken.conversations == int(keeps)
    if keeps:
        kept = kept_in(place / "kept")
        assert json.loads(kept.get(given) or b"") == conversation("hello")
        assert kept.path(given).stat().st_mode & 0o777 == 0o600
        assert kept.let_go(keep_s=60) == 0
        os.utime(kept.path(given), (0, 0))
        assert kept.let_go(keep_s=60) == 1
        assert kept.get(given) is None
    database.close()


def test_sigterm_ends_in_order(sqlite_url: str, place: Path) -> None:
    events = [event(conversation=f"c{n}") for n in range(300)]
    with collecting(place, sqlite_url, "-o", "json") as process:
        with connect(place / "c.sock") as client:
            client.sendall(b"".join(line(one) + b"\n" for one in events))
            process.send_signal(signal.SIGTERM)
            acks = acknowledged(client)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 0, err
    assert json.loads(out)["judgements"] == 300
    database = open_database(sqlite_url, write=False)
    assert acks == stored(database) == {one["id"] for one in events}
    database.close()


def test_killed_at_random_loses_and_doubles_nothing(store_url: str, place: Path) -> None:
    """Two collectors on one store, each killed at some instant and started anew; clients send again what was
    not acknowledged, as a spool does."""
    events = [event(conversation=f"c{n}", view=str(n % 3)) for n in range(1500)]
    left = [{one["id"]: line(one) for one in events[::2]}, {one["id"]: line(one) for one in events[1::2]}]
    left[1].update(dict(list(left[0].items())[:200]))  # some go to both

    def client(side: int) -> None:
        home = place / str(side)
        home.mkdir(mode=0o700)
        for turn in range(2):
            with collecting(home, store_url) as process:
                killer = threading.Timer(random.uniform(0.0, 0.25), process.kill)
                if turn == 0:
                    killer.start()
                try:
                    with connect(home / "c.sock") as link:
                        acks = send_slowly(link, left[side])
                        for one in acks:
                            del left[side][one]
                except OSError:
                    pass
                killer.cancel()

    threads = [threading.Thread(target=client, args=(side,)) for side in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert left == [{}, {}]
    database = open_database(store_url, write=False)
    assert stored(database) == {one["id"] for one in events}
    with database.engine.connect() as connection:
        for table in (schema.judgement, schema.judgement_key, schema.standing):
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 1500, table
    database.close()


def send_slowly(link: socket.socket, lines: dict[str, bytes]) -> set[str]:
    received, todo = b"", list(lines.values())
    try:
        for start in range(0, len(todo), 50):
            link.sendall(b"".join(one + b"\n" for one in todo[start : start + 50]))
            received += link.recv(65536)
        link.shutdown(socket.SHUT_WR)
        while chunk := link.recv(65536):
            received += chunk
    except OSError:
        pass
    return {json.loads(one)["ack"] for one in received.split(b"\n")[:-1] if one}


@pytest.mark.anyio
async def test_the_socket_is_guarded(place: Path) -> None:
    (place / "file").touch()
    async with unix_listener(place / "c.sock"):
        with pytest.raises(UsageError, match="already"):
            async with unix_listener(place / "c.sock"):
                pass
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(place / "stale.sock"))
    async with unix_listener(place / "stale.sock"):
        pass
    with pytest.raises(UsageError, match="not a socket"):
        async with unix_listener(place / "file"):
            pass
    with pytest.raises(UsageError, match="at most"):
        async with unix_listener(place / ("x" * 120)):
            pass
    os.chmod(place, 0o777)
    with pytest.raises(TrustError):
        async with unix_listener(place / "c.sock"):
            pass


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """A store that may not grow any more (SQLite's own bound stands in for the disk)."""
    database = open_database(str(tmp_path / "s.db"), write=True)
    bring_up_to_date(database)
    writer = Storing(database)

    @hooks.listens_for(database.engine, "begin")
    def _full(connection: object) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count=1")  # type: ignore[attr-defined]

    started = time.monotonic()
    many = [line(event(conversation=f"c{n}")) for n in range(500)]
    with pytest.raises(DeliveryError, match="full") as caught:
        writer.store_patiently(read_lines(many), patience_s=0.3)
    assert time.monotonic() - started < 5
    assert "not stored twice" in caught.value.remedy
    assert stored(database) == set()
    database.close()

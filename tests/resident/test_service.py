"""`serve` as a process: ready, reloading, draining; and what floods of clients cost it."""

import json
import os
import resource
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from resident.serving import ask, connected
from test_client import PYTHON, TALK, Place

from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer


@pytest.fixture
def place(tmp_path):
    with ModelServer(verdict("pass", delay_s=0.3)) as endpoint:
        here = Place(tmp_path, endpoint)
        yield here
        here.close()


def ended(server):
    code = server.wait(10)
    said = server.stderr.read()
    server.stderr.close()
    return code, said


def descriptors(server):
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def memory(server):
    return int(Path(f"/proc/{server.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def test_from_ready_to_drained(place, tmp_path):
    settings = tmp_path / "settings.json"
    settings.write_text("{}")
    settings.chmod(0o600)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)
        place.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        server = place.serve("--settings", str(settings), "--grace", "5s")
        assert manager.recv(1000).startswith(b"READY=1\n")
        assert memory(server) < 60
        off = {"recipes": {"shop": {"judges": {"a": {"enabled": False}}}}}
        for text, counts in (
            (json.dumps(off), {"disabled": 1, "verdict": 1}),
            ("{nonsense", {"disabled": 1, "verdict": 1}),
        ):
            settings.write_text(text)
            server.send_signal(signal.SIGHUP)
            assert manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert manager.recv(1000) == b"READY=1"
            assert ask(place.socket, TALK)[-1]["counts"] == counts
        with connected(place.socket) as sock:
            sock.sendall(TALK)
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(19) == b'{"accepted": true}\n'
            server.terminate()
            assert manager.recv(1000) == b"STOPPING=1"
            lines = b""
            while chunk := sock.recv(65_536):
                lines += chunk
        assert json.loads(lines.splitlines()[-1])["counts"] == {"disabled": 1, "verdict": 1}
        code, said = ended(server)
    assert code == 0
    assert "not reloaded" in said
    assert not place.socket.exists()


def test_what_does_not_end_within_the_grace_becomes_nulls(place):
    place.endpoint._script = verdict("pass", delay_s=30)
    server = place.serve("--grace", "600ms")
    with connected(place.socket) as sock:
        sock.sendall(TALK)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(19) == b'{"accepted": true}\n'
        started = time.monotonic()
        server.terminate()
        lines = b""
        while chunk := sock.recv(65_536):
            lines += chunk
    assert json.loads(lines.splitlines()[-1])["nulls"] == {"cancelled": 2}
    assert ended(server)[0] == 143
    assert time.monotonic() - started < 3


def test_what_cannot_be_is_told_at_the_start(place, tmp_path):
    def refused(*words):
        done = subprocess.run(
            [*PYTHON, "serve", *words], env=place.environ, capture_output=True, text=True, timeout=20
        )
        assert done.stdout == ""
        return done.returncode, done.stderr

    code, said = refused("--listen", str(tmp_path / ("x" * 120)))
    assert (code, "107" in said) == (2, True)
    assert refused("--listen", str(place.socket), "--commit", "0" * 40)[0] == 2
    assert refused("--listen", str(place.socket), "--sink", "nonsense:x")[0] == 2
    assert refused("--listen", str(place.socket), "--calls", "0")[0] == 2
    assert refused("--listen", str(place.socket), "--settings", "nowhere")[0] == 2
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert refused("--listen", str(tmp_path / "open" / "s"))[0] == 2
    server = place.serve()
    code, said = refused("--listen", str(place.socket))
    assert (code, "listens there already" in said) == (2, True)
    server.terminate()
    assert ended(server)[0] == 0


def test_ten_thousand_silent_connections(place):
    server = place.serve()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wished = min(hard, 4096) if hard != resource.RLIM_INFINITY else 4096
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wished), hard))
    at_once = max(soft, wished) - 300
    made, served, silent = 0, 0, []
    try:
        while made < 10_000:
            silent.append(connected(place.socket))
            made += 1
            if len(silent) >= at_once:
                silent.pop(0).close()
            if made % 2_500 == 0:
                started = time.monotonic()
                assert ask(place.socket, TALK)[-1]["counts"] == {"verdict": 2}
                assert time.monotonic() - started < 3
                served += 1
        assert served == 4
        assert descriptors(server) < 400
        assert memory(server) < 80
    finally:
        for sock in silent:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    server.terminate()
    assert ended(server)[0] == 0


def test_many_requests_leave_nothing_behind(place):
    """Some hundred here, ten thousand with SANDBOX_JUDGE_SOAK=5000: descriptors and memory stand still."""
    place.endpoint._script = verdict("pass")
    server = place.serve()
    for _ in range(100):
        ask(place.socket, TALK)
    before = descriptors(server)
    for _ in range(int(os.environ.get("SANDBOX_JUDGE_SOAK", "300"))):
        assert ask(place.socket, TALK)[-1]["counts"] == {"verdict": 2}
        ask(place.socket, b"{")
    assert descriptors(server) <= before + 2
    assert memory(server) < 60  # it grows by what waits to be collected, and no further
    server.terminate()
    assert ended(server)[0] == 0


def test_a_slow_reader_gets_its_events_and_a_dead_one_does_not_matter(place):
    server = place.serve()
    with connected(place.socket) as slow:
        slow.sendall(TALK + b"\n")
        for _ in range(3):
            connected(place.socket).close()
        time.sleep(1.0)
        assert select.select([slow], [], [], 5)[0]
        lines = b""
        while chunk := slow.recv(64):
            lines += chunk
    assert len(lines.splitlines()) == 4
    server.terminate()
    assert ended(server)[0] == 0


def test_what_a_client_did_not_wait_for_is_flushed_to_stdout(place):
    server = place.serve()
    with connected(place.socket) as sock:
        sock.sendall(TALK + b"\n")
        assert sock.recv(19) == b'{"accepted": true}\n'
    server.terminate()
    assert ended(server)[0] == 0
    flushed = subprocess.run([*PYTHON, "flush"], env=place.environ, capture_output=True, timeout=20)
    assert flushed.returncode == 0, flushed.stderr
    events = [json.loads(line) for line in flushed.stdout.splitlines()]
    assert sorted(event["event_name"] for event in events) == [
        "introspection.judgement",
        "introspection.judgement",
        "sandbox_judge.ledger",
    ]
    again = subprocess.run([*PYTHON, "flush"], env=place.environ, capture_output=True, timeout=20)
    assert again.stdout == b"nothing to deliver\n"

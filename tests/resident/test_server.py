"""The server on a real socket: what a request gets, and what one request cannot do to another."""

import json
import os
import socket

import anyio
import pytest
from recipes import committed, judge_text
from resident.serving import TALK, Bench, ask, connected, lines_of, reply, until

from sandbox_judge.lanes.base import ModelFailure
from sandbox_judge.settings import settings_of
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.testing.scripted import Say

pytestmark = pytest.mark.anyio


def kinds(lines):
    return [line.get("event_name", next(iter(line))).rpartition(".")[2] for line in lines]


@pytest.mark.parametrize("end", ["shutdown", "newline"])
async def test_a_request_gets_accepted_its_events_and_the_ledger(tmp_path, end):
    bench = Bench(tmp_path, lambda _: reply())
    async with bench.serving():
        lines = await bench.ask({"conversation": TALK, "conversation_id": "c-1"}, end=end)
    assert lines[0] == {"accepted": True}
    assert kinds(lines) == ["accepted", "judgement", "judgement", "ledger"]
    assert {line["conversation_id"] for line in lines[1:]} == {"c-1"}
    assert lines[-1]["counts"] == {"verdict": 2}
    assert lines[-1]["recipe_git_commit_sha"] == bench.commit


async def test_a_bare_conversation_may_end_at_a_newline_too(tmp_path):
    bench = Bench(tmp_path, lambda _: reply())
    async with bench.serving():
        assert kinds(await bench.ask(TALK, end="newline"))[-1] == "ledger"
        assert kinds(await bench.ask({"messages": TALK}, end="newline"))[-1] == "ledger"


async def test_the_header_supplies_what_the_input_does_not_say(tmp_path):
    bench = Bench(tmp_path, lambda _: reply())
    head = {"sandbox_judge": {"conversation_id": "from-header", "environment": "staging", "budget_ms": 9000}}
    async with bench.serving():
        lines = await bench.ask(json.dumps(head).encode() + b"\n" + json.dumps(TALK).encode())
        envelope = {"conversation": TALK, "conversation_id": "own"}
        own = await bench.ask(json.dumps(head).encode() + b"\n" + json.dumps(envelope).encode())
    assert lines[-1]["conversation_id"] == "from-header"
    assert (lines[-1]["environment"], lines[-1]["budget"]["total_ms"]) == ("staging", 9000)
    assert own[-1]["conversation_id"] == "own"


REFUSED = [
    {"settings": {}},
    {"settings": {"enabled": False}},
    {"recipe": {"path": "/elsewhere"}},
    {"recipe": {"id": "other"}},
    {"recipe": {"worktree": True}},
    {"sinks": ["file:/tmp/x"]},
    {"anything": 1},
    {"budget_ms": 30_001},
]
BAD = [
    (b"{", "invalid"),
    (b"nonsense", "invalid"),
    (b"\xff\xfe\x00", "invalid"),
    (b'{"a": 1}', "invalid"),
    (b"[" * 100_000, "invalid"),
    (b'{"conversation": "\\ud800"}', "invalid"),
    ({"conversation": TALK, "environment": "moon"}, "invalid"),
    ({"conversation": TALK, "budget_ms": "soon"}, "invalid"),
    ({"conversation": TALK, "recipe": {"commit": "HEAD"}}, "recipe"),
    ({"conversation": TALK, "recipe": {"commit": "0" * 40}}, "recipe"),
    ({"conversation": TALK, "recipe": {"commit": "0" * 99_999}}, "recipe"),
    (b'{"sandbox_judge": {"sinks": []}}\n[]', "refused"),
    (b'{"sandbox_judge": 3}\n[]', "refused"),
    (b'{"sandbox_judge": {"environment": "moon"}}\n[]', "invalid"),
]


async def test_what_only_the_platform_may_set_is_refused(tmp_path):
    bench = Bench(tmp_path, [])
    async with bench.serving():
        for more in REFUSED:
            (line,) = await bench.ask({"conversation": TALK, **more})
            assert line["error"]["type"] == "refused", more
    assert bench.model.calls == []


async def test_bad_requests_are_told_and_the_next_is_served(tmp_path):
    bench = Bench(tmp_path, lambda _: reply())
    async with bench.serving():
        for document, kind in BAD:
            (line,) = await bench.ask(document)
            assert line["error"]["type"] == kind, str(document)[:80]
            assert len(line["error"]["message"]) < 2_100
        assert kinds(await bench.ask({"conversation": TALK}))[-1] == "ledger"
    assert bench.crashes == []


async def test_a_request_over_the_cap_is_refused_without_being_read(tmp_path):
    bench = Bench(tmp_path, [], most_bytes=50_000)
    async with bench.serving():
        (line,) = await bench.ask(b" " * 5_000_000)
    assert line["error"]["type"] == "too_large"


async def test_a_half_written_request_is_dropped_and_others_are_served(tmp_path, monkeypatch):
    monkeypatch.setattr("sandbox_judge.resident.reading.LONGEST_S", 0.3)
    bench = Bench(tmp_path, lambda _: reply())
    async with bench.serving():
        with connected(bench.path) as half:
            half.sendall(b'{"conversation": [')
            assert kinds(await bench.ask({"conversation": TALK}))[-1] == "ledger"
            (line,) = await anyio.to_thread.run_sync(lines_of, half)
    assert line["error"]["type"] == "incomplete"


async def test_a_client_that_goes_away_stops_nothing_and_its_events_wait_in_the_spool(tmp_path):
    bench = Bench(tmp_path, lambda _: Say(text=reply(), delay_s=0.3))
    async with bench.serving() as server:
        with connected(bench.path) as sock:
            sock.sendall(json.dumps({"conversation": TALK, "conversation_id": "gone"}).encode() + b"\n")
            await anyio.to_thread.run_sync(sock.recv, 1)
        await until(lambda: server.served and not server.running)
    events = spooled(bench)
    assert sorted(kinds(events)) == ["judgement", "judgement", "ledger"]
    assert {event["conversation_id"] for event in events} == {"gone"}


async def test_a_client_that_has_read_all_leaves_nothing_in_the_spool(tmp_path):
    bench = Bench(tmp_path, lambda _: reply())
    async with bench.serving() as server:
        await bench.ask({"conversation": TALK})
        await until(lambda: not server.running)
    assert spooled(bench) == []


async def test_a_client_that_never_reads_holds_up_nobody(tmp_path):
    bench = Bench(tmp_path, lambda _: reply(), budget_s=1.0)
    async with bench.serving() as server:
        with connected(bench.path) as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.sendall(json.dumps({"conversation": TALK, "conversation_id": "silent"}).encode() + b"\n")
            await until(lambda: server.served)
            assert kinds(await bench.ask({"conversation": TALK}))[-1] == "ledger"
            await until(lambda: not server.running, within=3)
    assert len(spooled(bench)) == 3


async def test_the_servers_own_sinks_get_the_same_events(tmp_path):
    bench = Bench(tmp_path, lambda _: reply(), sinks=(f"file:{tmp_path}/events",))
    async with bench.serving() as server:
        lines = await bench.ask({"conversation": TALK})
        await until(lambda: not server.running)
    kept = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert kept == lines[1:]
    assert spooled(bench) == []


async def test_many_at_once_each_get_their_own(tmp_path):
    bench = Bench(tmp_path, lambda _: Say(text=reply(), delay_s=0.01))
    answers = {}

    async def one(number):
        answers[number] = await bench.ask({"conversation": TALK, "conversation_id": f"c{number}"})

    async with bench.serving(), anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one, number)
    for number, lines in answers.items():
        assert {line["conversation_id"] for line in lines[1:]} == {f"c{number}"}
        assert lines[-1]["counts"] == {"verdict": 2}


async def test_a_bug_in_one_request_is_its_own(tmp_path):
    def script(call):
        if "by a." in call.messages[-1]["content"]:
            raise ZeroDivisionError("a bug")
        return reply()

    bench = Bench(tmp_path, script)
    async with bench.serving():
        lines = await bench.ask({"conversation": TALK})
        assert lines[-1]["nulls"] == {"internal": 1}
        assert lines[-1]["counts"] == {"null": 1, "verdict": 1}


async def test_another_commit_is_another_recipe_and_is_read_once(tmp_path):
    bench = Bench(tmp_path, lambda _: reply())
    later = committed(bench.recipe, {"judges/c.yaml": judge_text("c")})
    async with bench.serving() as server:
        for _ in range(3):
            lines = await bench.ask({"conversation": TALK, "recipe": {"commit": later}})
            assert lines[-1]["recipe_git_commit_sha"] == later
            assert lines[-1]["counts"] == {"verdict": 3}
        assert (await bench.ask({"conversation": TALK}))[-1]["counts"] == {"verdict": 2}
        assert set(server.recipes._kept) == {later, bench.commit}


async def test_the_pinned_recipe_outlives_other_commits_and_its_repository(tmp_path, monkeypatch):
    monkeypatch.setattr("sandbox_judge.resident.recipes._KEPT", 1)
    bench = Bench(tmp_path, lambda _: reply())
    later = committed(bench.recipe, {"judges/c.yaml": judge_text("c")})
    async with bench.serving():
        await bench.ask({"conversation": TALK, "recipe": {"commit": later}})
        (bench.recipe / ".git").rename(tmp_path / "gone")
        assert (await bench.ask({"conversation": TALK}))[-1]["counts"] == {"verdict": 2}
        assert (await bench.ask({"conversation": TALK, "recipe": {"commit": later}}))[-1]["counts"]
        (line,) = await bench.ask({"conversation": TALK, "recipe": {"commit": "1" * 40}})
        assert line["error"]["type"] == "recipe"


async def test_settings_are_read_again_and_a_fault_keeps_the_old(tmp_path):
    bench = Bench(tmp_path, lambda _: reply())
    off = {"recipes": {"shop": {"judges": {"a": {"enabled": False}}}}}
    async with bench.serving() as server:
        assert (await bench.ask({"conversation": TALK}))[-1]["counts"] == {"verdict": 2}
        bench.settings = (settings_of(off, where="test"),)
        server.reload()
        assert (await bench.ask({"conversation": TALK}))[-1]["counts"] == {"disabled": 1, "verdict": 1}


async def test_tuning_time_changes_no_definition(tmp_path):
    bench = Bench(tmp_path, lambda _: reply())
    seen = []
    async with bench.serving() as server:
        for tuned in ({}, {"budget_ms": 9000, "per_judge_ms": 4000, "concurrency": 1}):
            bench.settings = (settings_of({"recipes": {"shop": tuned}}, where="test"),)
            server.reload()
            seen.append((await bench.ask({"conversation": TALK}))[1:-1])
    hashes = [sorted(event["payload"]["definition_hash"] for event in events) for events in seen]
    assert hashes[0] == hashes[1]
    budgets = [{event["payload"]["timing"]["budget_ms"] for event in events} for events in seen]
    assert budgets == [{30_000}, {9_000}]


async def test_a_long_conversation_is_taken_too(tmp_path):
    bench = Bench(tmp_path, lambda _: reply(), judges=("a",))
    talk = [{"role": "user", "content": "word " * 4000}, *TALK] * 10
    async with bench.serving():
        lines = await bench.ask({"conversation": talk}, end="newline")
    assert lines[-1]["counts"] == {"verdict": 1}


async def test_draining_ends_what_runs_with_nulls_and_refuses_what_comes(tmp_path):
    bench = Bench(tmp_path, lambda _: Say(text=reply(), delay_s=30))
    got = []

    async def client():
        got.extend(await bench.ask({"conversation": TALK}))

    async with bench.serving() as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client)
            await until(lambda: server.served)
            tasks.start_soon(server.drain, 0.7)
            await anyio.sleep(0.05)
            (line,) = await bench.ask({"conversation": TALK})
            assert line["error"]["type"] == "draining"
        assert server.cut_short == 1
    assert got[-1]["nulls"] == {"cancelled": 2}


async def test_draining_waits_for_what_ends_in_time(tmp_path):
    bench = Bench(tmp_path, lambda _: Say(text=reply(), delay_s=0.2))
    got = []

    async def client():
        got.extend(await bench.ask({"conversation": TALK}))

    async with bench.serving() as server, anyio.create_task_group() as tasks:
        tasks.start_soon(client)
        await until(lambda: server.served)
        assert await server.drain(5.0)
    assert got[-1]["counts"] == {"verdict": 2}


async def test_what_does_not_fit_is_budget_exhausted_and_nothing_waits_past_its_deadline(tmp_path):
    bench = Bench(tmp_path, lambda _: Say(text=reply(), delay_s=0.4), calls=1, budget_s=1.2)
    async with bench.serving():
        started = anyio.current_time()
        got = []

        async def client():
            got.append((await bench.ask({"conversation": TALK}))[-1])

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(client)
        assert anyio.current_time() - started < 1.6
    nulls = sum(ledger["nulls"].get("budget_exhausted", 0) for ledger in got)
    verdicts = sum(ledger["counts"].get("verdict", 0) for ledger in got)
    assert nulls >= 5
    assert verdicts >= 2
    assert all(sum(ledger["counts"].values()) == 2 for ledger in got)


async def test_a_rate_limited_provider_makes_the_rest_wait(tmp_path):
    times = []

    def script(call):
        times.append(anyio.current_time())
        if len(times) == 1:
            return ModelFailure("rate_limited", "slow down", retry_after_s=0.5)
        return reply()

    bench = Bench(tmp_path, script, calls=1)
    async with bench.serving():
        lines = await bench.ask({"conversation": TALK})
    assert lines[-1]["nulls"] == {"rate_limited": 1}
    assert lines[-1]["counts"] == {"null": 1, "verdict": 1}
    assert times[1] - times[0] >= 0.45


async def test_silent_connections_are_dropped_for_those_who_speak(tmp_path, monkeypatch):
    monkeypatch.setattr("sandbox_judge.resident.door._READERS", 20)
    bench = Bench(tmp_path, lambda _: reply())
    silent = []
    async with bench.serving() as server:
        try:
            for _ in range(300):
                silent.append(connected(bench.path))
                if len(silent) % 20 == 0:
                    await anyio.sleep(0.01)
            assert kinds(await bench.ask({"conversation": TALK}))[-1] == "ledger"
            assert server.door.waiting <= 20
        finally:
            for sock in silent:
                sock.close()
        await anyio.sleep(0.1)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(30):
            await bench.ask({"conversation": TALK})
        await until(lambda: not server.running)
        assert len(os.listdir("/proc/self/fd")) <= before
    assert bench.crashes == []


async def test_how_the_server_is(tmp_path):
    bench = Bench(tmp_path, [])
    async with bench.serving():
        (line,) = await bench.ask(b'{"sandbox_judge": {"ping": true}}', end="newline")
    assert line["ready"] is True
    assert line["memory_bytes"] > 1_000_000


async def test_other_users_are_refused(tmp_path):
    bench = Bench(tmp_path, [], allowed_uids=frozenset({os.geteuid() + 1}))
    async with bench.serving():
        (line,) = await anyio.to_thread.run_sync(lambda: ask(bench.path, {"conversation": TALK}))
    assert line["error"]["type"] == "not_allowed"


def spooled(bench):
    """The events that wait in the bench's spool for a reader."""
    spool = Spool(bench.folder / "state" / "spool")
    events = []
    for file in spool.leftovers():
        for event_id, sinks in file.waiting():
            assert sinks == {"reply"}
            events.append(json.loads(file.line(event_id).data))
        file.close()
    spool.close()
    return events

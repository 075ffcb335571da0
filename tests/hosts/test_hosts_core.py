"""The parts of the core: payloads, jobs, transcripts, Goose's database, and the tables of hosts."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.hosts.entry import job_of, main
from sandbox_judge.hosts.goose_store import is_database, read_session
from sandbox_judge.hosts.host import NAMES, WHENS, host_named
from sandbox_judge.hosts.jobs import FORGOTTEN_S, Jobs, key_of
from sandbox_judge.hosts.locate import holds, settled, transcript_of
from sandbox_judge.hosts.payload import Fired, payload_of, read_stream
from sandbox_judge.hosts.places import state_directory
from sandbox_judge.hosts.sweep import session_of
from sandbox_judge.paths import state_dir

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
NOWHERE = {"SANDBOX_JUDGE_STATE_DIR": "/dev/null/x"}
KEYS = ("session_id", "taskId", "transcript_path", "hook_event_name", "turn", "event", "cwd", "type")


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_any_payload_makes_a_job_or_none(payload):
    for name in ("claude-code", "cline", "cursor"):
        for when in WHENS:
            job = job_of(
                host_named(name), when, Fired(payload), {"SANDBOX_JUDGE_STATE_DIR": "/dev/null/x"}, now=1.0
            )
            assert job is None or json.loads(json.dumps(job)) == job


@given(st.binary(max_size=60))
def test_any_bytes_are_a_payload_or_none(data):
    assert payload_of(data) is None or isinstance(payload_of(data), dict)


def test_the_five_names_of_event_and_session(shared):
    expected = {
        "claude-code/stop_payload_constructed.json": ("Stop", "55604662-cf2a-4331-851a-ec234028f8ca"),
        "codex/notify_payload.json": ("agent-turn-complete", "b5f6c1c2-1111-2222-3333-444455556666"),
        "cline/agent_end_payload_constructed.json": ("agent_end", "conv-123"),
        "cursor/stop_payload_constructed_with_bom.json": ("stop", "cdefee2d-2727-4b73-bf77-d9d830f31d2a"),
        "gemini-cli/after_agent_payload_constructed.json": ("AfterAgent", "g1"),
        "goose/stop_payload_constructed.json": ("Stop", "20260803_1"),
        "openhands/stop_payload_constructed.json": ("Stop", "3f0c"),
    }
    for name, (event, session) in expected.items():
        fired = Fired(payload_of((shared / "data/hosts" / name).read_bytes()))
        assert (fired.event, fired.session) == (event, session)


def test_a_stream_that_stays_open_is_read_to_the_end_of_its_value():
    reader, writer = os.pipe()
    try:
        os.write(writer, b'\xef\xbb\xbf{"a": {"b": 1}')
        threading.Timer(0.1, os.write, (writer, b"}  \n")).start()
        started = time.monotonic()
        assert payload_of(read_stream(reader)) == {"a": {"b": 1}}
        assert time.monotonic() - started < 1
        started = time.monotonic()
        assert read_stream(reader, patience_s=0.2) == b""
        assert time.monotonic() - started < 1
    finally:
        os.close(reader)
        os.close(writer)


def test_each_table_is_complete():
    for name in NAMES:
        host = host_named(name)
        assert host.name == name
        assert host.ends or host.turns
        assert host.when in WHENS
        assert all(seconds > 1 for seconds in host.limits.values())
        for events in host.wiring.events.values():
            assert all(host.is_end(event) or host.is_turn(event) for event in events), name
    with pytest.raises(KeyError):
        host_named("../etc")


@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": "/home/u"},
        {"HOME": "/home/u", "XDG_STATE_HOME": "/x"},
        {"HOME": "/home/u", "XDG_STATE_HOME": "relative"},
        {"SANDBOX_JUDGE_STATE_DIR": "/s"},
        {},
        {"HOME": "relative"},
    ],
)
def test_the_state_folder_is_where_all_commands_have_it(environ):
    assert state_directory(environ) == str(state_dir(environ).path)


def job(fired=1.0, size=10, message="", turn="", not_before=0.0):
    return {
        "host": "h",
        "session": "s",
        "turn": "",
        "transcript": "/t",
        "last_message": message,
        "fired": fired,
        "not_before": not_before,
        "fingerprint": [size, message, turn],
        "attempts": 0,
    }


def test_double_fires_merge_and_later_ones_are_new(tmp_path):
    jobs = Jobs(str(tmp_path / "jobs"))
    key = key_of("h", "s", "")
    assert jobs.submit(key, job()) == "new"
    assert jobs.submit(key, job(fired=2.0)) == "merged"
    assert jobs.read(key)["fired"] == 1.0  # the same state: nothing changed
    held = jobs.claim(key)
    assert held is not None
    assert jobs.claim(key) is None
    assert jobs.finish(key, jobs.read(key), "exit 0", seen=("/t", 10))
    os.close(held)
    assert jobs.submit(key, job(fired=3.0)) == "done"
    assert jobs.submit(key, job(fired=4.0, size=11)) == "new"
    assert oct(os.stat(jobs.folder).st_mode)[-3:] == "700"


def test_a_job_that_was_fired_anew_while_it_was_worked_on_is_worked_again(tmp_path):
    jobs = Jobs(str(tmp_path / "jobs"))
    jobs.submit("k", job())
    taken = jobs.read("k")
    jobs.submit("k", job(fired=2.0, size=20))
    assert not jobs.finish("k", taken, "exit 0")
    assert jobs.read("k")["fingerprint"][0] == 20


def test_without_a_transcript_turns_are_told_apart(tmp_path):
    jobs = Jobs(str(tmp_path / "jobs"))
    jobs.submit("k", job(size=None, turn="1"))
    jobs.finish("k", jobs.read("k"), "exit 0")
    assert jobs.submit("k", job(fired=2.0, size=None, turn="1")) == "done"
    assert jobs.submit("k", job(fired=3.0, size=None, turn="2")) == "new"


def test_a_lock_that_cannot_be_had_costs_no_job(tmp_path):
    jobs = Jobs(str(tmp_path / "jobs"))
    held = jobs.claim("all")
    started = time.monotonic()
    assert jobs.submit("k", job()) == "new"
    assert time.monotonic() - started < 0.5
    os.close(held)
    assert jobs.waiting() == ["k"]


def test_a_spool_that_others_can_write_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(OSError, match="other users can write"):
        Jobs(str(tmp_path / "jobs"))
    tmp_path.chmod(0o700)


def test_torn_files_in_the_spool_are_no_jobs(tmp_path):
    jobs = Jobs(str(tmp_path / "jobs"))
    for name, text in (("a.job", "{"), ("b.job", "[]"), ("c.done", "nonsense")):
        (tmp_path / "jobs" / name).write_text(text)
    assert [jobs.read(key) for key in jobs.waiting()] == [None, None]
    assert jobs.done() == []
    assert jobs.forget(now=time.time() + 2 * FORGOTTEN_S) == 1


@pytest.mark.parametrize("session", ["../../etc/passwd", "", "*", ".hidden", "a/b", "x" * 300, "a\0b"])
def test_an_id_never_becomes_another_path(tmp_path, session):
    (tmp_path / ".claude/projects/p").mkdir(parents=True)
    (tmp_path / ".claude/projects/p/a.jsonl").write_text("{}")
    assert transcript_of(host_named("claude-code"), session, "", {"HOME": str(tmp_path)}) is None


def test_a_home_with_pattern_characters(tmp_path):
    home = tmp_path / "h[1]*"
    path = home / ".claude/projects/p/s1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    found = transcript_of(host_named("claude-code"), "s1", "", {"HOME": str(home)})
    assert found == str(path)
    moved = {"HOME": "/nowhere", "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    assert transcript_of(host_named("claude-code"), "s1", "", moved) == str(path)


def test_a_message_is_found_whatever_its_escapes_and_layout():
    assert holds(b'{"a": "caf\\u00e9  au\\nlait"}', "café au lait")
    assert holds(json.dumps({"x": ["deep", {"y": "said so"}]}, indent=2).encode(), "said so")
    assert not holds(b'{"a": "b"}\n{"half', "c")
    assert holds(b"anything", "")


def test_devices_and_pipes_are_no_transcripts(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="regular"):
        settled(str(tmp_path / "pipe"), "x", patience_s=0)


def test_sessions_are_named_by_their_files():
    assert session_of("/h/.claude/projects/p/abc.jsonl") == "abc"
    name = "/s/rollout-2026-08-03T10-48-56-0199c8be-3658-7ca3-9e29-000000000000.jsonl"
    assert session_of(name) == "0199c8be-3658-7ca3-9e29-000000000000"
    assert session_of("/h/.copilot/session-state/c1/events.jsonl") == "c1"
    assert session_of("/h/.pi/agent/sessions/x/2026-01-01T00-00-00_p1.jsonl") == "p1"


def goose_database(path, rows):
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT,"
        " role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT)"
    )
    for number, (role, content) in enumerate(rows):
        connection.execute(
            "INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES ('g1', ?, ?, ?)",
            (role, content if isinstance(content, str) else json.dumps(content), number),
        )
    connection.commit()
    connection.close()


def test_a_goose_session_is_read_from_its_database(tmp_path):
    path = str(tmp_path / "sessions.db")
    call = {"status": "success", "value": {"name": "developer__shell", "arguments": {"command": "ls"}}}
    found = {"status": "success", "value": [{"type": "text", "text": "a.txt"}]}
    failed = {"status": "error", "error": "no such tool"}
    goose_database(path, [
        ("user", [{"type": "text", "text": "list files"}]),
        ("assistant", [{"type": "thinking", "thinking": "hm"},
                       {"type": "toolRequest", "id": "1", "toolCall": call}]),
        ("user", [{"type": "toolResponse", "id": "1", "toolResult": found}]),
        ("assistant", [{"type": "toolRequest", "id": "2", "toolCall": {"status": "error", "error": "x"}}]),
        ("user", [{"type": "toolResponse", "id": "2", "toolResult": failed}]),
        ("assistant", [{"type": "text", "text": "One file."}, {"type": "novel", "x": 1}]),
        ("assistant", "not json"),
    ])  # fmt: skip
    assert is_database(path)
    talk = read_session(path, "g1")
    kinds = [type(entry).__name__ for entry in talk.entries]
    assert kinds == [
        "Message",
        "Message",
        "ToolCall",
        "ToolResult",
        "ToolCall",
        "ToolResult",
        "Message",
        "Message",
    ]
    assert talk.entries[2].args == {"command": "ls"}
    assert talk.entries[3].call == 3 and talk.entries[3].parts[0].text == "a.txt"
    assert talk.entries[5].status == "error"
    assert talk.missing_context() is None
    assert read_session(path, "other").missing_context() is not None


def test_a_database_of_another_shape_is_told(tmp_path):
    path = str(tmp_path / "sessions.db")
    sqlite3.connect(path).executescript("CREATE TABLE x (a)").close()
    with pytest.raises(ValueError, match="cannot be read"):
        read_session(path, "g1")


def test_the_entry_answers_whatever_it_is_called_with(tmp_path):
    environ = {"SANDBOX_JUDGE_STATE_DIR": str(tmp_path), "SANDBOX_JUDGE_SPOOL_ONLY": "1"}
    for name in (*NAMES, "nobody", ""):
        reader, writer = os.pipe()
        with open(os.devnull, "rb") as null:
            assert main([name, "--when", "", "{}"], environ, stdin=null.fileno(), stdout=writer) == 0
        os.close(writer)
        with open(reader, "rb") as said:
            assert said.read() == (host_named(name).answer if name in NAMES else b"")


def test_without_the_extra_hooks_work_all_the_same(stage):
    """tomlkit is for one host's configuration: a worker that needed it would judge nothing."""
    code = (
        "import sys; sys.modules['tomlkit'] = None\n"
        "from sandbox_judge.cli import hooks, hooks_install\n"
        "from sandbox_judge.errors import MissingExtra\n"
        "from sandbox_judge.hosts.notify import with_notify\n"
        "try: with_notify('', None, 'x', 'idle')\n"
        "except MissingExtra as error: print(error.remedy)\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert "[hosts]" in done.stdout, done.stderr


@pytest.mark.parametrize("key", ["../../etc/passwd", "/etc/passwd", "a.b", ""])
def test_a_job_is_never_another_file(stage, key):
    assert stage.hooks("work", key) == ""
    assert "is no job" in stage.log()

"""Each host plays itself from its recordings: it is not held, hears nothing, and the judgement arrives."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from hosts.host_stage import ROOT

from sandbox_judge.hosts.host import host_named
from sandbox_judge.hosts.shim import shim_text

# host: (payload, transcript, where the host keeps it, arguments)
SID = "0199c8be-3658-7ca3-9e29-000000000000"
PLAYS = {
    "claude-code": (
        "claude-code/session_end_payload_constructed.json",
        "claude-code/simonw_sample_session.jsonl",
        ".claude/projects/-tmp-repo/s1.jsonl",
    ),
    "codex": (
        "codex/session_end_payload_constructed.json",
        "codex/rollout_fc_args_2.jsonl",
        f".codex/sessions/2026/08/03/rollout-2026-08-03T10-48-56-{SID}.jsonl",
    ),
    "gemini-cli": (
        "gemini-cli/session_end_payload.json",
        "gemini-cli/agent-sessions/small.json",
        ".gemini/tmp/p/chats/session-2026-04-29T21-39-test-ses.json",
    ),
    "copilot": (
        {"session_id": "c1", "hook_event_name": "SessionEnd", "cwd": "/tmp"},
        "copilot/agent-sessions/small.jsonl",
        ".copilot/session-state/c1/events.jsonl",
    ),
    "cline": (
        {"hookName": "TaskComplete", "taskId": "t1", "taskComplete": {}},
        None,
        ".cline/data/tasks/t1/api_conversation_history.json",
    ),
    "pi": (
        {"event": "session_shutdown", "session_id": "p1"},
        "pi/agent-sessions/small.jsonl",
        ".pi/agent/sessions/--tmp--/2026-01-01T00-00-00_p1.jsonl",
    ),
}
TALK = [{"role": "user", "content": [{"type": "text", "text": "<task>\nhello\n</task>"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}]  # fmt: skip


def payload_of(shared, source):
    if isinstance(source, dict):
        return source
    return json.loads((shared / "data/hosts" / source).read_text("utf-8-sig"))


def placed(stage, shared, host):
    """The host's payload, with its transcript where the host keeps it."""
    source, transcript, below = PLAYS[host]
    payload = payload_of(shared, source)
    path = stage.home / below
    path.parent.mkdir(parents=True, exist_ok=True)
    if transcript is None:
        path.write_text(json.dumps(TALK))
    else:
        shutil.copy(shared / "data/hosts" / transcript, path)
    if payload.get("transcript_path"):
        payload["transcript_path"] = str(path)
    return payload, path


def shim_of(stage, host):
    """The shim of a host without one in hooks/: as `hooks install` writes it."""
    path = ROOT / "hooks" / host
    if not path.exists():
        path = stage.folder / host
        path.write_text(shim_text(host_named(host), python=sys.executable))
        path.chmod(0o755)
    return path


@pytest.mark.parametrize("host", PLAYS)
def test_a_session_ends_and_is_judged(stage, shared, host):
    payload, _ = placed(stage, shared, host)
    code, out, err, took = stage.fire(host, payload, shim=shim_of(stage, host))
    assert (code, out, err) == (0, host_named(host).answer, b"")
    assert took < 2
    (event,) = stage.events()
    assert event["payload"]["result"] == "pass"
    assert event["conversation_id"] == (payload.get("session_id") or payload["taskId"])
    assert event["payload"]["conversation_id_source"] == "given"
    assert event["recipe_git_commit_sha"] == stage.commit


def test_codex_notify_is_the_last_argument_and_meets_the_hook(stage, shared):
    payload = json.loads((shared / "data/hosts/codex/notify_payload.json").read_text())
    below = f".codex/sessions/2026/08/03/rollout-2026-08-03T10-48-56-{payload['thread-id']}.jsonl"
    stage.transcript(shared / "data/hosts/codex/rollout_fc_args_2.jsonl", below)
    words = ("--each-turn", json.dumps(payload))
    code, out, err, _ = stage.fire("codex-notify", None, *words, close=False)
    assert (code, out, err) == (0, b"", b"")
    hook = {"session_id": payload["thread-id"], "turn_id": payload["turn-id"], "hook_event_name": "Stop",
            "last_assistant_message": payload["last-assistant-message"]}  # fmt: skip
    stage.fire("codex", hook, "--each-turn")
    events = stage.events()
    assert len({event["payload"]["judgement_id"] for event in events}) == 1
    assert len(stage.jobs("done")) == 1


def test_cursor_passes_a_byte_order_mark_and_has_no_transcript(stage, shared):
    data = (shared / "data/hosts/cursor/stop_payload_constructed_with_bom.json").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")
    assert stage.fire("cursor", data, "--each-turn")[:3] == (0, b"{}\n", b"")
    # The same turn again, through Claude Code's hook, which Cursor runs too.
    assert stage.fire("claude-code", data, "--each-turn")[:3] == (0, b"", b"")
    (event,) = stage.events()
    assert event["payload"]["result"] is None
    assert event["payload"]["error"]["type"] == "missing_context"
    assert len(stage.jobs("done")) == 1


def test_openhands_keeps_one_file_an_event(stage, shared):
    rows = (shared / "data/hosts/openhands/goal_events_head.jsonl").read_text().splitlines()
    folder = stage.home / ".openhands/conversations/3f0c/events"
    folder.mkdir(parents=True)
    for number, row in enumerate(rows):
        (folder / f"event-{number:05}-x.json").write_text(row)
    payload = json.loads((shared / "data/hosts/openhands/stop_payload_constructed.json").read_text())
    assert stage.fire("openhands", payload)[:3] == (0, b"", b"")
    (event,) = stage.events()
    assert event["payload"]["result"] == "pass"


def test_a_transcript_that_lags_gets_the_payloads_message(stage, shared, model):
    payload, _path = placed(stage, shared, "claude-code")
    payload |= {"hook_event_name": "Stop", "last_assistant_message": "The very last word."}
    stage.fire("claude-code", payload, "--each-turn")
    stage.events()
    assert "The very last word." in json.dumps(model.requests[-1].json)


def test_a_transcript_that_settles_in_time_is_read_whole(stage, shared, model):
    payload, path = placed(stage, shared, "claude-code")
    payload |= {"hook_event_name": "Stop", "last_assistant_message": "Settled at last."}
    said = {"role": "assistant", "content": [{"type": "text", "text": "Settled at last."}]}
    row = {"type": "assistant", "uuid": "u9", "sessionId": "s1", "message": said}
    stage.fire("claude-code", payload, "--each-turn")
    time.sleep(0.3)
    with open(path, "ab") as file:
        file.write(b"\n" + json.dumps(row).encode()[:20])
        file.flush()
        time.sleep(0.1)
        file.write(json.dumps(row).encode()[20:] + b'\n{"type": "half a li')
    stage.events()
    assert json.dumps(model.requests[-1].json).count("Settled at last.") == 1


def test_firing_twice_is_judged_once(stage, shared, model):
    payload, _ = placed(stage, shared, "gemini-cli")
    before = len(model.requests)
    for _ in range(3):
        assert stage.fire("gemini-cli", payload)[:3] == (0, b"{}\n", b"")
    stage.events()
    assert stage.fire("gemini-cli", payload)[:3] == (0, b"{}\n", b"")
    time.sleep(0.5)
    assert len(stage.events()) == 1
    assert len(model.requests) - before == 1


def test_a_session_that_went_on_is_judged_anew(stage, shared):
    payload, path = placed(stage, shared, "claude-code")
    stage.fire("claude-code", payload)
    stage.events()
    row = {
        "type": "user",
        "uuid": "u9",
        "sessionId": "s1",
        "message": {"role": "user", "content": "and now?"},
    }
    with open(path, "ab") as file:
        file.write(b"\n" + json.dumps(row).encode() + b"\n")
    stage.fire("claude-code", payload)
    ids = {event["payload"]["judgement_id"] for event in stage.events(at_least=2)}
    assert len(ids) == 2


def test_stdin_that_stays_open_holds_nobody(stage, shared):
    payload, _ = placed(stage, shared, "claude-code")
    code, out, err, took = stage.fire("claude-code", payload, close=False)
    assert (code, out, err) == (0, b"", b"")
    assert took < 1.5
    stage.events()


def test_a_stripped_environment(stage, shared):
    """No PATH, no HOME, no variable of ours: what was installed has them."""
    payload, path = placed(stage, shared, "gemini-cli")
    payload["transcript_path"] = str(path)
    stage.hooks("install", "gemini-cli", "--recipe", stage.recipe)
    shim = stage.home / ".local/share/sandbox-judge/hooks/gemini-cli"
    assert stage.fire("gemini-cli", payload, environ={}, shim=shim)[:3] == (0, b"{}\n", b"")
    (event,) = stage.events()
    assert event["payload"]["result"] == "pass"


def test_a_folder_full_of_hostile_modules(stage, shared):
    payload, _ = placed(stage, shared, "claude-code")
    trap = f"open({str(stage.folder / 'RAN')!r}, 'w').close()"
    for name in ("json", "os", "select", "hashlib", "sandbox_judge", "sitecustomize", "yaml", "msgspec"):
        (stage.cwd / f"{name}.py").write_text(trap)
    stage.environ |= {"PYTHONPATH": str(stage.cwd), "PYTHONSTARTUP": str(stage.cwd / "os.py")}
    stage.fire("claude-code", payload)
    stage.events()
    assert not (stage.folder / "RAN").exists()


@pytest.mark.parametrize("host", ["claude-code", "gemini-cli", "codex-notify"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe{}",
        b'{"session_id": 3}',
        b"[" * 99_999,
        b'{"session_id": "\\ud800"}',
    ],
)
def test_whatever_comes_the_host_gets_its_answer(tmp_path_factory, host, data):
    folder = tmp_path_factory.mktemp("state")
    environ = {
        "SANDBOX_JUDGE_PYTHON": sys.executable,
        "SANDBOX_JUDGE_STATE_DIR": str(folder),
        "SANDBOX_JUDGE_SPOOL_ONLY": "1",
    }
    words = [str(ROOT / "hooks" / host), "--no-such-flag"]
    done = subprocess.run(words, input=data, env=environ, cwd=folder, capture_output=True, timeout=10)
    assert (done.returncode, done.stdout, done.stderr) == (0, host_named(host).answer, b"")


@pytest.mark.parametrize("host", ["gemini-cli", "claude-code"])
def test_without_python_the_host_gets_its_answer(stage, host):
    stage.environ["SANDBOX_JUDGE_PYTHON"] = "/nowhere/python"
    assert stage.fire(host, {"session_id": "s"})[:3] == (0, host_named(host).answer, b"")


def test_an_unwritable_spool_is_one_line_in_the_log(stage, shared, tmp_path_factory):
    payload, _ = placed(stage, shared, "gemini-cli")
    taken = tmp_path_factory.mktemp("taken") / "file"
    taken.write_text("")
    stage.environ["SANDBOX_JUDGE_STATE_DIR"] = str(taken / "state")
    makeshift = f"/tmp/sandbox-judge-{os.geteuid()}/state/hooks.log"
    before = os.path.getsize(makeshift) if os.path.exists(makeshift) else 0
    assert stage.fire("gemini-cli", payload)[:3] == (0, b"{}\n", b"")
    with open(makeshift) as file:
        file.seek(before)
        lines = [line for line in file if str(taken) in line or "cannot be" in line or "directory" in line]
    assert len(lines) == 1


def test_a_hook_under_a_judge_exits_at_once(stage, shared):
    payload, _ = placed(stage, shared, "claude-code")
    stage.environ["SANDBOX_JUDGE_ACTIVE"] = "1"
    assert stage.fire("claude-code", payload)[:3] == (0, b"", b"")
    assert not stage.state.exists()


def test_in_ci_it_is_done_before_the_hook_returns(stage, shared):
    payload, _ = placed(stage, shared, "claude-code")
    stage.environ["CI"] = "true"
    code, out, err, _ = stage.fire("claude-code", payload)
    assert (code, out, err) == (0, b"", b"")
    assert len(stage.events(seconds=0)) == 1


def test_a_worker_that_was_killed_is_taken_up_by_the_sweeper(stage, shared):
    payload, _ = placed(stage, shared, "claude-code")
    stage.environ["SANDBOX_JUDGE_SPOOL_ONLY"] = "1"
    stage.fire("claude-code", payload)
    assert len(stage.jobs("job")) == 1
    assert "1 jobs done" in stage.hooks("sweep")
    assert len(stage.events(seconds=0)) == 1
    assert not stage.jobs("job")


def test_the_resident_runner_takes_up_what_was_left(stage, shared):
    """As a sidecar does for a hook that only spools, in a container without keys."""
    payload, _ = placed(stage, shared, "claude-code")
    sink = stage.folder / "events.jsonl"
    words = (
        "serve",
        "--listen",
        stage.folder / "s",
        "--recipe",
        stage.recipe,
        "--sink",
        f"file:{sink}",
        "-q",
    )
    command = [sys.executable, "-I", "-m", "sandbox_judge", *map(str, words)]
    with subprocess.Popen(command, env=stage.environ, stderr=subprocess.PIPE) as server:
        try:
            stage.fire("claude-code", payload, environ=stage.environ | {"SANDBOX_JUDGE_SPOOL_ONLY": "1"})
            assert len(stage.jobs("job")) == 1
            (event,) = stage.events()
            assert not stage.jobs("job")
        finally:
            server.terminate()
            told = server.stderr.read()
    assert server.returncode == 0, told
    kept = [json.loads(line)["id"] for line in sink.read_bytes().splitlines()]
    assert event["id"] in kept  # the runner's own sink has it, under the same id


def test_a_confined_job_names_its_conversation_alone(stage, shared):
    """The agent shares its spool with a runner that has the keys: it must not choose where they go."""
    payload, path = placed(stage, shared, "claude-code")
    evil = stage.folder / "evil.json"
    evil.write_text("{}")
    spooling = stage.environ | {"SANDBOX_JUDGE_SPOOL_ONLY": "1", "SANDBOX_JUDGE_SETTINGS": str(evil),
                                "SANDBOX_JUDGE_SINK": f"file:{stage.folder}/stolen"}  # fmt: skip
    stage.fire("claude-code", payload, environ=spooling)
    outside = stage.folder / "secret.jsonl"
    outside.write_bytes(path.read_bytes())
    link = stage.home / "link.jsonl"
    link.symlink_to(outside)
    for number, place in enumerate((outside, link)):
        other = payload | {"session_id": f"o{number}", "transcript_path": str(place)}
        stage.fire("claude-code", other, environ=spooling)
    assert "3 jobs done" in stage.hooks("sweep", "--confined")
    (event,) = stage.events(seconds=0)
    assert event["payload"]["result"] == "pass"  # by the runner's own settings
    assert not (stage.folder / "stolen").exists()
    assert len(stage.jobs("failed")) == 2


def test_sessions_that_no_event_told_of_are_found_once(stage, shared):
    _, path = placed(stage, shared, "claude-code")
    assert "0 jobs done" in stage.hooks("sweep", "claude-code")
    old = time.time() - 3600
    os.utime(path, (old, old))
    assert "1 jobs done, 1 of them" in stage.hooks("sweep", "claude-code")
    assert stage.events(seconds=0)[0]["conversation_id"] == "s1"
    assert "0 jobs done" in stage.hooks("sweep", "claude-code")


def test_idle_sessions_are_judged_once_they_rest(stage, shared, model):
    payload, _path = placed(stage, shared, "claude-code")
    payload |= {"hook_event_name": "Stop", "turn_id": "1"}
    stage.environ |= {"SANDBOX_JUDGE_IDLE_SECONDS": "1"}
    before = len(model.requests)
    for turn in range(3):
        stage.fire("claude-code", payload | {"turn_id": str(turn)}, "--when", "idle")
    assert len(model.requests) == before
    assert len(stage.events()) == 1


def test_a_transcript_that_is_gone_is_missing_context(stage):
    payload = {"session_id": "gone", "transcript_path": "/nowhere/t.jsonl", "hook_event_name": "SessionEnd"}
    stage.fire("claude-code", payload)
    (event,) = stage.events()
    assert event["payload"]["error"]["type"] == "missing_context"


def test_what_is_no_conversation_is_kept_as_failed(stage):
    path = stage.home / "t.jsonl"
    path.write_text('{"neither": "nor"}')
    stage.fire(
        "claude-code", {"session_id": "s", "transcript_path": str(path), "hook_event_name": "SessionEnd"}
    )
    end = time.monotonic() + 10
    while not stage.jobs("failed") and time.monotonic() < end:
        time.sleep(0.02)
    assert stage.jobs("failed")
    assert "format is not known" in stage.log()


def test_shipped_shims_are_what_the_generator_makes():
    for path in (ROOT / "hooks").iterdir():
        if path.name != "post-completion":
            assert path.read_text() == shim_text(host_named(path.name)), path.name
            assert os.access(path, os.X_OK)


def test_the_hook_holds_its_host_for_a_moment_only(stage, shared):
    """Against an empty hook of the same shape, side by side; the median, for the suite shares its machine."""
    payload, _ = placed(stage, shared, "claude-code")
    empty = stage.folder / "empty"
    empty.write_text("#!/bin/sh\nexit 0\n")
    empty.chmod(0o755)
    stage.environ["SANDBOX_JUDGE_SPOOL_ONLY"] = "1"
    over = sorted(
        stage.fire("claude-code", payload | {"session_id": f"s{n}"})[3]
        - stage.fire("x", payload, shim=empty)[3]
        for n in range(15)
    )
    assert over[7] < 0.15

"""`run` as a user meets it: a real repository, a scripted model over HTTP, exit codes and streams."""

import hashlib
import json
import subprocess
import time
from pathlib import Path

import pytest
from recipes import committed, judge_text
from surfaces import run_main

from sandbox_judge.testing.answers import chat, error, verdict
from sandbox_judge.testing.model_server import ModelServer

TALK = [{"role": "user", "content": "I want a refund"}, {"role": "assistant", "content": "Done."}]
FIXTURE = Path(__file__).parent.parent.parent / "recipe_fixture"


class Shop:
    """A committed recipe, settings that point to a scripted model, and a conversation."""

    def __init__(self, folder, url):
        self.folder = folder
        self.recipe = folder / "recipe"
        self.commit = committed(
            self.recipe,
            {
                "judges/tone.yaml": judge_text("tone"),
                "judges/refunds.yaml": judge_text(
                    "refunds", on="  - {event: message, match: {role: user, text: /refund/i}}\n"
                ),
                "judges/tools.yaml": judge_text("tools", on="  - event: tool\n"),
                "package.json": '{"name": "shop"}',
            },
        )
        self.settings = folder / "settings.json"
        self.settings.write_text(json.dumps({"providers": {"openai": {"base_url": url}}}))
        self.talk = folder / "talk.json"
        self.talk.write_text(json.dumps(TALK))
        self.environ = {
            "OPENAI_API_KEY": "sk-canary-0123456789abcdef",
            "SANDBOX_JUDGE_STATE_DIR": str(folder / "state"),
            "SANDBOX_JUDGE_CONFIG_DIR": str(folder / "config"),
            "PATH": "/usr/bin:/bin:/usr/local/bin",
        }

    def run(self, *more, talk=None, commit=None, **options):
        words = ["--recipe", self.recipe, "--settings", self.settings, "--insecure"]
        if commit is not False:
            words += ["--commit", commit or self.commit]
        conversation = [] if "stdin" in options else [talk or self.talk]
        return run_main("run", *conversation, *words, *more, environ=self.environ, cwd=self.folder, **options)


@pytest.fixture
def server():
    with ModelServer(verdict("pass")) as model:
        yield model


@pytest.fixture
def shop(tmp_path, server):
    return Shop(tmp_path, server.base_url)


def events(done):
    return [json.loads(line) for line in done.lines]


def test_one_event_a_line_for_each_judge_that_applies(shop, server):
    done = shop.run()
    assert done.code == 0, done.err
    assert {e["payload"]["judge_name"]: e["payload"]["result"] for e in events(done)} == {
        "tone": "pass",
        "refunds": "pass",
    }
    assert "3 judges: 2 pass, 1 not applicable by their gates" in done.err
    assert len(server.requests) == 2


def test_the_hash_is_that_of_the_bytes_at_the_commit(shop):
    (shop.recipe / "judges/tone.yaml").write_text("broken: [")
    for event in events(shop.run()):
        path = f"{shop.commit}:judges/{event['payload']['judge_name']}.yaml"
        shown = subprocess.run(["git", "-C", shop.recipe, "show", path], capture_output=True, check=True)
        assert event["payload"]["definition_hash"] == f"sha256:{hashlib.sha256(shown.stdout).hexdigest()}"
        assert event["recipe_git_commit_sha"] == shop.commit


def test_the_conversation_comes_on_stdin_bare_or_in_an_envelope(shop):
    assert len(events(shop.run(stdin=json.dumps(TALK).encode()))) == 2
    envelope = {
        "conversation": TALK,
        "conversation_id": "c-1",
        "environment": "staging",
        "service_name": "shop",
        "recipe": {"path": str(shop.recipe), "commit": shop.commit},
        "colour": "blue",
    }
    done = run_main(
        "run", "--settings", shop.settings, "--insecure",
        stdin=json.dumps(envelope).encode(), environ=shop.environ,
    )  # fmt: skip
    assert [(e["conversation_id"], e["environment"]) for e in events(done)] == [("c-1", "staging")] * 2
    assert "colour" in done.err


def test_no_command_and_a_document_on_stdin_is_run(shop):
    environ = {
        **shop.environ,
        "SANDBOX_JUDGE_RECIPE": str(shop.recipe),
        "SANDBOX_JUDGE_COMMIT": shop.commit,
        "SANDBOX_JUDGE_SETTINGS": str(shop.settings),
        "SANDBOX_JUDGE_INSECURE": "1",
        "SANDBOX_JUDGE_ENVIRONMENT": "development",
    }
    done = run_main(stdin=json.dumps(TALK).encode(), environ=environ)
    assert len(events(done)) == 2, done.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--commit", "0" * 40], "0" * 40),
        (["--commit", "HEAD"], "HEAD"),
        (["--recipe", "/no/such/recipe"], "/no/such/recipe"),
        (["--environment", "prod"], "prod"),
        (["--sink", "carrier-pigeon:x"], "carrier-pigeon"),
        (["--sink", "file:/no/such/folder/events"], "/no/such/folder"),
        (["--judge", "nobody"], "nobody"),
        (["--redact", "everything"], "everything"),
        (["--concurrency", "0"], "--concurrency"),
        (["--model", "/x", "--dry-run"], "--model"),
        (["--budget", "nan"], "--budget"),
        (["--feedback", "{"], "--feedback"),
    ],
)
def test_bad_input_is_one_paragraph_that_names_it(shop, server, words, named):
    commit = False if "--commit" in words else None
    done = shop.run(*words, commit=commit)
    assert done.code == 2
    assert done.out == ""
    assert named in done.err
    assert "Traceback" not in done.err
    assert server.requests == []


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "empty"),
        (b"not json", "JSON"),
        (b'{"wombat": 1}', "wombat"),
        (b'[{"role": "user", "content": "hi"}', ""),
    ],
)
def test_a_conversation_that_cannot_be_read_is_named(shop, content, named):
    shop.talk.write_bytes(content)
    done = shop.run()
    assert (done.code, done.out) == (2, "")
    assert named in done.err


def test_settings_with_an_unknown_key_stop_before_any_call(shop, server):
    shop.settings.write_text('{"recipes": {"shop": {"judges": {"tone": {"treshold": 1}}}}}')
    done = shop.run()
    assert done.code == 2
    assert "treshold" in done.err
    assert server.requests == []


def test_settings_that_others_can_write_are_refused(shop, server):
    shop.settings.chmod(0o666)
    done = run_main(
        "run", shop.talk, "--recipe", shop.recipe, "--commit", shop.commit, "--settings", shop.settings,
        environ=shop.environ,
    )  # fmt: skip
    assert done.code == 2
    assert server.requests == []


def test_an_empty_conversation_is_a_null_for_each_judge_that_applies(shop, server):
    shop.talk.write_text("[]")
    (event,) = events(shop.run())
    assert event["payload"]["error"]["type"] == "missing_context"
    assert server.requests == []


def test_a_recipe_without_judges_is_nothing_to_do(tmp_path, server):
    shop = Shop(tmp_path / "a", server.base_url)
    shop.commit = committed(tmp_path / "bare", {"README": "x"})
    shop.recipe = tmp_path / "bare"
    done = shop.run("--report", "json")
    assert (done.code, done.out) == (0, "")
    assert "no judges/" in done.err
    assert json.loads(done.err.splitlines()[-1])["judges"] == []


def test_explain_calls_no_model_and_prints_the_ledger(shop, server):
    done = shop.run("--explain", commit="HEAD")
    ledger = json.loads(done.out)
    assert ledger["counts"] == {"would_run": 2, "gate_miss": 1}
    assert ledger["recipe_git_commit_sha"] == shop.commit
    assert server.requests == []


def test_a_dry_run_takes_any_revision_and_marks_its_events(shop):
    done = shop.run("--dry-run", commit="HEAD")
    assert {e["payload"]["dry_run"] for e in events(done)} == {True}
    assert {e["recipe_git_commit_sha"] for e in events(done)} == {shop.commit}
    done = shop.run("--worktree", commit=False)
    assert all("recipe_git_commit_sha" not in e for e in events(done))
    assert not (shop.folder / "state").exists()


def test_a_dry_run_sends_nothing_to_a_collector(shop):
    assert shop.run("--dry-run", "--sink", f"unix:{shop.folder}/sock").code == 2


def test_fail_on(shop, server):
    assert shop.run("--fail-on", "any").code == 0
    with ModelServer(verdict("fail")) as failing:
        shop.settings.write_text(json.dumps({"providers": {"openai": {"base_url": failing.base_url}}}))
        assert shop.run("--fail-on", "fail").code == 1
        assert shop.run("--fail-on", "null").code == 0
        assert shop.run().code == 0
    with ModelServer(error(500)) as broken:
        shop.settings.write_text(json.dumps({"providers": {"openai": {"base_url": broken.base_url}}}))
        done = shop.run("--fail-on", "any")
        assert done.code == 4
        assert "provider_error" in done.err


def test_redaction_leaves_words_out(shop):
    said = json.dumps(
        {"reasoning": "a private word", "evidence": [{"entry": 1, "quote": "refund"}], "verdict": "pass"}
    )
    with ModelServer(chat(said)) as server:
        shop.settings.write_text(json.dumps({"providers": {"openai": {"base_url": server.base_url}}}))
        assert "a private word" in shop.run().out
        done = shop.run("--redact", "reasoning,evidence")
    assert "a private word" not in done.out
    assert all("evidence" not in e["payload"] for e in events(done))


def test_the_report_goes_where_it_is_asked_to_go(shop):
    done = shop.run("--report", "json", "--report-file", "ledger.json")
    written = json.loads((shop.folder / "ledger.json").read_text())
    assert json.loads(done.err.splitlines()[-1]) == written
    assert written["counts"] == {"verdict": 2, "gate_miss": 1}
    assert shop.run("--report-file", "/no/such/folder/x").code == 2


def test_text_output_tells_a_person_and_holds_no_event(shop):
    done = shop.run("-o", "text", "--dry-run")
    assert "tone: PASS" in done.out
    assert "refunds: PASS" in done.out
    assert "tools: does not apply" in done.out
    assert "introspection.judgement" not in done.out


def test_several_conversations_want_a_choice(shop):
    shop.talk.write_text(json.dumps([{"traj": TALK, "task_id": 1}, {"traj": TALK[:1], "task_id": 2}]))
    done = shop.run()
    assert done.code == 2
    assert "--all" in done.err
    done = shop.run("--all")
    assert len(events(done)) == 4
    assert len({e["conversation_id"] for e in events(done)}) == 2
    assert len(events(shop.run("--id", "#2"))) == 2


def test_a_key_is_nowhere(shop):
    done = shop.run("-vv", "--report", "json")
    assert shop.environ["OPENAI_API_KEY"] not in done.out + done.err


def test_switched_off_is_said_once(shop, server):
    shop.environ["SANDBOX_JUDGE_DISABLED"] = "1"
    done = shop.run()
    assert (done.code, done.out, server.requests) == (0, "", [])
    assert len(done.err.splitlines()) == 1


def test_a_sink_beside_stdout_gets_the_ledger_too(shop):
    done = shop.run("--sink", "stdout", "--sink", "file:events.jsonl")
    kept = [json.loads(line) for line in (shop.folder / "events.jsonl").read_text().splitlines()]
    assert [e["event_name"] for e in kept] == ["introspection.judgement"] * 2 + ["sandbox_judge.ledger"]
    assert len(done.lines) == 2


def test_the_fixture_recipe_runs_on_every_fixture_conversation(tmp_path, server):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"providers": {"openai": {"base_url": server.base_url}}}))
    applied = set()
    for talk in sorted((FIXTURE / "conversations").iterdir()):
        done = run_main(
            "run", talk, "--recipe", FIXTURE, "--worktree", "--settings", settings, "--insecure",
            environ={"OPENAI_API_KEY": "k" * 12, "SANDBOX_JUDGE_CONFIG_DIR": str(tmp_path)},
        )  # fmt: skip
        assert done.code == 0, done.err
        applied |= {e["payload"]["judge_name"] for e in events(done)}
    assert applied == {path.stem for path in (FIXTURE / "judges").glob("*.yaml")}


def test_the_budget_counts_from_the_start_of_the_process(shop, server):
    nulls = [
        event["payload"]["error"]["type"] for event in events(shop.run(started_at=time.monotonic() - 3600))
    ]
    assert set(nulls) <= {"budget_exhausted", "gate_timeout"}
    assert len(nulls) == 3
    assert server.requests == []

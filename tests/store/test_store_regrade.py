"""A regrade: kept conversations under an edited rubric, beside what was, with how the verdicts moved."""

import json
import subprocess
from pathlib import Path

import pytest
from made_events import START, event, incoming, uid
from recipes import committed, judge_text
from test_store_reading import command

from sandbox_judge.canonical import canonical_json, sha256
from sandbox_judge.conversation.model import Conversation, Message, Text
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.grading.view import build_view
from sandbox_judge.store.conversations import kept_in
from sandbox_judge.store.database import open_database
from sandbox_judge.store.ingest import Ingest
from sandbox_judge.store.migrate import bring_up_to_date
from sandbox_judge.store.records import KeptConversation
from sandbox_judge.store.regrading import moved
from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer


def conversation(text: str) -> Conversation:
    return Conversation(
        schema="sandbox_judge.conversation/1",
        source_format="openai_chat",
        status="completed",
        warnings=(),
        entries=(
            Message(n=1, role="user", parts=(Text(text=text),)),
            Message(n=2, role="assistant", parts=(Text(text="Done."),)),
        ),
    )


def test_a_regrade_stands_beside_what_was(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe"
    old_text, same = judge_text("tone"), judge_text("same")
    files = {"judges/tone.yaml": old_text, "judges/same.yaml": same, "package.json": '{"name": "shop"}'}
    old = committed(recipe, files)
    new = committed(recipe, {**files, "judges/tone.yaml": old_text.replace("Judge by", "Judge strictly by")})
    assert old != new
    store = str(tmp_path / "store.db")
    database = open_database(store, write=True)
    bring_up_to_date(database)
    kept = kept_in(tmp_path / "kept")
    given = []
    for n in range(3):
        view = build_view(conversation(f"question {n}"))
        for name, text in (("tone", old_text), ("same", same)):
            one = event(
                "pass", judge=name, conversation=f"c{n}", at=START + n,
                envelope={"recipe_git_commit_sha": old, "experiment_id": uid("x")},
                judge_id=uid("judge", "shop", name), recipe_id="shop", sequence_hash=view.sequence_hash,
                definition_hash=sha256(text.encode()), labels={"experiment_id": "spring"},
                grading_key=uid("g", n, name), judgement_id=uid("j", n, name),
            )  # fmt: skip
            given.append(incoming(one))
        if n < 2:
            body = canonical_json(conversation(f"question {n}"))
            kept.keep([KeptConversation(ack="", sequence_hash=view.sequence_hash, body=body)])
    Ingest(database).store(given)
    environ = {
        "OPENAI_API_KEY": "sk-none",
        "SANDBOX_JUDGE_STATE_DIR": str(tmp_path / "state"),
        "SANDBOX_JUDGE_CONFIG_DIR": str(tmp_path / "config"),
        "PATH": "/usr/bin:/bin",
    }
    with ModelServer(verdict("fail")) as server:
        settings = {"providers": {"openai": {"base_url": server.base_url}}}
        (tmp_path / "settings.json").write_text(json.dumps(settings))
        words = ["--conversations", "kept", "--recipe", "recipe", "--settings", "settings.json", "--insecure"]

        def regrade(commit: str, *more: str):  # type: ignore[no-untyped-def]
            return command(
                "regrade", "--commit", commit, *words, *more, store=store, cwd=tmp_path, environ=environ
            )

        with pytest.raises(InputError, match="nothing to grade again"):
            regrade(old)
        said = regrade(new, "-o", "json")
        assert len(server.requests) == 2, "one call for each conversation that is kept, of the edited judge"
        assert "Judge strictly by tone" in json.dumps(server.requests[0].json)
        text = regrade(new).text
        # The same by files: a view that the store knows, one that it does not, and an id of the platform's.
        for n in (0, 1, 2, 9):
            (tmp_path / f"{n}.json").write_bytes(canonical_json(conversation(f"question {n}")))
        words = words[2:]
        by_file = regrade(new, "0.json", "2.json", "9.json", "-o", "json")
        assert by_file.json["judges"][0]["n"] == 2 and by_file.json["not_kept"] == 0
        assert "1 of the given conversations were never judged so" in by_file.err
        with pytest.raises(UsageError, match="exclude"):
            regrade(new, "0.json", "--conversations", "kept")
        with pytest.raises(UsageError, match="no conversations"):
            regrade(new)
        with pytest.raises(InputError, match="cannot be read"):
            regrade(new, "absent.json")
        with pytest.raises(InputError, match="nothing to grade again"):
            regrade(new, "9.json")
    assert said.json["not_kept"] == 1
    (tone,) = said.json["judges"]
    assert (tone["judge"], tone["n"], tone["pairs"]) == ("tone", 2, {"pass": {"fail": 2}})
    assert tone["p"] == 0.5
    assert "2 of 2 changed" in text
    listed = command("judgements", "tone", "--regrades", "-o", "jsonl", store=store, cwd=tmp_path)
    events = [json.loads(row) for row in listed.out.splitlines()]
    regrades = [one for one in events if one["payload"].get("regrade")]
    assert len(events) == 6 and len(regrades) == 3, "given twice, stored once"
    for one in regrades:
        assert one["recipe_git_commit_sha"] == old, "the agent's own commit"
        assert one["payload"]["judge_git_commit_sha"] == new
        assert one["payload"]["labels"]["experiment_id"] == "spring"
        assert (one["service_name"], one["environment"]) == ("desk", "production")
    trend = command("trend", "tone", "-o", "json", store=store, cwd=tmp_path).json["lines"][0]
    assert [point["pass"] for point in trend["segments"][0]["points"]] == [3]
    assert len(trend["segments"]) == 1
    database.close()
    assert subprocess.run(["git", "-C", recipe, "status", "--porcelain"], capture_output=True).stdout == b""


def test_how_verdicts_moved() -> None:
    pairs = [("a", "pass", "fail")] * 9 + [("b", "fail", "pass")] + [("c", "pass", "pass")] * 5
    one = moved("tone", [*pairs, ("d", "pass", None)])
    assert (one.n, one.nulls, len(one.changed)) == (15, 1, 10)
    assert one.p == pytest.approx(0.0215, abs=1e-4)
    assert moved("tone", []).p == 1.0

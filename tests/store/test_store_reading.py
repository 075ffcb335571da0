"""Trends, comparisons, guards and experiments as the commands give them, out of a real store."""

import argparse
import csv
import io
import json
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from made_events import DAY, START, commit, event, incoming, line, sha, uid
from recipes import committed, judge_text

from sandbox_judge.canonical import sha256
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, RecipeError, UsageError
from sandbox_judge.store.database import Database, open_database
from sandbox_judge.store.ingest import Ingest
from sandbox_judge.store.migrate import bring_up_to_date


class Said:
    def __init__(self, code: int, out: bytes, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def text(self) -> str:
        return self.out.decode()


Command = Callable[..., Said]


def command(
    *argv: str, store: str, cwd: Path, stdin: bytes = b"", environ: dict[str, str] | None = None
) -> Said:
    module = import_module(f"sandbox_judge.cli.{argv[0]}")
    parser = argparse.ArgumentParser()
    module.add(parser.add_subparsers())
    out, err = io.BytesIO(), io.StringIO()
    variables = {**(environ or {}), "SANDBOX_JUDGE_STORE": store}
    surface = Surface(stdin=io.BytesIO(stdin), stdout=out, stderr=err, environ=variables, cwd=cwd)
    code = module.run(parser.parse_args(list(argv)), surface)
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture
def ask(ready_url: str, tmp_path: Path, database: Database) -> Command:
    return lambda *argv, stdin=b"": command(*argv, store=ready_url, cwd=tmp_path, stdin=stdin)


def many(passes: int, fails: int, *, start: int = 0, name: str = "c", **over: Any) -> list[dict[str, Any]]:
    results = ["pass"] * passes + ["fail"] * fails
    return [
        event(result, conversation=f"{name}{start + n}", **{"at": START + n, **over})
        for n, result in enumerate(results)
    ]


def put(database: Database, events: list[dict[str, Any]]) -> None:
    Ingest(database).store([incoming(one, received=START + 90 * DAY) for one in events])


def test_a_trend_has_segments_intervals_and_coverage(database: Database, ask: Command) -> None:
    put(
        database,
        [
            *many(9, 1, name="a", version=1),
            *many(4, 0, name="b", version=2, at=START + DAY),
            event("not_applicable", conversation="b-na", version=2, at=START + DAY),
            event(None, conversation="b-null", version=2, at=START + DAY, error="timeout"),
            *many(2, 2, name="d", version=3, definition="two", at=START + 2 * DAY),
            *many(1, 0, name="e", version=4, definition="two", contract="9", at=START + 3 * DAY),
        ],
    )
    lines = ask("trend", "tone", "-o", "json").json["lines"]
    assert [one["environment"] for one in lines] == ["production"]
    segments = lines[0]["segments"]
    assert [[p["key"] for p in s["points"]] for s in segments] == [
        [commit(1), commit(2)],
        [commit(3)],
        [commit(4)],
    ]
    assert [s["known_contract"] for s in segments] == [True, True, False]
    first, second = segments[0]["points"]
    assert (first["pass"], first["fail"], first["rate"], first["coverage"]) == (9, 1, 0.9, 1.0)
    assert first["interval"] == pytest.approx([0.5958, 0.9821], abs=1e-4)
    assert second["nulls"] == {"timeout": 1}
    assert (second["n"], second["not_applicable"], second["coverage"]) == (4, 1, pytest.approx(5 / 6))
    text = ask("trend", "tone").text
    assert "not comparable with what is above" in text and "unknown to this version" in text
    assert "90.0 %" in text and "59.6–98.2 %" in text


def test_versions_stand_in_the_order_of_the_repository(
    database: Database, ask: Command, tmp_path: Path
) -> None:
    repository = tmp_path / "repo"

    def git(*words: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(["git", "-C", str(repository), *who, *words], check=True, capture_output=True)
        return done.stdout.decode().strip()

    repository.mkdir()
    git("init", "-q")
    commits = []
    for n in range(3):
        git("commit", "-q", "--allow-empty", "-m", str(n))
        commits.append(git("rev-parse", "HEAD"))
    # The newest version was seen first (a canary), and one is of another repository.
    seen = [(commits[2], 0), (commits[0], 1), (commit(7), 2), (commits[1], 3)]
    put(
        database,
        [
            event(conversation=name, at=START + n, envelope={"recipe_git_commit_sha": name})
            for name, n in seen
        ],
    )

    def keys(*more: str) -> list[tuple[str, bool]]:
        (segment,) = ask("trend", "tone", "-o", "json", *more).json["lines"][0]["segments"]
        return [(p["key"], p["unknown_commit"]) for p in segment["points"]]

    assert keys() == [(name, False) for name, _ in seen]
    ordered = keys("--repo", "repo")
    assert [name for name, unknown in ordered if not unknown] == commits
    assert [name for name, unknown in ordered if unknown] == [commit(7)]
    assert "not in the repository" in ask("trend", "tone", "--repo", "repo").text
    with pytest.raises(RecipeError):
        keys("--repo", "elsewhere")


def test_a_definition_that_comes_back_is_a_segment_of_its_own(database: Database, ask: Command) -> None:
    for n, definition in enumerate(["one", "two", "one"]):
        put(database, many(2, 1, name=str(n), version=n, definition=definition, at=START + n * DAY))
    segments = ask("trend", "tone", "-o", "json").json["lines"][0]["segments"]
    assert [s["definition_hash"] for s in segments] == [sha("one"), sha("two"), sha("one")]


def test_a_cosmetic_edit_is_told_and_joined_on_request(database: Database, ask: Command) -> None:
    put(database, many(3, 0, name="a", version=1))
    put(database, many(3, 0, name="b", version=2, definition="two", grading_hash=sha("gone"), at=START + DAY))
    told = ask("trend", "tone", "-o", "json").json["lines"][0]["segments"][1]
    assert (told["cosmetic_edit"], told["joined"]) == (True, False)
    joined = ask("trend", "tone", "-o", "json", "--join-cosmetic").json["lines"][0]["segments"][1]
    assert joined["joined"]
    refused = ask("compare", commit(1), commit(2), "-o", "json")
    assert refused.code == 2
    assert any("cosmetic" in reason for reason in refused.json["reasons"])


def test_drift_is_shown_and_environments_do_not_mix(database: Database, ask: Command) -> None:
    put(database, many(2, 0, name="a", version=1))
    put(database, many(2, 0, name="b", version=2, llm={"response_model": "small-2"}, at=START + DAY))
    put(database, many(0, 5, name="s", version=2, envelope={"environment": "staging"}, at=START + DAY))
    lines = ask("trend", "tone", "-o", "json").json["lines"]
    assert [one["environment"] for one in lines] == ["production", "staging"]
    point = lines[0]["segments"][0]["points"][1]
    assert point["drift"] == [{"field": "response_model", "before": ["small-1"], "after": ["small-2"]}]
    assert point["fail"] == 0
    compared = ask("compare", commit(1), commit(2), "-o", "json")
    assert compared.json["comparisons"][0]["b"]["n"] == 2
    assert "left out: staging" in compared.err


def test_regrades_stay_out_unless_asked_for(database: Database, ask: Command) -> None:
    put(database, many(1, 1, name="a"))
    again = event("fail", conversation="a0", regrade=True, at=START + DAY)
    again["payload"]["judgement_id"] = uid("other")
    put(database, [again])

    def counts(*more: str) -> tuple[int, int]:
        point = ask("trend", "tone", "-o", "json", *more).json["lines"][0]["segments"][0]["points"][0]
        return point["pass"], point["fail"]

    assert counts() == (1, 1)
    assert counts("--regrades") == (0, 2)


def test_by_time_and_by_service(database: Database, ask: Command) -> None:
    put(database, many(1, 1, name="a", at=START))
    put(database, many(3, 0, name="b", at=START + 20 * DAY, envelope={"service_name": "shop"}))
    days = ask("trend", "tone", "--by", "day", "-o", "json").json["lines"][0]["segments"][0]["points"]
    assert [(p["key"], p["n"]) for p in days] == [("2026-09-21", 2), ("2026-10-11", 3)]
    weeks = ask("trend", "tone", "--by", "week", "-o", "json").json["lines"][0]["segments"][0]["points"]
    assert [p["key"] for p in weeks] == ["2026-09-21", "2026-10-05"]
    months = ask("trend", "tone", "--by", "month", "-o", "json").json["lines"][0]["segments"][0]["points"]
    assert [p["key"] for p in months] == ["2026-09", "2026-10"]
    services = ask("trend", "tone", "--by-service", "-o", "json").json["lines"]
    assert [(one["service"], one["segments"][0]["points"][0]["n"]) for one in services] == [
        ("desk", 2),
        ("shop", 3),
    ]
    since = ask("trend", "tone", "--since", "2026-10-01", "-o", "json").json["lines"]
    assert since[0]["segments"][0]["points"][0]["n"] == 3


def test_two_sides(database: Database, ask: Command) -> None:
    put(database, many(56, 14, name="a", version=1))
    put(database, many(48, 32, name="b", version=2, at=START + DAY, envelope={"service_name": "shop"}))
    for a, b in (
        (commit(2), commit(1)),
        ("shop", "desk"),
        ("service=shop", "version=" + commit(1)),
        ("window=2026-09-22..", "..2026-09-22"),
    ):
        said = ask("compare", a, b, "-o", "json")
        (one,) = said.json["comparisons"]
        assert one["difference"]["value"] == pytest.approx(0.2)
        assert one["difference"]["interval"] == pytest.approx([0.0524, 0.3339], abs=1e-4)
        assert one["difference"]["test"]["p"] == pytest.approx(0.0082, abs=5e-4)
    assert "+20.0 points" in ask("compare", commit(2), commit(1)).text
    with pytest.raises(InputError, match="no judgement of version"):
        ask("compare", "abcdef123", commit(1))
    refused = ask("compare", "service=absent", "desk")
    assert refused.code == 2 and "A has no judgement" in refused.err
    put(database, [event(judge="other", conversation="z")])
    with pytest.raises(UsageError, match="several judges"):
        ask("compare", "shop", "desk")


def test_what_is_not_comparable_is_refused(database: Database, ask: Command) -> None:
    put(database, many(5, 5, name="a", version=1))
    put(database, many(5, 5, name="b", version=2, definition="two", contract="2", at=START + DAY))
    said = ask("compare", commit(1), commit(2), "-o", "json")
    assert said.code == 2
    assert said.json["comparable"] is False
    text = " ".join(said.json["reasons"])
    assert sha("one") in text and sha("two") in text
    assert "contract version differs: 1 in A, 2 in B" in text
    assert "changes what reaches the model" in text


def test_a_guard(database: Database, ask: Command) -> None:
    put(database, many(90, 10, name="a", version=1))
    put(database, many(88, 12, name="b", version=2, at=START + DAY))
    assert ask("guard", "tone").code == 0
    put(database, many(50, 50, name="c", version=3, at=START + 2 * DAY))
    said = ask("guard", "tone", "-o", "json")
    assert said.code == 1
    assert said.json["version"] == commit(3)
    assert said.json["credibly_below"] is True
    assert said.json["baseline"]["figures"]["n"] == 200
    assert ask("guard", "tone", "--floor", "0.4").code == 0
    assert ask("guard", "tone", "--floor", "0.7").code == 1
    assert ask("guard", "tone", "--baseline", commit(2)).code == 1
    assert ask("guard", "tone", "--at", commit(2)).code == 0
    # An edited judge has no baseline: said, and no false alarm unless asked for.
    put(database, many(1, 50, name="d", version=4, definition="two", at=START + 3 * DAY))
    said = ask("guard", "tone")
    assert said.code == 0 and "changed with this version" in said.text
    assert ask("guard", "tone", "--strict").code == 1
    with pytest.raises(UsageError):
        ask("guard", "tone", "--floor", "70")


def arm(name: str, passes: int, fails: int, **over: Any) -> list[dict[str, Any]]:
    return many(
        passes, fails, name=name, envelope={"experiment_id": uid("experiment", "x")},
        experiment_arm_id=uid("arm", name), labels={"experiment_id": "x", "experiment_arm_id": name}, **over,
    )  # fmt: skip


def test_an_experiment(database: Database, ask: Command) -> None:
    put(database, arm("control", 60, 40) + arm("terse", 85, 15))
    put(database, arm("control", 10, 0, judge="safe") + arm("terse", 7, 3, judge="safe"))
    said = ask("experiment", "x", "--judge", "tone", "--guard", "safe>=0.9", "-o", "json")
    assert said.code == 0
    control, terse = said.json["arms"]
    assert (control["arm"], control["rate"], control["difference"]) == ("control", 0.6, None)
    assert terse["difference"]["value"] == pytest.approx(0.25)
    assert terse["probability_best"] > 0.99
    assert control["probability_best"] + terse["probability_best"] == pytest.approx(1)
    assert (control["guards"][0]["holds"], terse["guards"][0]["holds"]) == (True, False)
    by_id = ask("experiment", uid("experiment", "x"), "--judge", "tone", "--control", "terse", "-o", "json")
    assert by_id.json["control"] == "terse"
    assert "BROKEN" in ask("experiment", "x", "--judge", "tone", "--guard", "safe>=0.9").text


def test_a_conversation_in_two_arms_is_evidence_for_none(database: Database, ask: Command) -> None:
    put(database, arm("control", 6, 4) + arm("terse", 8, 2))
    both = arm("control", 3, 0, start=100) + arm("terse", 0, 3, start=100, view="again", at=START + DAY)
    for n, one in enumerate(both):
        one["conversation_id"] = f"both{n % 3}"
        one["payload"]["grading_key"] = uid("both", n % 3)
    put(database, both)
    said = ask("experiment", "x", "--judge", "tone", "-o", "json")
    assert [(one["pass"], one["fail"]) for one in said.json["arms"]] == [(6, 4), (8, 2)]
    assert said.json["in_many_arms"] == 3
    assert "3 conversations were judged in more than one arm" in said.err


def test_a_guard_of_two_definitions_is_no_evidence(database: Database, ask: Command) -> None:
    put(database, arm("control", 6, 4) + arm("terse", 8, 2))
    put(database, arm("control", 9, 1, judge="safe") + arm("terse", 9, 1, judge="safe", definition="two"))
    said = ask("experiment", "x", "--judge", "tone", "--guard", "safe<=0.95")
    assert said.text.count("no evidence (graded under 2 definitions or contract versions)") == 2


def test_the_repository_tells_what_an_edit_changed(database: Database, ask: Command, tmp_path: Path) -> None:
    def version(text: str) -> tuple[str, str]:
        return committed(tmp_path / "recipe", {"judges/tone.yaml": text}), sha256(text.encode())

    texts = [
        judge_text("tone"),
        "# a comment\n" + judge_text("tone"),
        judge_text("tone") + "  provider: else\n",
    ]
    texts.append(texts[2] + "description: kindly\n")
    versions = [version(text) for text in texts]
    for n, (name, definition) in enumerate(versions):
        envelope = {"recipe_git_commit_sha": name}
        put(
            database,
            many(3, 1, name=str(n), at=START + n * DAY, envelope=envelope, definition_hash=definition),
        )

    def edit(a: int, b: int, *more: str) -> Said:
        return ask("compare", versions[a][0], versions[b][0], "--repo", "recipe", *more)

    assert edit(0, 1, "-o", "json").json["edit"] == {"cosmetic": True, "changed": []}
    assert edit(1, 2, "-o", "json").json["edit"] == {"cosmetic": False, "changed": ["llm.provider"]}
    assert edit(2, 3, "-o", "json").json["edit"] == {"cosmetic": True, "changed": ["description"]}
    assert "the edit changes what reaches the model (description, llm.provider)" in edit(0, 3).err
    put(database, many(3, 1, name="x", at=START + 9 * DAY, version=9, definition="two"))
    strange = ask("compare", versions[0][0], commit(9), "--repo", "recipe")
    assert strange.code == 2 and "the repository does not tell" in strange.err


def test_an_experiment_without_matching_evidence_is_refused(database: Database, ask: Command) -> None:
    put(database, arm("a", 5, 5) + arm("b", 5, 5, definition="two"))
    said = ask("experiment", "x", "--judge", "tone")
    assert said.code == 2 and "pin one definition" in said.err
    pinned = ask("experiment", "x", "--judge", "tone", "--definition", sha("one"))
    assert pinned.code == 2 and "arm b has no pass or fail" in pinned.err
    put(database, arm("b", 5, 5))
    assert ask("experiment", "x", "--judge", "tone", "--definition", sha("one")).code == 0
    put(database, arm("b", 3, 0, contract="2"))
    said = ask("experiment", "x", "--judge", "tone", "--definition", sha("one"))
    assert said.code == 2 and "2 contract versions" in said.err
    missing = ask("experiment", "x", "--judge", "tone", "--definition", sha("one"), "--arm", "d")
    assert missing.code == 2 and "arm d has no" in missing.err
    with pytest.raises(InputError):
        ask("experiment", "y", "--judge", "tone")


HOSTILE = '=HYPERLINK("http://x")\x1b[2J\u202e,<script>'


def test_judgements_are_listed_in_pages(database: Database, ask: Command) -> None:
    events = [event(["pass", "fail"][n % 2], conversation=f"c{n}", at=START + n) for n in range(25)]
    put(database, [*events, event(None, conversation="null", at=START + 99)])
    seen, cursor = [], []
    while True:
        said = ask("judgements", "--limit", "7", "-o", "jsonl", *cursor)
        seen += [json.loads(one)["id"] for one in said.out.splitlines()]
        if "--after" not in said.err:
            break
        cursor = ["--after", said.err.split()[-1]]
    assert seen[1:] == [one["id"] for one in reversed(events)]
    everything = ask("judgements", "--limit", "0", "-o", "jsonl").out.splitlines()
    assert sorted(everything[1:]) == sorted(line(one) for one in events), "as they came"
    assert len(ask("judgements", "--result", "null", "-o", "jsonl").out.splitlines()) == 1
    assert len(ask("judgements", "--error", "timeout", "-o", "jsonl").out.splitlines()) == 1
    assert len(ask("judgements", "--result", "fail", "--limit", "0", "-o", "jsonl").out.splitlines()) == 12
    for bad in ("!", "YQ", "LTEgeA", "é"):
        with pytest.raises(UsageError):
            ask("judgements", "--after", bad)


def test_text_from_events_is_harmless(database: Database, ask: Command) -> None:
    put(database, [event(conversation=HOSTILE, envelope={"service_name": HOSTILE}, judge_name=HOSTILE)])
    table = ask("judgements").text
    assert "\x1b" not in table and "\u202e" not in table
    (head, row) = list(csv.reader(io.StringIO(ask("judgements", "-o", "csv").text)))
    assert row[head.index("conversation")].startswith("'=")
    assert row[head.index("service")].startswith("'=")
    trend = ask("trend", HOSTILE, "--by-service").text
    assert "\x1b" not in trend and "\\x1b" in trend


def test_superseded_unstable_and_quarantined_are_shown(database: Database, ask: Command) -> None:
    put(database, [event("fail", view="short"), event("pass", view="long", at=START + 5)])
    put(database, [event("fail", view="long", at=START + 6)])
    Ingest(database).store([incoming(event(dry_run=True))])
    assert "fail (superseded)" in ask("judgements").text
    assert "superseded" not in ask("judgements", "--standing", "-o", "table").text
    assert "another result: fail" in ask("judgements", "--unstable").text
    assert "dry_run" in ask("judgements", "--quarantined").text


def test_files_are_collected(database: Database, ask: Command, tmp_path: Path) -> None:
    events = many(3, 2)
    (tmp_path / "out.jsonl").write_bytes(b"\n".join(line(one) for one in events) + b"\n\nnot json\n")
    said = ask("collect", "out.jsonl", "-o", "json")
    assert said.json["judgements"] == 5
    assert said.json["quarantined"] == {"not_json": 1}
    again = ask("collect", "-", "-o", "json", stdin=(tmp_path / "out.jsonl").read_bytes())
    assert (again.json["judgements"], again.json["duplicates"]) == (0, 5)
    assert "5 known already" in again.err
    with pytest.raises(InputError, match="cannot be read"):
        ask("collect", "absent.jsonl")
    with pytest.raises(UsageError, match="nothing to collect"):
        ask("collect")


def test_one_name_of_two_judges_must_be_told_apart(database: Database, ask: Command) -> None:
    put(database, [event(), event(conversation="x", judge_id=uid("else"), recipe_id="other")])
    with pytest.raises(UsageError, match="more than one judge"):
        ask("trend", "tone")
    assert ask("trend", "tone", "--recipe", "other").code == 0
    assert ask("trend", uid("else").upper()).code == 0
    with pytest.raises(InputError, match="no judgement of a judge"):
        ask("trend", "tune")


def test_an_empty_store(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "s.db"), write=True)
    bring_up_to_date(database)
    database.close()
    assert command("judgements", store=str(tmp_path / "s.db"), cwd=tmp_path).out == b""
    with pytest.raises(InputError, match="no judgement of a judge"):
        command("trend", "tone", store=str(tmp_path / "s.db"), cwd=tmp_path)
    with pytest.raises(InputError, match="no store yet"):
        command("guard", "tone", store=str(tmp_path / "absent.db"), cwd=tmp_path)


def test_the_documentation_shows_what_the_samples_give(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    store = str(tmp_path / "s.db")

    def say(*argv: str) -> Said:
        return command(*argv, store=store, cwd=docs)

    shown = (docs / "store.md").read_text()
    assert say("collect", "samples/judgements.jsonl").err.strip() in shown
    for row in say("trend", "refund-policy").text.splitlines()[:5]:
        assert row in shown
    assert say("compare", "e13728c", "ce679e4").text.splitlines()[-1] in shown
    guarded = say("guard", "refund-policy", "--at", "ce679e4")
    assert guarded.code == 1
    assert guarded.text.splitlines()[-2] in shown

"""`fixture` as a person uses it."""

import json

import pytest
from recipes import judge_text
from surfaces import run_main

TALK = [{"role": "user", "content": "May I \u202esend it back?"}, {"role": "assistant", "content": "Yes."}]


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges" / "tone.yaml").write_text(judge_text("tone"))
    (tmp_path / "talk.json").write_text(json.dumps({"id": "t1", "messages": TALK}))
    (tmp_path / "two.json").write_text(json.dumps([*TALK, {"role": "user", "content": "Thanks"}]))
    return tmp_path


def fixture(recipe, *argv, **options):
    return run_main("fixture", *argv, cwd=recipe, **options)


def rows(recipe):
    text = (recipe / "judges" / "tone.calibration.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_export_label_check(recipe):
    done = fixture(recipe, "new", "talk.json", "two.json", "--judge", "tone")
    assert done.code == 0, done.err
    assert rows(recipe)[0]["id"] == "t1"
    assert "expected" not in rows(recipe)[0]

    done = fixture(
        recipe, "label", "--judge", "tone", stdin=b"x\np\ndev\nAda Example\nclear case\nq\n", terminal=True
    )
    assert done.code == 0, done.err
    assert "Judge by tone." in done.out and "'x' is none of these" in done.out
    assert "\\u202e" in done.out and "\u202e" not in done.out
    assert "1 labelled; 1 still without a label." in done.out
    first, second = rows(recipe)
    assert (first["expected"], first["split"], first["approved_by"]) == ("pass", "dev", "Ada Example")
    assert first["note"] == "clear case" and "expected" not in second

    # Goes on where it ended, and takes what is the same for all from flags.
    done = fixture(
        recipe, "label", "--judge", "tone", "--approved-by", "Ada Example", "--split", "test", stdin=b"f\n\n"
    )
    assert "1 labelled; 0 still" in done.out
    assert [row["expected"] for row in rows(recipe)] == ["pass", "fail"]

    done = fixture(recipe, "check", "--judge", "tone", "-o", "json")
    report = json.loads(done.out)
    assert done.code == 0 and report["valid"] and report["rows"] == 2
    assert report["balance"]["test"] == {"pass": 0, "fail": 1, "not_applicable": 0}


def test_an_end_of_input_keeps_what_was_labelled(recipe):
    fixture(recipe, "new", "talk.json", "two.json", "--judge", "tone")
    done = fixture(recipe, "label", "--judge", "tone", stdin=b"p\ndev\n")
    assert done.code == 0 and "0 labelled; 2 still" in done.out


def test_skipping_leaves_a_row_for_later(recipe):
    fixture(recipe, "new", "talk.json", "--judge", "tone")
    done = fixture(recipe, "label", "--judge", "tone", stdin=b"s\n")
    assert "0 labelled; 1 still" in done.out


def test_an_edited_row_fails_the_check(recipe):
    fixture(recipe, "new", "talk.json", "--judge", "tone")
    path = recipe / "judges" / "tone.calibration.jsonl"
    path.write_text(path.read_text().replace("Yes.", "No."))
    done = fixture(recipe, "check", "--judge", "tone")
    assert done.code == 1
    assert "tone.calibration.jsonl:1: error fixture.row_invalid row t1: the row was edited" in done.out


def test_the_same_conversation_is_not_added_twice(recipe):
    fixture(recipe, "new", "talk.json", "--judge", "tone")
    done = fixture(recipe, "new", "talk.json", "--judge", "tone")
    assert done.code == 2 and "has a row 't1' already" in done.err
    assert len(rows(recipe)) == 1


def test_a_row_to_stdout(recipe):
    done = fixture(recipe, "new", "-", "-o", "json", "--id", "mine", stdin=json.dumps(TALK).encode())
    row = json.loads(done.out)
    assert (row["id"], row["source"], row["kind"]) == ("mine", "export:stdin", "judge_fixture")


def test_an_envelopes_status_and_feedback_are_part_of_the_row(recipe):
    envelope = {"conversation": TALK, "status": "failed", "feedback": [{"sentiment": "negative"}]}
    done = fixture(recipe, "new", "-", "-o", "json", stdin=json.dumps(envelope).encode())
    conversation = json.loads(done.out)["conversation"]
    assert conversation["status"] == "failed"
    assert conversation["entries"][-1]["kind"] == "feedback"


def test_import(recipe):
    (recipe / "l.csv").write_text("q,a,label\nx,y,1\nz,w,-1\n")
    words = ["l.csv", "--judge", "tone", "--expected-column", "label", "--map", "1=pass,-1=fail"]
    words += ["--user-column", "q", "--assistant-column", "a", "--split", "dev"]
    done = fixture(recipe, "import", *words)
    assert done.code == 2 and "nobody stands for the labels" in done.err
    done = fixture(recipe, "import", *words, "--approved-by", "Ada Example")
    assert done.code == 0 and "2 rows added" in done.out and "(1 fail, 1 pass)" in done.out
    done = fixture(recipe, "import", *words, "--approved-by", "Ada Example")
    assert done.code == 2 and "these ids already" in done.err
    assert len(rows(recipe)) == 2


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["check"], "no set was named"),
        (["check", "--judge", "../x"], "no judge's name"),
        (["check", "--judge", "tone"], "fixture new"),
        (["new", "none.json", "--judge", "tone"], "none.json: cannot be read"),
        (["label", "--judge", "tone", "--split", "Test"], "no split"),
        (["label", "--judge", "other"], "no judge named 'other'"),
        (["import", "talk.json", "--judge", "tone", "--expected-column", "x", "--map", "1"], "approved-by"),
    ],
)
def test_what_cannot_be_is_told(recipe, argv, told):
    done = fixture(recipe, *argv)
    assert done.code == 2 and told in done.err

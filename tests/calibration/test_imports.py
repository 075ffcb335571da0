"""Labels that exist already become rows that say where they came from."""

import pytest

from sandbox_judge.calibration.imports import Plan, import_rows, parse_map, parse_shares
from sandbox_judge.calibration.row import read_row
from sandbox_judge.conversation.model import Message
from sandbox_judge.errors import InputError, UsageError

CSV = b'id,q,a,label\nc1,"Is it, open?",Yes,1\nc2,When?,"Never\nagain",-1\nc3,Hm?,Hm,0\n'
PLAN = Plan(
    expected="label", approved_by="Ada", words=parse_map("1=pass,-1=fail,0=skip"), id="id", user="q",
    assistant="a", split="dev",
)  # fmt: skip


def changed(**changes):
    import msgspec

    return msgspec.structs.replace(PLAN, **changes)


def test_a_table_with_a_mapping():
    found = import_rows(CSV, name="labels.csv", plan=PLAN)
    first, second = (read_row(row) for row in found.rows)
    assert found.skipped == 1
    assert (first.id, first.expected, first.split, first.approved_by) == ("c1", "pass", "dev", "Ada")
    assert first.source == "import:labels.csv row 1"
    texts = [e.parts[0].text for e in second.conversation.entries if isinstance(e, Message)]
    assert texts == ["When?", "Never\nagain"]


def test_values_without_a_word_are_named_and_nothing_is_taken():
    with pytest.raises(InputError) as caught:
        import_rows(CSV, name="labels.csv", plan=changed(words=parse_map("1=pass")))
    assert "2 rows cannot be imported: row 2: label is '-1'" in caught.value.message
    assert "skip" in caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"expected": "verdict"}, "it has no 'verdict'"),
        ({"assistant": "answer"}, "it has no 'answer'"),
        ({"id": "label", "words": parse_map("1=pass,-1=fail,0=fail")}, None),
        ({"assistant": None}, "no conversation in conversation or messages"),
        ({"split_column": "q"}, "q is 'Is it, open?', none of train"),
    ],
)
def test_columns_that_are_not_there(changes, told):
    if told is None:
        assert [row["id"] for row in import_rows(CSV, name="x.csv", plan=changed(**changes)).rows] == [
            "1",
            "-1",
            "0",
        ]
        return
    with pytest.raises(InputError, match=told.replace("?", r"\?")):
        import_rows(CSV, name="x.csv", plan=changed(**changes))


def test_json_lines_with_whole_conversations_and_nested_labels():
    data = (
        b'{"messages": [{"role": "user", "content": "hi"}], "human": {"label": 1}}\n'
        b'{"messages": [{"role": "user", "content": "ho"}], "human": {"label": -1}}\n'
    )
    plan = Plan(
        expected="human.label", approved_by="Ada", words=parse_map("1=pass,-1=fail"), shares=(0.5, 1.0)
    )
    rows = import_rows(data, name="set.jsonl", plan=plan).rows
    assert [row["expected"] for row in rows] == ["pass", "fail"]
    assert [row["id"] for row in rows] == ["set-1", "set-2"]
    assert {row["split"] for row in rows} <= {"train", "dev"}
    assert rows == import_rows(data, name="set.jsonl", plan=plan).rows


def test_pairs():
    data = b'[{"instruction": "Say", "input": "", "r1": "a", "r2": true, "best": 2}]'
    plan = Plan(
        expected="best", approved_by="Ada", words=parse_map("1=first,2=second,0=tie"),
        user="instruction,input", pair=("r1", "r2"),
    )  # fmt: skip
    (row,) = import_rows(data, name="p.json", plan=plan).rows
    read = read_row(row)
    assert read.expected == "second"
    assert [c.entries[1].parts[0].text for c in read.candidates] == ["a", "true"]
    assert read.candidates[0].entries[0].parts[0].text == "Say"


def test_the_same_id_twice_is_refused():
    data = b"id,q,a,label\nc,x,y,1\nc,z,w,1\n"
    with pytest.raises(InputError, match="stood in an earlier row"):
        import_rows(data, name="x.csv", plan=PLAN)


@pytest.mark.parametrize("text", ["1", "1=good", "=", "1=pass,,"])
def test_a_map_that_maps_nothing(text):
    with pytest.raises(UsageError):
        parse_map(text)


@pytest.mark.parametrize("text", ["1/2", "a/b/c", "0/0/0", "-1/1/1", "nan/1/1", "inf/1/1"])
def test_shares_that_are_none(text):
    with pytest.raises(UsageError):
        parse_shares(text)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\xfd", b"id\n", b'a,b\n"x', b"[1, 2]", b"{}"])
def test_hostile_files_are_told(data):
    for name in ("x.csv", "x.json"):
        try:
            assert import_rows(data, name=name, plan=PLAN).rows == ()
        except InputError:
            continue

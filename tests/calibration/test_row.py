"""A row's machine part is protected; a person adds four words and nothing else."""

import json

import pytest
from calibration.made_rows import row, talk
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.calibration.row import new_pair, new_row, read_row, row_line
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view


def fault(value):
    with pytest.raises(InputError) as caught:
        read_row(value)
    return caught.value.paragraph()


def written(value):
    return json.loads(row_line(value))


def test_a_row_reads_back_with_the_view_that_a_judge_sees():
    value = written(row("a", "Yes, within 30 days.", "pass", "dev"))
    read = read_row(value)
    assert (read.id, read.expected, read.split, read.approved_by) == ("a", "pass", "dev", "Ada Example")
    assert build_view(read.conversation).sequence_hash == value["sequence_hash"]
    assert not read.stale


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda v: v["conversation"]["entries"][1].update(role="user"), "snapshot_hash does not hold"),
        (lambda v: v["engine"].update(version="9"), "snapshot_hash does not hold"),
        (lambda v: v.update(sequence_hash="sha256:" + "0" * 64), "snapshot_hash does not hold"),
        (lambda v: v.update(expected="Pass"), "expected is 'Pass'. It is one of pass, fail"),
        (lambda v: v.update(expected="fail "), "expected is 'fail '"),
        (lambda v: v.update(expected=True), "expected is True"),
        (lambda v: v.update(split="holdout"), "split is 'holdout'"),
        (lambda v: v.update(approved_by="  "), "approved_by is blank"),
        (lambda v: v.update(id=""), "id is blank"),
        (lambda v: v.update(reviewer="me"), "unknown field `reviewer`"),
        (lambda v: v.pop("source"), "missing required field `source`"),
        (lambda v: v.update(schema_version=2), "schema_version"),
        (lambda v: v.update(kind="row"), "kind is 'row'"),
        (lambda v: v.update(conversation=[]), "not a canonical one"),
        (lambda v: v.update(conversation=None), "not a canonical one"),
    ],
)  # fmt: skip
def test_what_is_not_a_whole_row_is_refused(change, told):
    value = written(row("a", "Yes.", "pass", "dev"))
    change(value)
    assert told in fault(value)


def test_a_view_that_is_not_the_rows_is_refused_even_under_a_fitting_snapshot():
    from sandbox_judge.calibration.row import snapshot_hash

    value = written(row("a", "Yes."))
    value["sequence_hash"] = "sha256:" + "0" * 64
    value["snapshot_hash"] = snapshot_hash(value)
    assert "view of the conversation is not" in fault(value)
    value["engine"]["contract_version"] = "0"
    value["snapshot_hash"] = snapshot_hash(value)
    assert read_row(value).stale


@pytest.mark.parametrize("value", [None, [], "row", 3, {}, {"kind": []}])
def test_other_json_is_refused(value):
    fault(value)


def test_pairs_hold_two_conversations():
    value = written(new_pair(talk("Yes."), talk("No."), id="p", source="test", expected="tie"))
    assert read_row(value).expected == "tie"
    value["candidates"].reverse()
    assert "does not hold" in fault(value)
    value["candidates"].pop()
    assert "not two conversations" in fault(value)


@given(st.text(min_size=1), st.text(max_size=20))
def test_any_text_survives_as_it_will_be_read(said, note):
    value = new_row(talk(said or "x"), id="a", source="test", note=note or None)
    assert read_row(written(value)).snapshot_hash == value["snapshot_hash"]

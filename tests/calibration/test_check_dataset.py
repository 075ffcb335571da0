"""What is wrong with a set as a whole."""

import json

import pytest
from calibration.made_rows import row, write_set

from sandbox_judge.calibration.check import check_dataset
from sandbox_judge.calibration.dataset import read_dataset
from sandbox_judge.calibration.row import new_row, row_line
from sandbox_judge.canonical import canonical_json, sha256
from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.errors import InputError


def checked(tmp_path, *rows):
    return check_dataset(write_set(tmp_path / "x.jsonl", rows))


def codes(report, severity=None):
    return [
        fault.code.removeprefix("fixture.")
        for fault in report.faults
        if severity in (None, fault.severity) and not fault.code.startswith("fixture.class_")
    ]


def test_a_sound_set_is_valid(tmp_path):
    report = checked(
        tmp_path, row("a", "Yes.", "pass", "dev"), row("b", "Never.", "fail", "test"), row("c", "Hm")
    )
    assert report.valid and codes(report) == []
    assert report.balance == {
        "dev": {"pass": 1, "fail": 0, "not_applicable": 0},
        "test": {"pass": 0, "fail": 1, "not_applicable": 0},
    }
    assert report.unlabelled == 1


def test_hashes_are_those_of_the_specification(tmp_path):
    rows = [row("b", "Never.", "fail", "test"), row("a", "Yes.", "pass", "dev")]
    dataset = checked(tmp_path, *rows).dataset
    by_id = {one["id"]: one["snapshot_hash"] for one in rows}
    assert dataset.dataset_hash == sha256(
        canonical_json([["a", by_id["a"], "pass", "dev"], ["b", by_id["b"], "fail", "test"]])
    )
    assert dataset.test_split_hash == sha256(canonical_json([["b", by_id["b"], "fail"]]))


@pytest.mark.parametrize("number", range(5))
def test_split_cases(shared, tmp_path, number):
    case = json.loads((shared / "cases" / "splits.json").read_text())[number]
    rows = []
    for at, (id, split) in enumerate(case["rows"]):
        said = (
            "The same." if case.get("same_content") or len({r[0] for r in case["rows"]}) == 1 else f"No {at}."
        )
        made = row(id, said, "pass", "dev")
        rows.append(made | {"split": split})
    report = checked(tmp_path, *rows)
    found = {fault.severity for fault in report.faults if not fault.code.startswith("fixture.class_")}
    assert found == ({"warning"} if case["expected"].startswith("warning") else {"error"}), report.faults
    if case["id"] == "S4":
        assert "row c1: split is 'Test '" in report.faults[0].message


def test_labels_need_an_approver_and_a_split(tmp_path):
    report = checked(
        tmp_path,
        row("a", "Yes.", "pass", "dev", approved_by=None),
        row("b", "No.", "fail"),
    )
    assert sorted(codes(report, "error")) == ["approver_missing", "split_missing"]


def test_the_same_view_in_two_splits_is_a_leak_and_twice_in_one_a_doubt(tmp_path):
    leak = checked(tmp_path, row("a", "Yes.", "pass", "dev"), row("b", "Yes.", "pass", "test"))
    assert codes(leak, "error") == ["split_leak"]
    twice = checked(tmp_path, row("a", "Yes.", "pass", "dev"), row("b", "Yes.", "pass", "dev"))
    assert twice.valid and codes(twice) == ["content_duplicate"]


def test_near_duplicates_over_splits_are_told(tmp_path):
    long = " ".join(f"word{n} and more" for n in range(60))
    report = checked(
        tmp_path,
        row("a", long, "pass", "dev"),
        row("b", long + " indeed", "fail", "test"),
        row("c", "Something else entirely, about boots and their soles in wet weather.", "fail", "test"),
    )
    assert codes(report, "warning") == ["split_leak"]
    assert any("b is nearly a" in fault.message for fault in report.faults)


def test_a_system_prompt_that_all_rows_share_is_no_likeness(tmp_path):
    prompt = " ".join(f"rule {n} of the shop" for n in range(80))
    rows = []
    for at, said in enumerate(("Yes, you may send it back.", "No, that is not how we do it here.")):
        messages = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": f"Question number {at}?"},
            {"role": "assistant", "content": said},
        ]
        rows.append(new_row(read_conversation(messages), id=f"r{at}", source="test"))
    assert codes(checked(tmp_path, *rows)) == []


def test_torn_and_foreign_lines_are_named_and_the_others_stand(tmp_path):
    path = tmp_path / "x.jsonl"
    good = row_line(row("a", "Yes.", "pass", "dev"))
    path.write_bytes(b"\n" + good + b'\n[1]\n{"kind": \n\xff\n' + good[:40])
    dataset = read_dataset(path)
    assert [one.line for one in dataset.rows] == [2]
    assert [fault.line for fault in dataset.faults] == [3, 4, 5, 6]


def test_an_absent_set_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_dataset(tmp_path / "none.jsonl")


def test_a_row_that_changed_meanwhile_is_refused(tmp_path):
    path = write_set(tmp_path / "x.jsonl", [row("a", "Yes."), row("b", "No.")])
    dataset = read_dataset(path)
    write_set(path, [row("b", "No."), row("a", "Yes.")])
    with pytest.raises(InputError, match="changed while"):
        list(dataset.read(dataset.rows))

"""The record: what state a judge is in, and which rows are spent."""

import json

import msgspec
import pytest
from calibration.made_rows import row, write_set
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.calibration.dataset import read_dataset
from sandbox_judge.calibration.looks import guard, look_rows
from sandbox_judge.calibration.record import (
    Answering,
    Asked,
    Look,
    Record,
    Result,
    read_record,
    record_bytes,
)
from sandbox_judge.calibration.state import quick_dataset_hash, state_of
from sandbox_judge.errors import InputError

ASKED = Asked(provider="openai", model="m", endpoint="default")


def result(**changes):
    found = Result(
        definition_hash="sha256:d", contract_version="1", dataset_hash="sha256:s", test_split_hash="sha256:t",
        llm=Answering(provider="openai", model="m", endpoint="default", response_model="m-1"),
        split="test", look=1, n=10, invalid={}, confusion={}, figures={}, intervals={}, floors={},
        passed=True, at="2026-11-30T00:00:00.000000Z",
    )  # fmt: skip
    return msgspec.structs.replace(found, **changes)


def state(*results, **asked):
    record = Record(judge="tone", results=tuple(results))
    known = {"definition_hash": "sha256:d", "dataset_hash": "sha256:s"}
    return state_of(record, **known | asked)


def test_states():
    assert state_of(None, definition_hash="sha256:d", dataset_hash=None) == "uncalibrated"
    assert state() == "uncalibrated"
    assert state(result()) == "calibrated"
    assert state(result(split="dev")) == "uncalibrated"
    assert state(result(passed=False)) == "uncalibrated"
    assert state(result(passed=False), result()) == "calibrated"


@pytest.mark.parametrize(
    "asked",
    [
        {"definition_hash": "sha256:other"},
        {"dataset_hash": "sha256:other"},
        {"dataset_hash": None},
        {"endpoint": "sha256:other"},
        {"response_model": "m-2"},
        {"response_model": None},
    ],
)
def test_what_differs_makes_it_stale(asked):
    assert state(result(), **asked) == "stale"
    assert state(result(), endpoint="default", response_model="m-1") == "calibrated"


def test_another_contract_makes_it_stale():
    assert state(result(contract_version="0")) == "stale"


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True), st.booleans())
def test_the_hooks_hash_is_the_sets(ids, labelled):
    import tempfile
    from pathlib import Path

    rows = [row(id, f"Answer {id}", "pass" if labelled else None, "dev" if labelled else None) for id in ids]
    with tempfile.TemporaryDirectory() as folder:
        path = write_set(Path(folder) / "x.jsonl", rows)
        assert quick_dataset_hash(path.read_bytes()) == read_dataset(path).dataset_hash


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"id": 3}', b"\xff\xfe", b"[" * 10_000])
def test_a_set_that_is_none_has_no_hash(data):
    assert quick_dataset_hash(data) is None


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"judge": "other"}', b'{"judge": "tone", "x": 1}', b"[" * 100_000, b"\xff"]
)
def test_a_record_that_is_none_is_refused(data):
    with pytest.raises(InputError):
        read_record(data, where="x", judge="tone")


def test_a_record_reads_back():
    record = Record(judge="tone", results=(result(intervals={"kappa": (0.1, 0.9), "agreement": None}),))
    assert read_record(record_bytes(record), where="x", judge="tone") == record
    assert json.loads(record_bytes(record))["schema_version"] == 1


class Shelf:
    def __init__(self, folder):
        self.folder, self.record, self.clock = folder, Record(judge="tone"), 0

    def known(self, *rows):
        self.set = read_dataset(write_set(self.folder / "x.jsonl", rows)).fixtures
        return self

    def guard(self, definition="sha256:d"):
        return guard(self.record, self.set, definition_hash=definition, contract_version="1", llm=ASKED)

    def looked(self, definition="sha256:d"):
        self.clock += 1
        look = Look(
            definition_hash=definition, contract_version="1", llm=ASKED,
            at=f"2026-11-30T00:00:0{self.clock}Z", rows=look_rows(self.set),
        )  # fmt: skip
        self.record = msgspec.structs.replace(self.record, looks=(*self.record.looks, look))
        return self

    def ended(self, definition="sha256:d"):
        from sandbox_judge.calibration.dataset import test_split_hash as split_hash

        found = result(
            definition_hash=definition, test_split_hash=split_hash(self.set), at=self.record.looks[-1].at
        )
        self.record = msgspec.structs.replace(self.record, results=(*self.record.results, found))
        return self


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path)


def test_a_first_look_is_free(shelf):
    found = shelf.known(row("a", "Yes", "pass", "test")).guard()
    assert (found.look, found.refusals, found.resumes) == (1, (), False)


def test_a_look_without_a_result_goes_on_only_as_the_same(shelf):
    shelf.known(row("a", "Yes", "pass", "test")).looked()
    assert shelf.guard().resumes and shelf.guard().look == 1
    other = shelf.guard(definition="sha256:e")
    assert not other.resumes and other.look == 2 and other.refusals
    shelf.ended()
    assert not shelf.guard().resumes and shelf.guard().refusals


def test_a_row_from_dev_that_becomes_a_test_row_is_told(shelf):
    shelf.known(row("a", "Yes", "pass", "test"), row("b", "No", "fail", "dev")).looked().ended()
    found = shelf.known(row("b", "No", "fail", "test"), row("c", "Hm", "fail", "test")).guard()
    assert found.refusals == ("1 rows moved into or out of the test split after a look: b",)
    assert found.look == 1


def test_fresh_rows_begin_anew(shelf):
    shelf.known(row("a", "Yes", "pass", "test")).looked().ended()
    found = shelf.known(row("c", "Hm", "fail", "test"), row("d", "Eh", "fail", "test")).guard()
    assert (found.look, found.refusals) == (1, ())


def test_looks_are_counted_by_the_most_seen_row(shelf):
    for _ in range(3):
        shelf.known(row("a", "Yes", "pass", "test")).looked().ended()
    found = shelf.known(row("a", "Yes", "pass", "test"), row("z", "New", "fail", "test")).guard()
    assert found.look == 4

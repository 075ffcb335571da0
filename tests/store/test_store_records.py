"""What the hook emits is taken; what is none is told apart, whatever it is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_events import DAY, START, event, incoming, ledger, line

from sandbox_judge.event_schema import event_schema, ledger_schema
from sandbox_judge.store.records import (
    JudgementRow,
    LedgerRow,
    Quarantined,
    Series,
    read_line,
    series_id,
    settled_time,
)

SAMPLES = Path(__file__).parents[2] / "docs" / "samples" / "judgements.jsonl"


def test_what_is_made_here_is_what_the_hook_emits() -> None:
    """The strict schema of our own events holds the tests' events and the documentation's samples."""
    strict = jsonschema.Draft202012Validator(event_schema())
    samples = [json.loads(one) for one in SAMPLES.read_bytes().splitlines()]
    for one in [event("pass"), event("fail"), event(None), *samples]:
        strict.validate(json.loads(line(one)))
        assert isinstance(incoming(one, received=START + 90 * DAY), JudgementRow)
    whole = ledger(judges=[{"name": "tone", "path": "judges/tone.yaml", "outcome": "gate_miss"}])
    jsonschema.Draft202012Validator(ledger_schema()).validate(whole)
    assert isinstance(incoming(whole), LedgerRow)


def change(**payload: Any) -> Callable[[dict[str, Any]], None]:
    return lambda value: value["payload"].update(payload)


def drop(*keys: str) -> Callable[[dict[str, Any]], None]:
    def apply(value: dict[str, Any]) -> None:
        for key in keys:
            value["payload"].pop(key)

    return apply


@pytest.mark.parametrize(
    "fault",
    [
        drop("result"),
        drop("judgement_id"),
        drop("grading_key"),
        drop("definition_hash"),
        drop("sequence_hash"),
        change(result="PASS"),
        change(result=True),
        change(result="pass\n"),
        change(result=None),
        change(error={"type": "timeout"}),
        change(definition_hash="sha256:abc"),
        change(definition_hash="sha256:" + "0" * 64 + "\n"),
        change(judge_id=""),
        change(judge_id=7),
        change(judgement_id="first"),
        change(llm=[]),
        change(sampling={"rate": 2}),
        change(regrade="yes"),
        change(judge_name="x" * 2000),
        lambda value: value.update(timestamp="yesterday"),
        lambda value: value.update(timestamp="2026-11-30T21:00:00"),
        lambda value: value.update(id=None),
        lambda value: value.update(conversation_id=""),
        lambda value: value.update(recipe_git_commit_sha="main"),
        lambda value: value.update(payload=[]),
        lambda value: value.pop("payload"),
    ],
)
def test_what_is_no_judgement_is_told(fault: Callable[[dict[str, Any]], Any]) -> None:
    value = event("pass")
    given_id = value["id"]
    fault(value)
    read = incoming(value)
    assert isinstance(read, Quarantined)
    assert read.reason == "invalid" and read.detail
    assert read.ack == (given_id if value["id"] else "")
    assert read.line == line(value)


def test_a_judge_may_have_an_id_of_its_own_and_new_keys_are_let_through() -> None:
    value = event("pass", judge_id="tone-1", brand_new={"a": 1})
    value["also_new"] = [1]
    read = incoming(value)
    assert isinstance(read, JudgementRow)
    assert read.series.judge_id == "tone-1"


@pytest.mark.parametrize(
    "raw,reason",
    [
        (b"{", "not_json"),
        (b"null", "unknown_event"),
        (b"[" * 100_000, "unknown_event"),
        (b'{"event_name":"introspection.judgement","new":' + b"[" * 100_000, "not_json"),
        (b'{"event_name":"introspection.judgement","payload":{"labels":{"a":' + b"[" * 100_000, "not_json"),
        (b'{"event_name":' * 5000, "not_json"),
        (b'"\xff"', "not_utf8"),
        (b'{"event_name":"introspection.judgement"}', "invalid"),
        (b'{"event_name":"introspection.feedback","id":"x"}', "unknown_event"),
        (b'{"event_name":["introspection.judgement"]}', "unknown_event"),
        (b'{"id":{"a":1},"event_name":7}', "unknown_event"),
    ],
)
def test_hostile_lines(raw: bytes, reason: str) -> None:
    read = read_line(raw, received=START)
    assert isinstance(read, Quarantined)
    assert read.reason == reason


@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda text: json.dumps({"id": text}).encode()))
@settings(max_examples=200, deadline=None)
def test_reading_never_raises(raw: bytes) -> None:
    read = read_line(raw, received=START)
    assert isinstance(read, Quarantined)
    assert read.line == raw


@given(st.integers(-(10**18), 10**18), st.integers(START, START + DAY))
@settings(max_examples=100, deadline=None)
def test_a_time_that_is_taken_is_never_far_ahead(said: int, received: int) -> None:
    at = settled_time(said, received)
    assert at in (said, received)
    assert at <= received + 300_000_000
    assert settled_time(received, received) == received


def test_a_series_is_its_dimensions() -> None:
    one = Series(judge_id="a", definition_hash="b", contract_version="1", service="x")
    other = Series(judge_id="a", definition_hash="b", contract_version="1", recipe_id="x")
    assert one.digest() != other.digest()
    assert 0 <= series_id(one.digest()) < 1 << 63

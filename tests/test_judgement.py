"""Events: worked examples of every id and hash, both schemas, caps, masking, redaction."""

import hashlib
import json
import math
import re
import uuid
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from introspection_sdk.schemas.events import JudgementEvent

from sandbox_judge.clock import utc_now, uuid7
from sandbox_judge.event_schema import event_schema
from sandbox_judge.grading.evidence import Evidence
from sandbox_judge.grading.grade import Graded, Grading
from sandbox_judge.judgement import RunContext, Seen, Subject, event_line, judgement_event, subject_of
from sandbox_judge.lanes.base import Endpoint, Usage, Wire
from sandbox_judge.nulls import ERROR_TYPES, Invalid
from sandbox_judge.recipe.judge import Judge, Llm

STRICT = jsonschema.Draft202012Validator(event_schema())
SHA = "sha256:" + "a" * 64
COMMIT = "0123456789" * 4
NULL_ID = "5f0c7f0e-3a52-4d6f-9f55-0f6f2f0b1c2d"
FILE = b"name: tone\ninstructions: Be kind.\nllm: {model: m}\n"
NORMALISED = {
    "name": "tone",
    "description": "How it sounds",
    "instructions": "Be kind.",
    "llm": {"provider": "openai", "model": "m", "transport": {"timeout_ms": 1}, "local": None},
}
JUDGE = Judge(
    name="tone",
    instructions="Be kind.",
    llm=Llm(model="m"),
    path="judges/tone.yaml",
    definition_hash=f"sha256:{hashlib.sha256(FILE).hexdigest()}",
    normalised=NORMALISED,
)
CONTEXT = RunContext(
    conversation_id="c-1",
    conversation_id_source="given",
    recipe_id="support",
    recipe_git_commit_sha=COMMIT,
    environment="production",
    budget_ms=30_000,
)
SEEN = Seen(sequence_hash=f"sha256:{hashlib.sha256(b'the view').hexdigest()}", entries=3, left_out_chars=0)
GRADED = Grading(
    outcome=Graded(
        answer="fail",
        reasoning="It was rude.",
        evidence=(
            Evidence(quote="No.", entry=2, verified=True),
            Evidence(quote="Go away.", verified=False),
        ),
        quotes=2,
    ),
    attempts=2,
    repaired=True,
    started_ms=120,
    duration_ms=900,
    wire=Wire(
        lane="openai_wire",
        output_mode="json",
        sent={"temperature": 0.0, "max_completion_tokens": 50},
        dropped=("reasoning_effort",),
    ),
    response_model="m-2026-11-01",
    usage=Usage(input_tokens=100, output_tokens=20),
)


def subject(**more: Any) -> Subject:
    given: dict[str, Any] = {"endpoint": Endpoint(), "rate": 0.25, "calibration": "uncalibrated", **more}
    return subject_of(JUDGE, recipe_id="support", **given)


def event(
    grading: Grading = GRADED,
    *,
    context: RunContext = CONTEXT,
    judge: Subject | None = None,
    seen: Seen | None = SEEN,
) -> dict[str, Any]:
    """An event, held to both schemas on the way and back through its own line."""
    made = judgement_event(
        context=context,
        subject=judge or subject(),
        grading=grading,
        seen=seen,
        event_id=uuid7(),
        null_id=NULL_ID,
        timestamp=utc_now(),
    )
    line = event_line(made)
    assert line.isascii() and b"\n" not in line
    again: dict[str, Any] = json.loads(line)
    assert again == made
    STRICT.validate(again)
    JudgementEvent.model_validate(again)
    return again


def null(type: Any = "timeout", message: str = "why", **more: Any) -> Grading:
    return Grading(outcome=Invalid(type=type, message=message), **more)


def changed(**more: Any) -> RunContext:
    given = {field: getattr(CONTEXT, field) for field in CONTEXT.__struct_fields__}
    return RunContext(**{**given, **more})


def v5(*name: str) -> str:
    namespace = uuid.uuid5(uuid.NAMESPACE_OID, "sandbox_judge")
    return str(uuid.uuid5(namespace, "\n".join(name)))


def test_worked_example() -> None:
    made = event()
    payload = made["payload"]
    judge_id = v5("judge", "support", "tone")
    key = v5("grading", "c-1", judge_id, JUDGE.definition_hash, "1")
    kept = {"name": "tone", "instructions": "Be kind.", "llm": {"provider": "openai", "model": "m"}}
    canonical = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
    assert payload.pop("timing") == {
        "started_ms": 120,
        "duration_ms": 900,
        "attempts": 2,
        "budget_ms": 30_000,
    }
    assert payload.pop("llm") == {
        "provider": "openai",
        "model": "m",
        "response_model": "m-2026-11-01",
        "lane": "openai_wire",
        "endpoint": "default",
        "sent": {"temperature": 0.0, "max_completion_tokens": 50},
        "dropped": ["reasoning_effort"],
        "output_mode": "json",
        "repaired": True,
    }
    assert payload == {
        "judgement_id": v5("judgement", key, SEEN.sequence_hash),
        "judge_id": judge_id,
        "judge_name": "tone",
        "result": "fail",
        "definition_hash": f"sha256:{hashlib.sha256(FILE).hexdigest()}",
        "grading_hash": f"sha256:{hashlib.sha256(canonical).hexdigest()}",
        "grading_key": key,
        "contract_version": "1",
        "sequence_hash": SEEN.sequence_hash,
        "recipe_id": "support",
        "reasoning": "It was rude.",
        "evidence": [
            {"entry": 2, "quote": "No.", "verified": True},
            {"quote": "Go away.", "verified": False},
        ],
        "usage": {"input_tokens": 100, "output_tokens": 20},
        "view": {"entries": 3, "left_out_chars": 0},
        "sampling": {"rate": 0.25},
        "calibration": "uncalibrated",
        "conversation_id_source": "given",
    }
    made.pop("payload"), made.pop("id"), made.pop("timestamp")
    assert made == {
        "event_name": "introspection.judgement",
        "conversation_id": "c-1",
        "environment": "production",
        "recipe_git_commit_sha": COMMIT,
    }


def test_pinned_ids() -> None:
    """The same, as literals: these may never change, or stored judgements lose their groups."""
    payload = event()["payload"]
    assert (payload["judge_id"], payload["grading_key"], payload["judgement_id"]) == PINNED_IDS


PINNED_IDS: tuple[str, str, str] = (
    "02ee3c82-b95c-59b9-a1ac-4e1f5e378902",
    "4227bb39-c91f-5382-89f9-2864ec8bf01b",
    "efb25fbc-1ecc-56cd-b6d9-93fc221bca13",
)


def test_a_verdict_keeps_its_id_when_the_hook_runs_twice() -> None:
    one, other = event(), event()
    assert one["id"] != other["id"]
    assert one["payload"]["judgement_id"] == other["payload"]["judgement_id"]
    went_on = Seen(sequence_hash=SHA, entries=4, left_out_chars=0)
    later = event(seen=went_on)["payload"]
    assert later["judgement_id"] != one["payload"]["judgement_id"]
    assert later["grading_key"] == one["payload"]["grading_key"]


def test_a_null_has_the_key_and_a_random_id() -> None:
    payload = event(null())["payload"]
    assert payload["judgement_id"] == NULL_ID
    assert payload["result"] is None
    assert payload["grading_key"] == event()["payload"]["grading_key"]
    assert payload["error"] == {"type": "timeout", "message": "why", "retryable": True}
    assert "reasoning" not in payload and "evidence" not in payload


@pytest.mark.parametrize("type", ERROR_TYPES)
def test_every_error_type(type: str) -> None:
    error = event(null(type))["payload"]["error"]
    assert error["retryable"] is (type in {"timeout", "rate_limited", "connection", "provider_error"})


def test_a_used_up_quota_is_not_retryable() -> None:
    grading = Grading(outcome=Invalid(type="rate_limited", message="quota", retryable=False))
    assert event(grading)["payload"]["error"]["retryable"] is False


def test_a_judge_that_never_called_has_no_record_of_a_call() -> None:
    payload = event(null("budget_exhausted"), judge=subject(endpoint=None))["payload"]
    assert payload["llm"] == {"provider": "openai", "model": "m"}
    assert payload["timing"] == {"attempts": 0, "budget_ms": 30_000}
    assert "usage" not in payload


def test_an_invalid_definition_has_a_name_and_the_hash_of_its_bytes() -> None:
    judge = Subject(name="broken", judge_id=v5("judge", "support", "broken"), definition_hash=SHA)
    payload = event(null("definition_invalid", "llm is missing"), judge=judge, seen=None)["payload"]
    assert (payload["judge_name"], payload["definition_hash"]) == ("broken", SHA)
    for absent in ("llm", "grading_hash", "sequence_hash", "view", "usage", "sampling"):
        assert absent not in payload


def test_a_verdict_without_a_view_is_a_bug() -> None:
    with pytest.raises(ValueError, match="view"):
        event(seen=None)


def test_a_given_judge_id_stands() -> None:
    assert event(judge=subject(configured_id="j-42"))["payload"]["judge_id"] == "j-42"


def test_the_endpoint_is_told_apart_and_not_told() -> None:
    url = "https://gateway.internal/v1"
    llm = event(judge=subject(endpoint=Endpoint(base_url=url, api_key="k")))["payload"]["llm"]
    assert llm["endpoint"] == f"sha256:{hashlib.sha256(url.encode()).hexdigest()}"


GROUP = "0B9C8D7E-1111-4222-8333-444455556666"


def test_ids_that_are_no_uuid_become_labels() -> None:
    context = changed(
        runtime_id="pod-7",
        runtime_group_id=GROUP,
        experiment_id="checkout",
        experiment_arm_id="b",
        labels={"team": "x"},
    )
    made = event(context=context)
    assert made["runtime_id"] == v5("runtime_id", "pod-7")
    assert made["runtime_group_id"] == GROUP.lower()
    assert made["experiment_id"] == v5("experiment_id", "checkout")
    assert made["payload"]["experiment_arm_id"] == v5("experiment_arm_id", "b")
    assert made["payload"]["labels"] == {
        "team": "x",
        "runtime_id": "pod-7",
        "experiment_id": "checkout",
        "experiment_arm_id": "b",
    }


@pytest.mark.parametrize(
    "text", ["12345678_1234123412341234123456789", "{" + GROUP + "}", " " + GROUP, "", "0x" + "1" * 30]
)
def test_what_only_resembles_a_uuid_is_a_label(text: str) -> None:
    made = event(context=changed(runtime_id=text))
    if text:
        assert made["payload"]["labels"] == {"runtime_id": text}
    else:
        assert "runtime_id" not in made and "labels" not in made["payload"]


def test_regrades_and_dry_runs_are_marked() -> None:
    payload = event(context=changed(regrade=True, judge_git_commit_sha="f" * 40, dry_run=True))["payload"]
    assert (payload["regrade"], payload["judge_git_commit_sha"], payload["dry_run"]) == (True, "f" * 40, True)
    plain = event()["payload"]
    assert not {"regrade", "judge_git_commit_sha", "dry_run"} & plain.keys()
    assert "recipe_git_commit_sha" not in event(context=changed(recipe_git_commit_sha=None))


def said(reasoning: str, evidence: tuple[Evidence, ...] = (), quotes: int = 0) -> Grading:
    return Grading(
        outcome=Graded(answer="pass", reasoning=reasoning, evidence=evidence, quotes=quotes), attempts=1
    )


def test_caps_are_visible() -> None:
    payload = event(said("a" * 5_000, tuple([Evidence(quote="q", verified=True)] * 10), 14))["payload"]
    assert len(payload["reasoning"]) <= 4_000
    assert re.search(r"… \[\d+ characters cut\]$", payload["reasoning"])
    assert len(payload["evidence"]) == 10 and payload["evidence_left_out"] == 4
    message = event(null("provider_error", "b" * 100_000))["payload"]["error"]["message"]
    assert len(message) <= 500 and message.endswith("characters cut]")


def test_secrets_do_not_get_out() -> None:
    context = changed(secrets=("hunter22-secret",))
    message = "401: bad key hunter22-secret, sk-" + "Ab3dEf6hIj9k" * 2
    error = event(null("auth", message), context=context)["payload"]["error"]["message"]
    assert "hunter22" not in error and "Ab3dEf" not in error and error.startswith("401: bad key")
    grading = said("It leaked hunter22-secret.", (Evidence(quote="hunter22-secret", verified=True),), 1)
    assert b"hunter22" not in event_line(event(grading, context=context))


def test_redaction() -> None:
    both = changed(redact=frozenset({"reasoning", "evidence"}))
    payload = event(context=both)["payload"]
    assert "reasoning" not in payload and "evidence" not in payload and payload["result"] == "fail"
    assert "evidence" in event(context=changed(redact=frozenset({"reasoning"})))["payload"]
    assert "reasoning" in event(context=changed(redact=frozenset({"evidence"})))["payload"]
    spoken = null("out_of_vocabulary", 'the reply has "Ada Lovelace"')
    assert "Ada" not in json.dumps(event(spoken, context=both))
    assert "Ada" in json.dumps(event(spoken))


def test_what_a_lane_records_cannot_break_the_event() -> None:
    wire = Wire(lane="local", sent={"temperature": math.nan, "stop": ("a", {1}), "x": b"y", "n": math.inf})
    llm = event(Grading(outcome=Invalid(type="internal", message="m"), attempts=1, wire=wire))["payload"][
        "llm"
    ]
    assert llm["sent"] == {"temperature": None, "stop": ["a", [1]], "x": "b'y'", "n": None}


def test_the_strict_schema_is_strict() -> None:
    good = event()
    STRICT.check_schema(event_schema())
    for spoil in (
        {"extra": 1},
        {"result": "passed"},
        {"result": None},
        {"error": {"type": "timeout", "message": "m", "retryable": True}},
        {"judgement_id": "x"},
        {"definition_hash": "abc"},
        {"reasoning": "a" * 4_001},
        {"evidence": [{"quote": "q" * 501, "verified": True}]},
        {"dry_run": False},
    ):
        assert not STRICT.is_valid({**good, "payload": {**good["payload"], **spoil}}), spoil
    assert not STRICT.is_valid({**good, "id": NULL_ID})
    assert not STRICT.is_valid({**good, "timestamp": "2026-11-30T21:00:00+00:00"})
    lost = {key: value for key, value in good["payload"].items() if key != "result"}
    assert not STRICT.is_valid({**good, "payload": lost})


TEXT = st.text(st.characters(codec=None), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    text=TEXT,
    id=TEXT,
    label=st.none() | TEXT,
    type=st.sampled_from(ERROR_TYPES),
    verdict=st.booleans(),
    secrets=st.lists(st.text(max_size=9), max_size=2).map(tuple),
)
def test_any_text_gives_a_valid_event(
    text: str, id: str, label: str | None, type: Any, verdict: bool, secrets: tuple[str, ...]
) -> None:
    context = changed(
        conversation_id=id,
        recipe_id=text,
        trace_id=label,
        service_name=label,
        runtime_id=label,
        experiment_arm_id=label,
        secrets=secrets,
    )
    evidence = (Evidence(quote=text, entry=1, verified=True),)
    made = event(said(text, evidence, 1) if verdict else null(type, text), context=context)
    assert made["conversation_id"].encode() is not None
    assert not re.search("[\ud800-\udfff]", json.dumps(made, ensure_ascii=False))

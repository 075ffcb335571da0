"""Events as a hook would emit them, made for tests: valid unless a test says otherwise."""

import json
import uuid
from typing import Any

from sandbox_judge.canonical import canonical_json
from sandbox_judge.clock import uuid7
from sandbox_judge.store.records import Incoming, read_line

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "sandbox_judge")
START = 1_790_000_000_000_000  # 2026-09-21T14:13:20Z, in microseconds
DAY = 86_400_000_000


def uid(*parts: object) -> str:
    return str(uuid.uuid5(NAMESPACE, "\n".join(map(str, parts))))


def moment(at: int) -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def sha(text: object) -> str:
    import hashlib

    return "sha256:" + hashlib.sha256(str(text).encode()).hexdigest()


def commit(n: int) -> str:
    return f"{n:040x}"


def event(
    result: str | None = "pass",
    *,
    judge: str = "tone",
    conversation: str = "c1",
    definition: str = "one",
    at: int = START,
    version: int = 1,
    contract: str = "1",
    error: str | None = None,
    view: str = "v",
    envelope: dict[str, Any] | None = None,
    llm: dict[str, Any] | None = None,
    **payload: Any,
) -> dict[str, Any]:
    judge_id = uid("judge", "support", judge)
    grading = uid("grading", conversation, judge_id, sha(definition), contract)
    verdict_id = uid("judgement", grading, sha(view))
    body: dict[str, Any] = {
        "judgement_id": verdict_id if result is not None else str(uuid.uuid4()),
        "judge_id": judge_id,
        "judge_name": judge,
        "recipe_id": "support",
        "result": result,
        "definition_hash": sha(definition),
        "grading_hash": sha("g" + definition),
        "contract_version": contract,
        "grading_key": grading,
        "sequence_hash": sha(view),
        "llm": {
            "provider": "openai",
            "model": "small",
            "lane": "openai_wire",
            "endpoint": "default",
            "sent": {},
            "output_mode": "schema",
            **({"response_model": "small-1"} if result is not None else {}),
            **(llm or {}),
        },
        "timing": {"started_ms": 1, "duration_ms": 420, "attempts": 1, "budget_ms": 30000},
        "sampling": {"rate": 1.0},
        "calibration": "calibrated",
        "conversation_id_source": "given",
        "view": {"entries": 3, "left_out_chars": 0},
    }
    if result is None:
        body["error"] = {"type": error or "timeout", "message": "took too long", "retryable": True}
    else:
        body["reasoning"] = "The answer was kind."
        body["evidence"] = [{"entry": 2, "quote": "of course", "verified": True}]
    body.update(payload)
    return {
        "id": uuid7(),
        "timestamp": moment(at),
        "event_name": "introspection.judgement",
        "conversation_id": conversation,
        "service_name": "desk",
        "environment": "production",
        "recipe_git_commit_sha": commit(version),
        "payload": body,
        **(envelope or {}),
    }


def ledger(**over: Any) -> dict[str, Any]:
    return {
        "event_name": "sandbox_judge.ledger",
        "id": uuid7(),
        "timestamp": moment(START),
        "conversation_id": "c1",
        "recipe_id": "support",
        "recipe_git_commit_sha": commit(1),
        "environment": "production",
        "judges": [{"name": "tone", "outcome": "verdict", "result": "pass"}],
        "counts": {"verdict": 1},
        "nulls": {},
        "budget": {"total_ms": 30000, "reserve_ms": 500, "used_ms": 900},
        **over,
    }


def line(value: dict[str, Any]) -> bytes:
    return canonical_json(value)


def incoming(value: dict[str, Any], *, received: int = START + DAY) -> Incoming:
    return read_line(line(value), received=received)


def loads(raw: bytes | str) -> Any:
    return json.loads(raw)

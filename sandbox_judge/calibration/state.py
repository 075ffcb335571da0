"""Is a judge calibrated, as it stands? From its record and set alone; light, because the hook asks.

`calibrated`: a test result of the same definition, contract, endpoint, set and answering model that passed.
`stale`: there is a result, but something of these differs. Else `uncalibrated`.
"""

from typing import Any, Final

import msgspec

from sandbox_judge.calibration.record import Record, Result
from sandbox_judge.canonical import canonical_json, sha256
from sandbox_judge.contract import CONTRACT_VERSION
from sandbox_judge.judgement import Calibration

# What nobody knows yet (before a call, in `check`) is held to be equal.
UNKNOWN: Final = object()


class _Row(msgspec.Struct):
    """What a set's hash is taken of. Everything else in a row is passed over."""

    id: str
    snapshot_hash: str
    kind: str = ""
    expected: str | None = None
    split: str | None = None


_rows: Final = msgspec.json.Decoder(_Row)


def quick_dataset_hash(data: bytes) -> str | None:
    """The set's hash without reading its conversations; None where a line is no row, so that nothing fits."""
    rows = []
    try:
        for line in data.split(b"\n"):
            if line.strip():
                row = _rows.decode(line)
                if row.kind == "judge_fixture":
                    rows.append([row.id, row.snapshot_hash, row.expected, row.split])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return sha256(canonical_json(sorted(rows, key=lambda row: [word or "" for word in row])))


def state_of(
    record: Record | None,
    *,
    definition_hash: str,
    dataset_hash: str | None,
    endpoint: Any = UNKNOWN,
    response_model: Any = UNKNOWN,
) -> Calibration:
    """The state of a judge. `endpoint` is the record's word for it; `response_model` None: none was told."""
    results = [] if record is None else [one for one in record.results if one.split == "test"]
    if not results:
        return "uncalibrated"
    fitting = [
        one
        for one in results
        if _fits(one, definition_hash, dataset_hash)
        and endpoint in (UNKNOWN, one.llm.endpoint)
        and response_model in (UNKNOWN, one.llm.response_model)
    ]
    if any(one.passed for one in fitting):
        return "calibrated"
    return "stale" if len(fitting) < len(results) else "uncalibrated"


def _fits(result: Result, definition_hash: str, dataset_hash: str | None) -> bool:
    return (
        result.definition_hash == definition_hash
        and result.contract_version == CONTRACT_VERSION
        and result.dataset_hash == dataset_hash
    )

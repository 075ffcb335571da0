"""The calibration record (`spec/judge-file.md`): every look at the test split, and what came of it.

Light: the hook reads it. A look is appended before the first model call and never removed.
"""

from typing import Any, Final, Literal

import msgspec

from sandbox_judge.calibration.row import Split
from sandbox_judge.canonical import sha256, without_surrogates
from sandbox_judge.errors import InputError
from sandbox_judge.lanes.base import Endpoint

MAX_BYTES: Final = 50 << 20


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that was asked, and where: `default`, or the hash of the base URL as events carry it."""

    provider: str
    model: str
    endpoint: str


class Answering(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that was asked, and the one that says it answered."""

    provider: str
    model: str
    endpoint: str
    response_model: str | None = None


class LookRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A labelled row as it was at a look. Rows of the other splits stand here too: one of them that is moved
    into the test split later can be known."""

    id: str
    snapshot_hash: str
    expected: str
    split: Split


class Look(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One look at the test split. `reason` is why it was looked at again."""

    definition_hash: str
    contract_version: str
    llm: Asked
    at: str
    rows: tuple[LookRow, ...]
    reason: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a finished look gave. Undefined figures are null."""

    definition_hash: str
    contract_version: str
    llm: Answering
    dataset_hash: str
    test_split_hash: str
    split: Split
    look: int
    n: int
    invalid: dict[str, int]
    confusion: dict[str, dict[str, int]]
    figures: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
    floors: dict[str, Any]
    passed: bool
    at: str


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    judge: str
    schema_version: Literal[1] = 1
    looks: tuple[Look, ...] = ()
    results: tuple[Result, ...] = ()


def read_record(data: bytes, *, where: str, judge: str) -> Record:
    """Raises InputError where the bytes are no record of this judge."""
    try:
        record = msgspec.json.decode(data, type=Record)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
        raise InputError(
            f"the calibration record is not valid: {fault}.",
            where=where,
            remedy="Take it back from version control; looks must not be lost.",
        ) from fault
    if record.judge != judge:
        raise InputError(f"the record is that of {record.judge!r}, not of {judge!r}.", where=where)
    return record


def record_bytes(record: Record) -> bytes:
    """The record as it is committed: indented, so that a review shows what was added."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def endpoint_word(endpoint: Endpoint) -> str:
    """How a record names where a call goes, the same as events do."""
    url = endpoint.base_url
    return "default" if url is None else sha256(without_surrogates(url).encode())

"""One row of a calibration set (`spec/judge-file.md`): a protected conversation, and a person's word on it.

The machine's part (conversation, engine, view) stands under a hash, so that an edited row is refused. The
person's part is `expected`, `split`, `approved_by` and `note`, and nothing else.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from sandbox_judge.canonical import canonical_json, sanitised, sha256
from sandbox_judge.contract import CONTRACT_VERSION
from sandbox_judge.conversation.document import json_document, too_deep
from sandbox_judge.conversation.formats import canonical
from sandbox_judge.conversation.model import SCHEMA, Conversation
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view
from sandbox_judge.version import __version__

Verdict = Literal["pass", "fail", "not_applicable"]
Split = Literal["train", "dev", "test"]
Preference = Literal["first", "second", "tie"]

VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
SPLITS: Final[tuple[Split, ...]] = get_args(Split)
PREFERENCES: Final[tuple[Preference, ...]] = get_args(Preference)
FIXTURE: Final = "judge_fixture"
PAIR: Final = "judge_pair"
# What a person may write into a row.
PERSONAL: Final = ("expected", "split", "approved_by", "note")


class Engine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What made a row: the view that a judge saw depends on the contract's version."""

    name: str
    version: str
    contract_version: str


class FixtureRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation with its label, once a person gave one."""

    id: str
    conversation: Conversation
    engine: Engine
    sequence_hash: str
    snapshot_hash: str
    source: str
    schema_version: Literal[1] = 1
    kind: Literal["judge_fixture"] = "judge_fixture"
    expected: Verdict | None = None
    split: Split | None = None
    approved_by: str | None = None
    note: str | None = None

    @property
    def labelled(self) -> bool:
        return self.expected is not None

    @property
    def stale(self) -> bool:
        """Another contract's view was protected: the row has to be exported again."""
        return self.engine.contract_version != CONTRACT_VERSION


class PairRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two answers to one request, for probes only. The snapshot covers both candidates and the engine."""

    id: str
    candidates: tuple[Conversation, Conversation]
    engine: Engine
    snapshot_hash: str
    source: str
    schema_version: Literal[1] = 1
    kind: Literal["judge_pair"] = "judge_pair"
    expected: Preference | None = None
    split: Split | None = None
    approved_by: str | None = None
    note: str | None = None


Row = FixtureRow | PairRow


def own_engine() -> Engine:
    return Engine(name="sandbox_judge", version=__version__, contract_version=CONTRACT_VERSION)


def snapshot_hash(value: Mapping[str, Any]) -> str:
    """The hash over the machine's part of a row, as JSON built-ins."""
    if value.get("kind") == PAIR:
        part = {key: value.get(key) for key in ("candidates", "engine")}
    else:
        part = {key: value.get(key) for key in ("conversation", "engine", "sequence_hash")}
    return sha256(canonical_json(part))


def new_row(conversation: Conversation, *, id: str, source: str, **personal: str | None) -> dict[str, Any]:
    """A protected row as JSON built-ins. `personal` are keys of `PERSONAL`."""
    written = sanitised(conversation)
    row: dict[str, Any] = {
        "schema_version": 1,
        "kind": FIXTURE,
        "id": id,
        "conversation": written,
        "engine": msgspec.to_builtins(own_engine()),
        # Of what will be read back: a lone surrogate is another character then.
        "sequence_hash": build_view(_conversation(written)).sequence_hash,
    }
    return _closed(row, source, personal)


def new_pair(
    first: Conversation, second: Conversation, *, id: str, source: str, **personal: str | None
) -> dict[str, Any]:
    """A protected pair as JSON built-ins."""
    row: dict[str, Any] = {
        "schema_version": 1,
        "kind": PAIR,
        "id": id,
        "candidates": [sanitised(first), sanitised(second)],
        "engine": msgspec.to_builtins(own_engine()),
    }
    return _closed(row, source, personal)


def _closed(row: dict[str, Any], source: str, personal: Mapping[str, str | None]) -> dict[str, Any]:
    row |= {"snapshot_hash": snapshot_hash(row), "source": source}
    return row | {key: personal[key] for key in PERSONAL if personal.get(key) is not None}


def row_line(row: Mapping[str, Any]) -> bytes:
    """The row as its line, without the line feed. Key order is the row's own, for readers."""
    return msgspec.json.encode(sanitised(row))


def read_row(value: Any) -> Row:
    """The row that a parsed line is, its hashes checked. Raises InputError with one sentence on the fault."""
    if not isinstance(value, dict):
        raise InputError("the line is no JSON object.")
    kind = value.get("kind")
    if kind not in (FIXTURE, PAIR):
        raise InputError(f"kind is {_told(kind)}.", remedy=f"It is {FIXTURE} or {PAIR}.")
    _exact(value, "expected", PREFERENCES if kind == PAIR else VERDICTS)
    _exact(value, "split", SPLITS)
    try:
        if kind == PAIR:
            row: Row = msgspec.convert(value | {"candidates": _candidates(value)}, PairRow)
        else:
            row = msgspec.convert(
                value | {"conversation": _conversation(value.get("conversation"))}, FixtureRow
            )
    except msgspec.ValidationError as fault:
        raise InputError(f"the row is not valid: {fault}.", remedy=_REMEDY) from fault
    _held(value, row)
    return row


_REMEDY: Final = (
    f"A person adds {', '.join(PERSONAL)} and nothing else; `sandbox-judge fixture new` writes the rest."
)


def _exact(value: Mapping[str, Any], key: str, words: tuple[str, ...]) -> None:
    said = value.get(key)
    if said is None or (isinstance(said, str) and said in words):
        return
    near = isinstance(said, str) and said.strip().lower().replace("-", "_") in words
    raise InputError(
        f"{key} is {_told(said)}.",
        remedy=f"It is one of {', '.join(words)}, exactly{' so written' if near else ''}.",
    )


def _candidates(value: Mapping[str, Any]) -> tuple[Conversation, ...]:
    given = value.get("candidates")
    if not isinstance(given, list) or len(given) != 2:
        raise InputError("candidates is not two conversations.")
    return tuple(_conversation(one) for one in given)


def _conversation(value: Any) -> Conversation:
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise InputError("conversation is not a canonical one.", remedy=_REMEDY)
    if too_deep(value):
        raise InputError("the conversation is nested too deeply to be read.")
    return next(canonical.read(json_document(value)))


def _held(value: Mapping[str, Any], row: Row) -> None:
    """Raises InputError where the machine's part is not what its hashes say."""
    if snapshot_hash(value) != row.snapshot_hash:
        raise InputError("the row was edited: its snapshot_hash does not hold.", remedy=_REMEDY)
    blank = [
        key for key in ("id", "approved_by") if (said := getattr(row, key)) is not None and not said.strip()
    ]
    if blank:
        raise InputError(f"{blank[0]} is blank.")
    if isinstance(row, FixtureRow) and not row.stale:
        sequence_hash = build_view(row.conversation).sequence_hash
        if sequence_hash != row.sequence_hash:
            raise InputError(
                "the view of the conversation is not the one whose sequence_hash stands here.", remedy=_REMEDY
            )


def _told(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"

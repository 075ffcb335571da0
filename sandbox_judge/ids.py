"""Ids that follow from what they name (`spec/events.md`, Ids and hashes). Pure."""

import uuid
from typing import Final

from sandbox_judge.canonical import without_surrogates
from sandbox_judge.contract import CONTRACT_VERSION

NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_OID, "sandbox_judge")


def uuid5_of(kind: str, *fields: str) -> str:
    """The UUIDv5 of a kind and its fields: named by all of them in order, joined by line feeds."""
    return str(uuid.uuid5(NAMESPACE, without_surrogates("\n".join((kind, *fields)))))


def judge_id_of(recipe_id: str, name: str, *, configured: str | None = None) -> str:
    """The id from settings, else one that survives edits and moves of the file."""
    return configured or uuid5_of("judge", recipe_id, name)


def grading_key_of(*, conversation_id: str, judge_id: str, definition_hash: str) -> str:
    """The key that readers group by: a conversation, a judge, a definition and a contract, on nulls too."""
    return uuid5_of("grading", conversation_id, judge_id, definition_hash, CONTRACT_VERSION)


def verdict_id_of(*, grading_key: str, sequence_hash: str) -> str:
    """The id of a verdict: the same when the hook is called twice, so that nothing counts twice."""
    return uuid5_of("judgement", grading_key, sequence_hash)

"""The schemas themselves: closed at every level, and naming the whole closed lists of the specification."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sandbox_judge.event_schema import event_schema, ledger_schema
from sandbox_judge.ledger import OUTCOMES
from sandbox_judge.nulls import ERROR_TYPES

# Whose keys are not ours to name: parameters of a provider, labels of a host, counts by name.
OPEN = {"sent", "labels"}


@pytest.mark.parametrize("schema", [event_schema(), ledger_schema()], ids=["event", "ledger"])
def test_closed_at_every_level(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)

    def walk(node: Any, name: str) -> None:
        if isinstance(node, list):
            for inner in node:
                walk(inner, name)
        elif isinstance(node, dict):
            if node.get("type") == "object" and name not in OPEN:
                assert node["additionalProperties"] is False, name
                assert set(node["required"]) <= set(node["properties"]), name
            for key, inner in node.items():
                walk(inner, key)

    walk(schema, "root")


def test_each_call_gives_its_own_copy_of_what_it_builds() -> None:
    event_schema()["properties"].clear()
    assert event_schema()["properties"]


def test_every_key_of_the_specification_is_named(shared: Path) -> None:
    """The wire shape is printed in the specification: each quoted key there is a property here."""
    text = (shared / "spec" / "events.md").read_text()
    shape = text.partition("```\n")[2].partition("\n```")[0]
    named = {part for n, part in enumerate(shape.split('"')) if n % 2}
    values = {"pass", "fail", "not_applicable", "1", "default", "schema", "json", "text", "…"}
    values |= {"calibrated", "stale", "uncalibrated", "introspection.judgement", "sha256:…"}
    values |= {word for word in named if word.startswith("<") or word[:4].isdigit()}
    properties: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            properties.update(node.get("properties", {}))
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    walk(event_schema())
    assert len(named) > 40
    assert named - values <= properties


def test_the_closed_lists_are_whole(shared: Path) -> None:
    text = (shared / "spec" / "events.md").read_text()
    table = text.partition("| type | from |")[2].partition("(* retryable.)")[0]
    types = {
        word for row in table.splitlines() for word in row.split("|")[1:2] for word in word.split("`")[1::2]
    }
    assert types == set(ERROR_TYPES)
    sentence = text.partition("`outcome` is one of ")[2].partition(". The counts")[0]
    assert set(sentence.split("`")[1::2]) - {"--explain"} == set(OUTCOMES)

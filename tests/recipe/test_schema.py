"""The JSON Schema of a judge file: valid itself, and of one mind with the reader about a file's form."""

import argparse
import io
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from test_oracle_mutants import mutated

from sandbox_judge.cli import schema as schema_command
from sandbox_judge.cli.surface import Surface
from sandbox_judge.recipe.judge_file import read_judge_file
from sandbox_judge.recipe.schema import judge_file_schema
from sandbox_judge.recipe.template import judge_template
from sandbox_judge.yaml_core import load_plain, read_document
from sandbox_judge.yaml_tree import value_of

CORPUS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "corpus" / "judge_files.json").read_text()
)
# What a schema cannot say: the engine's and the address's own rules, and how a number is written.
BEYOND = ("judge.on.regex_invalid", "judge.llm.local.base_url_invalid")
HOW_WRITTEN = ("temperature-hex", "max-tokens-float", "retries-minus-zero")


def accepts(value: Any) -> bool:
    return jsonschema.Draft202012Validator(judge_file_schema()).is_valid(value)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(judge_file_schema())
    assert judge_file_schema() is not judge_file_schema()


@pytest.mark.parametrize("row", CORPUS, ids=[row["id"] for row in CORPUS])
def test_it_agrees_with_the_reader_on_the_corpus(row: dict[str, Any]) -> None:
    if "text" not in row or row["id"] in HOW_WRITTEN:
        pytest.skip("not a matter of form")
    content = row["text"].encode()
    document = read_document(content)
    if document.faults:
        pytest.skip("no YAML, so there is nothing to look at")
    file = read_judge_file("judges/a.yaml", content)
    if {d.code for d in file.diagnostics} & set(BEYOND):
        return
    assert accepts(value_of(document.root)) == file.is_valid


def test_it_agrees_with_the_reader_on_mutants() -> None:
    rng = random.Random(7)
    answers = []
    for _ in range(1_500):
        tree = mutated(rng)
        content = json.dumps(tree).encode()
        file = read_judge_file("judges/a.yaml", content)
        codes = {d.code for d in file.diagnostics}
        if codes & {*BEYOND, "judge.yaml_malformed"} or file.not_online:
            continue
        # A float without a fraction is an integer for a schema; lengths in bytes are not a schema's.
        if _has_whole_float(tree) or any("é" * 128 in str(v) for v in tree.values()):
            continue
        if codes == {"judge.llm.model_invalid"} or _has_edge_blank(tree):
            continue
        assert accepts(json.loads(content)) == file.is_valid, f"{content!r} {file.diagnostics}"
        answers.append(file.is_valid)
    assert 100 < sum(answers) < len(answers) - 100


def _has_whole_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and value == int(value)


def _has_edge_blank(tree: Any) -> bool:
    """Python's \\s has four control characters that the format does not count as blank."""
    return "\\u001c" in json.dumps(tree)


def test_the_template_fits_it_in_an_editor() -> None:
    assert accepts(load_plain(judge_template("a-b")))


@pytest.mark.parametrize("kind", ["judge", "event", "ledger"])
def test_the_command_prints_a_schema(kind: str, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    schema_command.add(parser.add_subparsers(required=True))
    out = io.BytesIO()
    args = parser.parse_args(["schema", kind])
    surface = Surface(stdin=io.BytesIO(), stdout=out, stderr=io.StringIO(), environ={}, cwd=tmp_path)
    assert args.run(args, surface) == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(out.getvalue()))

"""A judge file's bytes to a `Judge`, or to every fault: the corpus, the shared cases, and more."""

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from format_checker import asked
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.gate.language import GateSyntaxError, RegexLiteral
from sandbox_judge.recipe.base_url import fault_of
from sandbox_judge.recipe.diagnostics import CODES
from sandbox_judge.recipe.judge import Matcher
from sandbox_judge.recipe.judge_file import duplicate_names, is_judge_path, read_judge_file

CORPUS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "corpus" / "judge_files.json").read_text()
)
PATH = "judges/tone.yaml"
PLAIN = b"name: tone\ninstructions: Judge the tone.\nllm:\n  model: gpt-5\n"


def content_of(row: dict[str, Any]) -> bytes:
    if "base64" in row:
        return base64.b64decode(row["base64"])
    if "repeat" in row:
        before, piece, times, after = row["repeat"]
        return f"{before}{piece * times}{after}".encode()
    return str(row["text"]).encode()


@pytest.mark.parametrize("row", CORPUS, ids=[row["id"] for row in CORPUS])
def test_corpus(row: dict[str, Any]) -> None:
    content = content_of(row)
    file = read_judge_file(PATH, content)
    assert file.definition_hash == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert file.is_valid == (row["expected"] == "valid")
    found = [[d.code, d.line, d.column] for d in file.diagnostics]
    assert found == row.get("found", [])
    assert {d.code for d in file.diagnostics} <= CODES
    assert all(d.help for d in file.diagnostics)
    if row["id"] in ("utf-16", "latin-1"):
        return
    form, codes = asked(content.decode())
    if "deviation" in row:
        assert form is not None and not file.is_valid, "no deviation any more"
    else:
        assert (form is not None) == file.is_valid, codes
        assert file.judge is None or file.judge.normalised == form


def test_every_shared_case(shared: Path) -> None:
    rows = json.loads((shared / "cases" / "judge_files.json").read_text())
    wrong = [
        row["id"]
        for row in rows
        if read_judge_file(PATH, base64.b64decode(row["content_base64"])).is_valid
        != (row["expected"] == "valid")
    ]
    assert len(rows) >= 34
    assert wrong == []


def test_a_judge_is_what_its_file_says() -> None:
    file = read_judge_file(
        PATH,
        b"name: tone\ndescription: d\non:\n- event: tool\n"
        b"  match: {name: [a, /b/i], args.n: 1}\n- event: message\n"
        b"- {event: feedback, match: {}}\ninstructions: i\nllm:\n  provider: acme\n  model: m\n"
        b"  request: {temperature: 0, max_tokens: 7, reasoning_effort: low}\n  transport: {max_retries: 2}\n"
        b"  local: {base_url: 'https://a.example/v1', api_key_env: KEY}\n",
    )
    judge = file.judge
    assert judge is not None
    assert (judge.name, judge.description, judge.instructions, judge.path) == ("tone", "d", "i", PATH)
    assert judge.on == (
        Matcher(event="tool", match={"name": ["a", "/b/i"], "args.n": 1}),
        Matcher(event="message"),
        Matcher(event="feedback", match={}),
    )
    assert judge.llm.request.temperature_authored
    assert (judge.llm.request.max_tokens, judge.llm.request.reasoning_effort) == (7, "low")
    assert (judge.llm.transport.max_retries, judge.llm.transport.timeout_ms) == (2, 60_000)
    assert judge.llm.local is not None and judge.llm.local.api_key_env == "KEY"
    assert judge.grading_hash.startswith("sha256:")


def test_the_default_temperature_is_not_an_authored_one() -> None:
    judge = read_judge_file(PATH, PLAIN).judge
    assert judge is not None
    assert (judge.llm.request.temperature, judge.llm.request.temperature_authored) == (0.0, False)


def test_a_cosmetic_edit_moves_the_definition_hash_alone() -> None:
    one = read_judge_file(PATH, PLAIN).judge
    other = read_judge_file(PATH, b"# a comment\n" + PLAIN + b"description: for people\n").judge
    assert one is not None and other is not None
    assert one.definition_hash != other.definition_hash
    assert one.grading_hash == other.grading_hash


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"name: tone\n", "tone"),
        (b"name: tone\nllm: [\n", "tone"),
        (b"name: tone\non:\n\t- a\n", "tone"),
        (b"judge: tone\nllm: 5\n", "tone"),
        (b"name: Tone\n", None),
        (b"name: tone\nname: other\n", None),
        (b"name: tone\njudge: other\n", None),
        (b"name: to", "to"),
        (b"name: [tone", None),
        (b"name: .nan\n", None),
        (b"name: !x tone\n", None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_a_broken_definition_keeps_a_name_that_can_be_read(content: bytes, name: str | None) -> None:
    file = read_judge_file(PATH, content)
    assert not file.is_valid
    assert file.judge is None
    assert file.name == name


@pytest.mark.parametrize("kind", ["offline", "mission"])
def test_judges_of_other_runs_are_told_apart(kind: str) -> None:
    file = read_judge_file(PATH, PLAIN + f"type: {kind}\n".encode())
    assert file.not_online and file.is_valid
    assert file.judge is None
    assert file.name == "tone"


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("verdicts", "always pass, fail and not_applicable"),
        ("threshold", "verdict, not a score"),
        ("enabled", "live setting"),
        ("sample_rate", "live setting"),
        ("model", "under `llm`"),
    ],
)
def test_a_field_that_lives_elsewhere_is_told_where(field: str, part: str) -> None:
    (found,) = read_judge_file(PATH, PLAIN + f"{field}: 1\n".encode()).diagnostics
    assert found.code == "judge.unknown_field"
    assert part in (found.help or "")


def test_a_regex_is_compiled_once_and_only_where_there_is_one() -> None:
    asked_for: list[str] = []

    def compiles(literal: RegexLiteral) -> None:
        asked_for.append(str(literal))
        raise GateSyntaxError("no")

    gate = b"on:\n- {event: tool, match: {a: /x/i, b: [/x/i, plain, [/y/]], c: {d: /z/}, e: 5}}\n"
    file = read_judge_file(PATH, PLAIN + gate, compiles=compiles)
    assert asked_for == ["/x/i", "/y/"]
    assert [d.code for d in file.diagnostics] == ["judge.on.regex_invalid"] * 3
    assert read_judge_file(PATH, PLAIN, compiles=compiles).is_valid


def test_reading_without_a_regex_loads_no_engine() -> None:
    code = (
        "import sys; from sandbox_judge.recipe.judge_file import read_judge_file as read; "
        f"assert read('judges/a.yaml', {PLAIN!r}).judge; "
        "bad = [m for m in sys.modules if m.split('.')[0] in ('pydantic_core', 'pydantic', "
        "'introspection_recipe_check', 'importlib_metadata')]; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@given(st.binary(max_size=120).map(lambda tail: PLAIN[:30] + tail) | st.text(max_size=120).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_reading_never_raises(content: bytes) -> None:
    file = read_judge_file(PATH, content)
    assert (file.judge is None) != file.is_valid
    assert {d.code for d in file.diagnostics} <= CODES


@pytest.mark.parametrize(
    ("path", "is_judge"),
    [
        ("judges/a.yaml", True),
        ("judges/a.yml", True),
        ("judges/.yaml", True),
        ("judges/A.YAML", False),
        ("judges/a.yaml.bak", False),
        ("judges/sub/a.yaml", False),
        ("judges/a.calibration.jsonl", False),
        ("a.yaml", False),
        ("x/judges/a.yaml", False),
        ("judges", False),
    ],
)
def test_which_files_are_judges(path: str, is_judge: bool) -> None:
    assert is_judge_path(path) == is_judge


def test_the_later_path_has_the_duplicate_name() -> None:
    files = [read_judge_file(f"judges/{stem}.yaml", PLAIN) for stem in ("b", "a", "c")]
    files.append(read_judge_file("judges/d.yaml", b"name: tone\n"))
    found = duplicate_names(files)
    assert [d.path for d in found] == ["judges/b.yaml", "judges/c.yaml", "judges/d.yaml"]
    assert "judges/a.yaml" in found[0].message


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "HTTPS://LOCALHOST",
        "https:a.example",
        "https:///a.example",
        "https:\\\\a.example",
        "http://127.1",
        "http://0x7f000001",
        "http://0177.0.0.1",
        "http://127.0.0.2",
        "http://[::1]:80",
        "http://[::ffff:127.0.0.1]",
        "https://[::1",
        "https://a@b",
        "https://:@b",
        "https://@b",
        "https://a:b@c",
        "https://a?",
        "https://a#",
        "https://a:65536",
        "https://a:08",
        "https://a..b",
        "https://a.1",
        "https://1.2.3.256",
        "https://xn--a",
        "https://xn--bcher-kva.example",
        "https://bücher.example",
        "https://a%2eb",
        "https://a%2fb",
        "https://a%00b",
        "https://a|b",
        "https://a_b",
        "ftp://a",
        "//a",
        "/a",
        "https://",
        "https://.",
        "a",
        "http://%6c%6f%63alhost",
        "https://a\\b@c",
        "https://a/b@c",
        "https://a^b",
        "https://a`b",
        "https://００.example",
    ],
)
def test_base_urls_are_read_as_the_checker_reads_them(url: str) -> None:
    local = f"  local: {{api_key_env: KEY, base_url: {json.dumps(url)}}}\n"
    form, _ = asked(PLAIN.decode() + local)
    assert (fault_of(url) is None) == (form is not None)

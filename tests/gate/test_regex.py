import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import introspection_recipe_check
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.gate.language import GateSyntaxError, RegexLiteral, literal_of
from sandbox_judge.gate.regex import compile_regex

CORPUS = json.loads((Path(__file__).parent.parent / "corpus" / "gates.json").read_text())


def answer(gate: str, text: str) -> str:
    try:
        literal = literal_of(gate)
        found = compile_regex(literal).search(text) if literal else gate == text
    except GateSyntaxError:
        return "error"
    return "match" if found else "no-match"


def oracle_takes(gate: str) -> bool:
    judge = {
        "name": "a",
        "instructions": "x",
        "llm": {"model": "m"},
        "on": [{"event": "message", "match": {"text": gate}}],
    }
    try:
        introspection_recipe_check.parse_judge_definitions(
            [{"path": "judges/a.yaml", "content": json.dumps(judge)}]
        )
    except Exception:
        return False
    return True


@pytest.mark.parametrize("row", CORPUS, ids=lambda row: row["gate"])
def test_corpus(row: dict[str, Any]) -> None:
    assert answer(row["gate"], row["text"]) == row["expected"]
    assert oracle_takes(row["gate"]) == (row["expected"] != "error")


def test_every_case(shared: Path) -> None:
    rows = json.loads((shared / "cases" / "gates.json").read_text())
    wrong = [row for row in rows if answer(row["gate"], row["text"]) != row["expected"]]
    assert rows
    assert not wrong


PIECES = st.sampled_from(
    re.split(
        "¦",
        r"a¦b¦é¦字¦.¦.*¦\w¦\d+¦\s?¦\b¦\B¦^¦$¦\A¦\z¦(¦)¦(?:¦(?i)¦(?i:¦(?x)¦(?s-m)¦(?P<n>¦(?<n>¦(?=¦(?!¦|¦*¦+¦?¦??"
        r"¦{2}¦{2,}¦{,3}¦{3,2}¦{¦}¦[¦]¦[^¦[a-c]¦[a-z&&[^b]]¦[[:alpha:]]¦[^\W]¦[a--b]¦\p{L}¦\pN¦\P{Greek}¦\p{Zz9}"
        r"¦\x41¦\x{1F600}¦\u0041¦\u{110000}¦\07¦\1¦\k<n>¦\Q¦\E¦\h¦\R¦\X¦\cJ¦\b{start}¦\b{end-half}¦\<¦\>¦\-"
        r"¦\/¦\#¦#¦{500}¦{1000}¦\¦(?-u)¦(?-u:\w)¦\xff¦(?R)¦(?U)¦(?u)¦-¦&¦~¦&&¦ ¦(?P<n>a)"
        "¦\n¦\x00¦# c\n",
    )
)


@settings(max_examples=400, deadline=None)
@given(pieces=st.lists(PIECES, max_size=7), flags=st.sampled_from(["", "i", "m", "s", "u", "ims", "ii", "x"]))
def test_takes_what_the_format_takes(pieces: list[str], flags: str) -> None:
    gate = f"/{''.join(pieces)}/{flags}"
    try:
        literal = literal_of(gate)
        assert literal is not None
        compile_regex(literal)
        taken = True
    except GateSyntaxError as error:
        taken = False
        assert str(error)
    assert taken == oracle_takes(gate)


@pytest.mark.parametrize(
    ("pattern", "flags", "said"),
    [
        ("ab(?=c)", "", "at character 3 of the pattern: look-around"),
        ("ab(?=c)", "ims", "at character 3 of the pattern: look-around"),
        ("(?<!no )refund", "", "look-around"),
        (r"(a)\1", "", "backreferences"),
        (r"\w{1000}", "", "size limit"),
        ("a(b", "", r"\("),
        ("\ud800", "", "surrogate"),
    ],
)
def test_refusals_name_cause_and_place(pattern: str, flags: str, said: str) -> None:
    with pytest.raises(GateSyntaxError) as raised:
        compile_regex(RegexLiteral(pattern, flags))
    assert said in str(raised.value)


def test_a_huge_refused_pattern_has_a_short_message() -> None:
    with pytest.raises(GateSyntaxError) as raised:
        compile_regex(RegexLiteral("a" * 50_000 + "(?=b)"))
    assert len(str(raised.value)) < 600


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(), max_size=30))
def test_any_text_can_be_searched(text: str) -> None:
    assert compile_regex(RegexLiteral("")).search(text)
    assert compile_regex(RegexLiteral(".", "s")).search(text) == bool(text)


def test_the_engine_leaves_the_rest_of_the_process_as_it_was() -> None:
    """Loaded alone, and importing the whole package afterwards still works."""
    script = (
        "import sys\n"
        "from sandbox_judge.gate.language import RegexLiteral\n"
        "from sandbox_judge.gate.regex import compile_regex\n"
        "assert compile_regex(RegexLiteral('a')).search('cab')\n"
        "assert 'pydantic_core' not in sys.modules\n"
        "import pydantic\n"
        "class Model(pydantic.BaseModel):\n    x: int\n"
        "assert Model(x='3').x == 3\n"
        "try:\n    Model(x='y')\n"
        "except pydantic.ValidationError as error:\n    assert error.error_count() == 1\n"
        "else:\n    raise SystemExit('no error')\n"
        "assert compile_regex(RegexLiteral('b')).search('cab')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

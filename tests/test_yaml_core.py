"""Strict YAML with positions: what is read, what is refused, and that nothing hostile costs much."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge import yaml_core
from sandbox_judge.yaml_core import Bounds, YamlError, load_plain, read_document
from sandbox_judge.yaml_tree import Document, MappingNode, Scalar, value_of

CORPUS = Path(__file__).parent / "corpus"
SCALARS: list[dict[str, Any]] = json.loads((CORPUS / "judge_files.scalars.json").read_text())


def faults(data: bytes) -> list[tuple[str, int, int]]:
    return [(f.message, f.line, f.column) for f in read_document(data).faults]


@pytest.mark.parametrize("row", SCALARS, ids=[repr(row["yaml"]) for row in SCALARS])
def test_untyped_scalars_resolve_as_in_the_pinned_table(row: dict[str, Any]) -> None:
    document = read_document(f"x: {row['yaml']}\n".encode())
    if row.get("error"):
        assert document.faults
        return
    assert not document.faults
    found = value_of(document.root)["x"]
    assert json.dumps(found) == json.dumps(row["value"])


def test_nodes_know_where_they_stand_and_how_they_were_written() -> None:
    root = read_document("\ufeffä: 'b'\nlist:\n  - {k: v}\n".encode()).root
    assert isinstance(root, MappingNode)
    key, value = root.pairs["ä"]
    assert (key.line, key.column, key.plain) == (1, 1, True)
    assert isinstance(value, Scalar)
    assert (value.line, value.column, value.plain) == (1, 4, False)
    assert value_of(root) == {"ä": "b", "list": [{"k": "v"}]}


@pytest.mark.parametrize(
    ("data", "line", "column", "part"),
    [
        (b"a: 1\na: 2\n", 2, 1, "stands twice (first in line 1)"),
        (b"a:\n  b: 1\n  'b': 2\n", 3, 3, "stands twice"),
        (b"a: !x 1\n", 1, 4, "'!x'"),
        (b"<<: {a: 1}\n", 1, 1, "merge"),
        (b"a: 1\n---\nb: 2\n", 2, 1, "second document"),
        (b"a:\n\tb: 1\n", 2, 1, "tab"),
        (b"a: .nan\n", 1, 4, "finite"),
        (b"a: 1e999\n", 1, 4, "number"),
        (b"a: *b\n", 1, 4, "*b"),
        (b"a: &b [*b]\n", 1, 8, "inside"),
        (b"~: 1\n", 1, 1, "key"),
        (b"? [a]\n: 1\n", 1, 3, "key"),
        (b"a: \x01\n", 1, 4, "U+0001"),
        ("a: é\u2028\n".encode(), 1, 5, "U+2028"),
        (b"a: 1\r\nb: \xff\n", 2, 4, "0xff"),
        ("a: 1".encode("utf-16"), 1, 1, "UTF-16"),
        (b"a: 'b\n", 2, 1, "end of stream"),
    ],
)
def test_faults_say_what_and_where(data: bytes, line: int, column: int, part: str) -> None:
    found = faults(data)
    assert found, data
    assert (found[0][1], found[0][2]) == (line, column)
    assert part in found[0][0]


def test_faults_that_do_not_end_the_reading_are_all_told() -> None:
    found = faults(b"a: .nan\nb: !x 1\na: 2\n<<: 3\nc: .inf\n")
    assert [line for _, line, _ in found] == [1, 2, 3, 4, 5]


def test_what_was_whole_before_a_fatal_fault_is_kept() -> None:
    document = read_document(b"name: a\nlater: [unclosed\n")
    assert document.ended_early
    assert isinstance(document.root, MappingNode)
    assert "name" in document.root.pairs


BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (n + 1, n + 1, b",".join([b"*%c" % n] * 9)) for n in range(ord("a"), ord("i"))
)


@pytest.mark.parametrize(
    "data",
    [
        b"a: " * 17_000_000,
        BOMB,
        b"[" * 1_000_000,
        b"{a: " * 250_000,
        b"- " * 500_000,
        b"? " * 500_000,
        b"&a " * 300_000,
        b"!a " * 300_000,
        b": " * 500_000,
        b"%" * 1_000_000,
        b'"' + b"a" * 1_000_000,
        b"a: &a 1\nb: [" + b"*a, " * 200_000,
        b"a: |\n" + b"\n".join(b"- |" for _ in range(200_000)),
        b"a:\n" + b"- |\n" * 200_000,
        b"a:\n" + b"- '\n\n  '\n" * 100_000,
        b"[" + b"a #\n, " * 140_000,
        b"{" + b'"\\ud83d\\ude00": 1,' * 50_000 + b'"\\ud800": 1}',
        b"[" + b'"\\ud83d\\ude00",' * 60_000 + b"]",
        b"x: " + b"9" * 900_000,
        b"x: 0x" + b"f" * 900_000,
    ],
    ids=range(20),
)
def test_hostile_files_end_soon(data: bytes) -> None:
    start = time.process_time()
    read_document(data)
    assert time.process_time() - start < 1.5


def test_bounds_count_what_aliases_stand_for() -> None:
    tight = Bounds(size=1 << 20, nodes=100, depth=8, aliases=20)
    assert not read_document(b"a: &a [1, 2]\nb: [*a, *a]\n", bounds=tight).faults
    many = read_document(b"a: &a [1, 2, 3, 4]\nb: [" + b"*a, " * 20 + b"]\n", bounds=tight)
    assert "100 values" in many.faults[0].message
    deep = read_document(b"a: &a [[[[]]]]\nb: &b [[[*a]]]\nc: [[[*b]]]\n", bounds=tight)
    assert "8 levels" in deep.faults[0].message


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")))
@settings(max_examples=300, deadline=None)
def test_reading_never_raises(data: bytes) -> None:
    document = read_document(data)
    assert document.faults or document.root is None or value_of(document.root) is not document


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
@settings(max_examples=200, deadline=None)
def test_json_is_read_as_json(value: Any) -> None:
    assert load_plain(json.dumps(value).encode()) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", None),
        (b"a: yes\nb: off\nc: 1_000\n", {"a": "yes", "b": "off", "c": "1_000"}),
        (b"a: true\nb: ~\nc: 0x1F\nd: 017\ne: 1e3\n", {"a": True, "b": None, "c": 31, "d": 17, "e": 1000.0}),
        (b'{\n\t"a": 1\n}', {"a": 1}),
        (b"[1, 2]", [1, 2]),
        (b"{a: 1}", {"a": 1}),
    ],
)
def test_plain_values_are_those_of_yaml_1_2(data: bytes, value: Any) -> None:
    assert load_plain(data) == value


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b'{"a": 1,\n "a": 2}', 2, 2),
        (b'{"a": 1,}x', 1, 9),
        (b'{"a": 1e999}', 1, 7),
        (b"a: 1\nb: .inf\n", 2, 4),
        (b"a: !!int 5\n", 1, 4),
        (b"{" * 3_000, 1, 2),
        (b"\xff", 1, 1),
    ],
)
def test_plain_errors_have_their_place(data: bytes, line: int, column: int) -> None:
    with pytest.raises(YamlError) as caught:
        load_plain(data)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_pure_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = json.loads((CORPUS / "judge_files.json").read_text())
    # Of what we refuse on purpose the pure parser takes some, as the format does.
    texts = [row["text"].encode() for row in rows if "text" in row and "deviation" not in row]
    assert len(texts) > 50
    fast = [read_document(text) for text in texts]
    monkeypatch.setattr(yaml_core, "_EventLoader", yaml.BaseLoader)
    for text, one in zip(texts, fast, strict=True):
        other: Document = read_document(text)
        if one.faults or other.faults:
            assert bool(one.faults) == bool(other.faults), text
        else:
            assert value_of(one.root) == value_of(other.root), text

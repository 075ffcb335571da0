"""Objects as bytes: our ids are git's, and no bytes make the reading of trees fail in an unexpected way."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from real_git import TONE, git, make

from sandbox_judge.errors import RecipeError, RecipeTampered
from sandbox_judge.recipe.git_objects import (
    GitObject,
    TreeEntry,
    is_lfs_pointer,
    named_object,
    object_id,
    parse_tree,
    verified,
)

NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: b"/" not in name and b"\0" not in name)
MODES = st.sampled_from([0o100644, 0o100755, 0o040000, 0o120000, 0o160000, 0o100664])


def tree_of(body: bytes, *, width: int = 40) -> GitObject:
    return GitObject("0" * width, "tree", body)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_ids_are_those_of_git(tmp_path: Path, object_format: str) -> None:
    head = make(tmp_path / "r", object_format=object_format)
    for body in (TONE, b"", b"\0"):
        wanted = git(tmp_path / "r", "hash-object", "--stdin", stdin=body)
        assert verified(wanted, "blob", body).body == body
        for kind, other in (("blob", body + b"\n"), ("tree", body), ("nonsense", body)):
            with pytest.raises(RecipeTampered):
                verified(wanted, kind, other)
    raw = git(tmp_path / "r", "cat-file", "commit", head).encode() + b"\n"
    assert object_id("commit", raw, object_format) == head
    for kind in ("tree", "nonsense"):
        with pytest.raises(RecipeTampered):
            verified(object_id("nonsense", b"x", object_format), kind, b"x")


@given(st.lists(st.tuples(MODES, NAMES), unique_by=lambda entry: entry[1]), st.sampled_from([20, 32]))
def test_trees_are_read_back_as_they_were_written(entries: list[tuple[int, bytes]], width: int) -> None:
    body = b"".join(
        b"%o %s\0" % (mode, name) + bytes([n % 256]) * width for n, (mode, name) in enumerate(entries)
    )
    found = parse_tree(tree_of(body, width=2 * width))
    assert [(entry.mode, entry.name) for entry in found] == entries
    assert all(len(entry.id) == 2 * width for entry in found)
    for cut in range(1, len(body), 7):
        try:
            assert len(parse_tree(tree_of(body[:cut], width=2 * width))) < len(entries)
        except RecipeError as error:
            assert "malformed" in error.message


@given(st.binary(max_size=200))
@example(b"100644 a/b\0" + b"x" * 20)
@example(b"100644 \0" + b"x" * 20)
@example(b"1006444 a\0" + b"x" * 20)
@example(b" a\0" + b"x" * 20)
@example(b"-00644 a\0" + b"x" * 20)
@example(2 * (b"100644 a\0" + b"x" * 20))
def test_other_bytes_are_a_malformed_tree(body: bytes) -> None:
    try:
        assert body == b"" or parse_tree(tree_of(body))
    except RecipeError as error:
        assert "malformed" in error.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"tree",
        b"tree " + b"a" * 39,
        b"tree " + b"A" * 40,
        b"tree " + b"a" * 64,
        b"\ntree " + b"a" * 40,
        b"\xff",
    ],
)
def test_a_commit_without_its_trees_id_is_malformed(body: bytes) -> None:
    with pytest.raises(RecipeError, match="malformed"):
        named_object(GitObject("0" * 40, "commit", body))


def test_what_commits_and_tags_name() -> None:
    assert named_object(GitObject("0" * 40, "commit", b"tree " + b"a" * 40 + b"\nparent x")) == "a" * 40
    assert named_object(GitObject("0" * 64, "tag", b"object " + b"b" * 64 + b"\n")) == "b" * 64


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (0o100644, "file"),
        (0o040000, "folder"),
        (0o120000, "symlink"),
        (0o160000, "submodule"),
        (0o010000, "other"),
    ],
)
def test_kinds_of_entries(mode: int, kind: str) -> None:
    assert TreeEntry(mode, b"x", "0" * 40).kind == kind


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", True),
        (b"version https://hawser.github.com/spec/v1\noid sha256:00\nsize 3\n", True),
        (b"version https://git-lfs.github.com/spec/v1\next-0-x sha256:00\noid sha256:00\nsize 3\n", True),
        (b"version https://git-lfs.github.com/spec/v1\r\noid sha256:00\r\nsize 3\r\n", True),
        (b"name: lfs\ninstructions: version https://git-lfs.github.com/spec/v1\noid \n", False),
        (b"", False),
        (TONE, False),
    ],
)
def test_lfs_pointers(content: bytes, answer: bool) -> None:
    assert is_lfs_pointer(content) is answer

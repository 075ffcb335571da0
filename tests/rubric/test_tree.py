"""Files that somebody else wrote: nothing outside the directory is read, and a version can be put back."""

import os

import pytest

from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.rubric.tree import Caps, read_tree
from sandbox_judge.rubric.versions import keep, put_back


@pytest.fixture
def outside(tmp_path):
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret.txt").write_text("secret")
    return place


@pytest.fixture
def root(tmp_path):
    place = tmp_path / "root"
    (place / "sub").mkdir(parents=True)
    (place / "a.md").write_text("A")
    (place / "sub" / "b.csv").write_text("b,1")
    return place


def paths(tree):
    return [found.path for found in tree.files]


def why(tree):
    return {one.path: one.why for one in tree.left_out}


def test_regular_files_in_order(root):
    tree = read_tree(root)
    assert [(found.path, found.data) for found in tree.files] == [("a.md", b"A"), ("sub/b.csv", b"b,1")]
    assert not tree.left_out
    assert paths(read_tree(root, skip=frozenset({"a.md", "sub"}))) == []


def test_links_and_special_files_are_told_and_never_followed(root, outside):
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    tree = read_tree(root)
    assert paths(tree) == ["a.md", "sub/b.csv"]
    assert set(why(tree)) == {"link.txt", "folder", "up", "loop", "pipe"}
    assert all(b"secret" not in found.data for found in tree.files)


def test_caps_are_told(root):
    (root / "huge.bin").write_bytes(b"x" * 5_000)
    tree = read_tree(root, caps=Caps(file_bytes=1_000, total_bytes=2_000, files=10))
    assert "too large" in why(tree)["huge.bin"]
    for n in range(5):
        (root / f"n{n}").write_bytes(b"x" * 600)
    assert sum(len(f.data) for f in read_tree(root, caps=Caps(total_bytes=2_000)).files) <= 2_000
    assert len(read_tree(root, caps=Caps(files=3)).files) == 3
    sparse = root / "sparse"
    with open(sparse, "wb") as file:
        file.truncate(1 << 40)
    assert "too large" in why(read_tree(root))["sparse"]


def test_deep_and_odd_names(root):
    deep = root
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    (deep / "x").write_text("x")
    with open(os.path.join(os.fsencode(root), b"\xff\xfe.md"), "wb") as file:
        file.write(b"odd")
    tree = read_tree(root)
    assert any("folders" in reason for reason in why(tree).values())
    assert any("\ufffd" in path for path in paths(tree))


@pytest.mark.parametrize("name", ["nothing", "a.md"])
def test_no_directory_is_an_input_error(root, name):
    with pytest.raises(InputError):
        read_tree(root / name)


def test_a_version_is_put_back(root):
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    version = keep(root)
    (root / "a.md").write_text("worse")
    (root / "run.sh").unlink()
    (root / "sub" / "b.csv").unlink()
    (root / "sub").rmdir()
    (root / "new.txt").write_text("new")
    put_back(root, version)
    assert [(f.path, f.data) for f in keep(root).files] == [(f.path, f.data) for f in version.files]
    assert os.access(root / "run.sh", os.X_OK)


def test_putting_back_writes_through_no_link(root, outside):
    version = keep(root)
    (root / "sub" / "b.csv").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(outside)
    (root / "a.md").unlink()
    (root / "a.md").symlink_to(outside / "secret.txt")
    put_back(root, version)
    assert (outside / "secret.txt").read_text() == "secret"
    assert not (outside / "b.csv").exists()
    assert (root / "sub" / "b.csv").read_text() == "b,1"
    assert not (root / "a.md").is_symlink()


def test_what_cannot_be_put_back_is_told(root):
    version = keep(root)
    (root / "a.md").unlink()
    (root / "a.md").mkdir()
    os.mkfifo(root / "a.md" / "pipe")
    with pytest.raises(UsageError, match="put back"):
        put_back(root, version)

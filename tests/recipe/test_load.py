"""One form of a recipe's files, whether they come from a commit or from disk."""

import os
from pathlib import Path

import pytest
from real_git import TONE, TRUTH, make

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe import load
from sandbox_judge.recipe.load import RecipeSource, load_extras, load_recipe

pytestmark = pytest.mark.anyio


async def from_disk(folder: Path) -> RecipeSource:
    return await load_recipe(folder, None, environ={}, worktree=True)


def texts(source: RecipeSource) -> dict[str, bytes | None]:
    return {file.path: file.content for file in source.files}


async def test_a_commit_and_the_disk_in_one_form(tmp_path: Path) -> None:
    head = make(tmp_path / "r", {"judges/tone.yaml": TONE, "judges/b.yml": TRUTH, "judges/sub/c.yaml": TONE})
    committed = await load_recipe(tmp_path / "r", head, environ={})
    on_disk = await from_disk(tmp_path / "r")
    assert committed.files == on_disk.files
    assert [file.path for file in committed.files] == ["judges/b.yml", "judges/tone.yaml"]
    assert (committed.commit, on_disk.commit) == (head, None)
    (tmp_path / "r/judges/tone.yaml").write_bytes(TRUTH)
    assert texts(await from_disk(tmp_path / "r"))["judges/tone.yaml"] == TRUTH
    assert (await load_recipe(tmp_path / "r", head, environ={})).files == committed.files


@pytest.mark.parametrize(
    ("package", "wanted", "origin"),
    [
        (b'{"name": "@acme/support", "version": "1"}', "@acme/support", "package.json"),
        (b'{"version": "1"}', "support", "folder"),
        (b'{"name": ""}', "support", "folder"),
        (b'{"name": 5}', "support", "folder"),
        (b'{"name": "a\\nb"}', "support", "folder"),
        (b'{"name": " a"}', "support", "folder"),
        (b'{"name": "\\ud800"}', "support", "folder"),
        (b'{"name": "' + b"a" * 300 + b'"}', "support", "folder"),
        (b"[" * 100_000, "support", "folder"),
        (b"", "support", "folder"),
        (b"\xff\xfe", "support", "folder"),
        (None, "support", "folder"),
    ],
)
async def test_what_names_a_recipe(tmp_path: Path, package: bytes | None, wanted: str, origin: str) -> None:
    files = {"support/judges/tone.yaml": TONE} | (
        {"support/package.json": package} if package is not None else {}
    )
    head = make(tmp_path / "r", files)
    for source in (
        await load_recipe(tmp_path / "r/support", head, environ={}),
        await from_disk(tmp_path / "r/support"),
    ):
        assert (source.id_hint, source.id_origin) == (wanted, origin)


async def test_a_bare_repository_is_named_without_its_ending(tmp_path: Path) -> None:
    head = make(tmp_path / "r")
    os.rename(tmp_path / "r/.git", tmp_path / "support.git")
    assert (await load_recipe(tmp_path / "support.git", head, environ={})).id_hint == "support"


async def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/r\xf3"
    head = make(Path(os.fsdecode(raw)), {"judges/tone.yaml": TONE})
    with open(raw + b"/judges/t\xf3n.yaml", "wb") as file:
        file.write(TONE)
    source = await from_disk(Path(os.fsdecode(raw)))
    assert source.id_hint == "r\ufffd"
    assert [file.path for file in source.files] == ["judges/tone.yaml", "judges/t\udcf3n.yaml"]
    assert (await load_recipe(Path(os.fsdecode(raw)), head, environ={})).id_hint == "r\ufffd"


async def test_without_judges(tmp_path: Path) -> None:
    head = make(tmp_path / "r", {"x": b""})
    for source in (await load_recipe(tmp_path / "r", head, environ={}), await from_disk(tmp_path / "r")):
        assert (source.has_judges, source.files) == (False, ())


async def test_an_empty_folder_on_disk(tmp_path: Path) -> None:
    (tmp_path / "judges").mkdir()
    source = await from_disk(tmp_path)
    assert (source.has_judges, source.files) == (True, ())


async def test_nothing_is_followed_out_of_the_tree(tmp_path: Path) -> None:
    judges = tmp_path / "r/judges"
    judges.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"secret")
    (judges / "link.yaml").symlink_to("../../secret")
    (judges / "dangling.yaml").symlink_to("nowhere")
    os.mkfifo(judges / "pipe.yaml")
    (judges / "folder.yaml").mkdir()
    (judges / "large.yaml").write_bytes(b"#" * (load.MAX_JUDGE_BYTES + 1))
    (judges / "lfs.yaml").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    (judges / "tone.yaml").write_bytes(TONE)
    source = await from_disk(tmp_path / "r")
    problems = {file.path[7:]: file.problem for file in source.files if file.problem}
    assert {name: (problems[name] or "").split(":")[0] for name in problems} == {
        "link.yaml": "is a symlink",
        "dangling.yaml": "is a symlink",
        "pipe.yaml": "is not a regular file.",
        "large.yaml": "is too large to be read (more than 1,048,576 bytes).",
        "lfs.yaml": "is a Git LFS pointer",
    }
    assert {path: content for path, content in texts(source).items() if content is not None} == {
        "judges/tone.yaml": TONE
    }


@pytest.mark.parametrize("what", ["symlink", "file", "pipe"])
async def test_judges_that_is_no_folder(tmp_path: Path, what: str) -> None:
    judges = tmp_path / "r/judges"
    judges.parent.mkdir()
    if what == "symlink":
        judges.symlink_to("/etc")
    elif what == "file":
        judges.write_bytes(b"")
    else:
        os.mkfifo(judges)
    with pytest.raises(RecipeError) as error:
        await from_disk(tmp_path / "r")
    assert error.value.where.endswith("judges") and error.value.remedy
    assert ("symbolic link" in error.value.message) is (what == "symlink")


@pytest.mark.parametrize("path", ["absent", "file", "\0", "\ud800"])
async def test_a_recipe_that_is_no_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RecipeError, match="cannot be read"):
        await from_disk(tmp_path / path)


async def test_a_commit_is_needed(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no commit") as error:
        await load_recipe(tmp_path, None, environ={})
    assert "--worktree" in error.value.remedy


async def test_extras_come_from_where_the_judges_came_from(tmp_path: Path) -> None:
    name = "tone.calibration.jsonl"
    head = make(tmp_path / "r", {"judges/tone.yaml": TONE, f"judges/{name}": b"committed"})
    (tmp_path / f"r/judges/{name}").write_bytes(b"on disk")
    for source, wanted in (
        (await load_recipe(tmp_path / "r", head, environ={}), b"committed"),
        (await from_disk(tmp_path / "r"), b"on disk"),
    ):
        found = await load_extras(source, [name, "absent", "../judges/tone.yaml", "a\0b"], environ={})
        assert {key: file.content for key, file in found.items()} == {name: wanted}


async def test_too_many_files_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "judges").mkdir()
    for n in range(4):
        (tmp_path / f"judges/{n}.yaml").write_bytes(b"x" * 10)
    monkeypatch.setattr(load, "MAX_ALL_BYTES", 25)
    assert [bool(file.problem) for file in (await from_disk(tmp_path)).files] == [False, False, True, True]
    monkeypatch.setattr(load, "MAX_ENTRIES", 3)
    with pytest.raises(RecipeError, match="4 judge files"):
        await from_disk(tmp_path)

"""The pinned commit's bytes, or an error that says what to do: the twenty git traps, and traps of our own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import real_git
from real_git import TONE, TRUTH, commit, contents, git, make, problems, read

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe import git as recipe_git
from sandbox_judge.recipe.git import read_extras


@pytest.fixture(scope="session")
def traps(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = shared / "cases" / "make_git_fixtures.sh"
    if not script.is_file():
        pytest.skip("no script that builds the repositories")
    where = tmp_path_factory.mktemp("git") / "traps"
    subprocess.run(
        ["bash", str(script), str(where)],
        capture_output=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(where.parent)},
    )
    return where


def version(repository: Path, commit_id: str, *, pinned: bool = True) -> str:
    """Which version of the trap's judge was read."""
    content = contents(read(repository, commit_id, pinned=pinned))[b"tone.yaml"]
    assert content is not None
    assert git(repository, "--no-replace-objects", "hash-object", "--stdin", stdin=content) == git(
        repository, "--no-replace-objects", "rev-parse", f"{commit_id}:judges/tone.yaml"
    )
    return content.decode().split()[-1]


def test_e01_later_commits_and_a_dirty_work_tree_change_nothing(traps: Path) -> None:
    first = git(traps / "e01", "rev-parse", "HEAD~1")
    assert version(traps / "e01", first) == "one."
    assert version(traps / "e01", git(traps / "e01", "rev-parse", "HEAD")) == "two."


def test_e02_line_endings_are_the_blobs(traps: Path) -> None:
    head = git(traps / "e02", "rev-parse", "HEAD")
    found = contents(read(traps / "e02", head))[b"tone.yaml"]
    assert found is not None and b"\r" not in found
    assert b"\r\n" in (traps / "e02/judges/tone.yaml").read_bytes()


def test_e03_a_replace_ref_replaces_nothing(traps: Path) -> None:
    pinned = git(traps / "e03", "--no-replace-objects", "rev-parse", "HEAD~1")
    assert version(traps / "e03", pinned) == "one."


def test_e04_an_abbreviated_id_is_not_a_branch_of_that_name(traps: Path) -> None:
    wanted = git(traps / "e04", "rev-parse", "HEAD~1")
    assert read(traps / "e04", wanted[:8], pinned=False).commit == wanted
    assert read(traps / "e04", wanted[:8].upper(), pinned=False).commit == wanted


@pytest.mark.parametrize("pinned", [True, False])
def test_e05_a_full_id_is_not_a_branch_of_that_name(traps: Path, pinned: bool) -> None:
    wanted = git(traps / "e05", "rev-list", "--max-parents=0", "main")
    assert read(traps / "e05", wanted, pinned=pinned).commit == wanted
    assert read(traps / "e05", wanted.upper(), pinned=pinned).commit == wanted


def test_e06_a_shallow_clone_is_told_to_fetch_the_commit(traps: Path) -> None:
    absent = git(traps / "e06src", "rev-parse", "HEAD~1")
    with pytest.raises(RecipeError, match="shallow") as error:
        read(traps / "e06", absent)
    assert absent in error.value.remedy and "fetch" in error.value.remedy
    present = git(traps / "e06src", "rev-parse", "HEAD")
    assert version(traps / "e06", present) == "one."


def test_e07_a_partial_clone_is_not_completed_behind_our_back(traps: Path) -> None:
    head = git(traps / "e07gone", "rev-parse", "HEAD")
    with pytest.raises(RecipeError, match="partial clone") as error:
        read(traps / "e07", head)
    assert "--filter" in error.value.remedy
    with pytest.raises(RecipeError, match=r"no commit f+\.") as error:
        read(traps / "e07", "f" * 40)
    assert "Fetch it" in error.value.remedy


def test_e08_e09_inherited_git_variables_change_nothing(
    traps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = {
        "GIT_DIR": str(traps / "e08a/.git"),
        "GIT_WORK_TREE": str(traps / "e08a"),
        "GIT_COMMON_DIR": str(traps / "e08a/.git"),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": "/nonexistent",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(traps / "e08a/.git/objects"),
        "GIT_CEILING_DIRECTORIES": str(traps),
        "GIT_NAMESPACE": "x",
        "GIT_REPLACE_REF_BASE": "refs/heads/",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "extensions.nonsense",
        "GIT_CONFIG_VALUE_0": "1",
        "GIT_CONFIG_PARAMETERS": "'core.bare=nonsense'",
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_TRACE2_EVENT": str(tmp_path / "trace2"),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    (tmp_path / ".gitconfig").write_text("[nonsense\n")
    head = git(traps / "e08b", "rev-parse", "HEAD")
    with monkeypatch.context() as patch:
        for name, value in hostile.items():
            patch.setenv(name, value)
        found = read(traps / "e08b", head, environ=real_git.own_environment())
    assert (contents(found)[b"tone.yaml"] or b"").endswith(b"Version B-repo.\n")
    assert not (tmp_path / "trace").exists() and not (tmp_path / "trace2").exists()


def test_e10_a_symlink_is_that_files_fault_alone(traps: Path) -> None:
    found = read(traps / "e10", git(traps / "e10", "rev-parse", "HEAD"))
    assert set(problems(found)) == {b"alias.yaml", b"out.yaml"}
    assert all("symlink" in problem for problem in problems(found).values())
    assert contents(found)[b"tone.yaml"] and contents(found)[b"out.yaml"] is None


def test_e10_symlinked_judges(tmp_path: Path) -> None:
    make(tmp_path / "r", {"rules/tone.yaml": TONE})
    (tmp_path / "r/judges").symlink_to("rules")
    with pytest.raises(RecipeError, match="judges/ is a symlink") as error:
        read(tmp_path / "r", commit(tmp_path / "r", {}))
    assert error.value.remedy


def test_e11_judges_is_a_submodule(traps: Path) -> None:
    with pytest.raises(RecipeError, match="judges/ is a submodule") as error:
        read(traps / "e11", git(traps / "e11", "rev-parse", "HEAD"))
    assert "submodule's repository" in error.value.remedy


@pytest.mark.parametrize("repository", ["e12", "e12.git", "e12wt"])
def test_e12_bare_repositories_and_linked_worktrees(traps: Path, repository: str) -> None:
    assert version(traps / repository, git(traps / "e12", "rev-parse", "HEAD")) == "one."


def test_e13_a_sha256_repository(traps: Path) -> None:
    head = git(traps / "e13", "rev-parse", "HEAD")
    found = read(traps / "e13", head)
    assert (len(head), found.commit, found.object_format) == (64, head, "sha256")
    assert version(traps / "e13", head) == "s."
    assert read(traps / "e13", head[:12], pinned=False).commit == head


def test_e14_names_are_bytes(traps: Path) -> None:
    found = read(traps / "e14", git(traps / "e14", "rev-parse", "HEAD"))
    assert [file.name for file in found.files] == [
        b".hidden.yaml",
        b":(top)x.yaml",
        b"Tone.yaml",
        b"a\nb.yaml",
        b"tone.yaml",
        b"tone.yml",
        "tón.yaml".encode(),
        b"t\xf3n.yaml",
    ]
    assert all(file.content for file in found.files)


def test_e15_an_lfs_pointer_is_that_files_fault_alone(traps: Path) -> None:
    found = read(traps / "e15", git(traps / "e15", "rev-parse", "HEAD"))
    assert "LFS" in problems(found)[b"tone.yaml"] and contents(found)[b"tone.yaml"] is None


def test_e16_the_owner_does_not_matter(traps: Path, tmp_path: Path) -> None:
    head = git(traps / "e16", "rev-parse", "HEAD")
    doubting = real_git.program(tmp_path / "git", 'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec /usr/bin/git "$@"')
    found = read(traps / "e16", head, environ={"SANDBOX_JUDGE_GIT": str(doubting)})
    assert (contents(found)[b"tone.yaml"] or b"").endswith(b"one.\n")
    assert (
        read(traps / "e16", "main", pinned=False, environ={"SANDBOX_JUDGE_GIT": str(doubting)}).commit == head
    )


def test_e17_a_text_conversion_is_not_run(traps: Path) -> None:
    (traps / "e17/RAN").unlink(missing_ok=True)  # plain git ran it while the trap was built
    assert version(traps / "e17", git(traps / "e17", "rev-parse", "HEAD")) == "one."
    assert not (traps / "e17/RAN").exists()


@pytest.mark.parametrize("pinned", [True, False])
def test_e18_tags_lead_to_their_commit_and_other_objects_are_refused(traps: Path, pinned: bool) -> None:
    repository = traps / "e18"
    head = git(repository, "rev-parse", "HEAD")
    assert read(repository, git(repository, "rev-parse", "v1"), pinned=pinned).commit == head
    for revision, kind in (("HEAD^{tree}", "tree"), ("HEAD:judges/tone.yaml", "blob")):
        with pytest.raises(RecipeError, match=f"is a {kind}, not a commit"):
            read(repository, git(repository, "rev-parse", revision), pinned=pinned)
        if not pinned:
            with pytest.raises(RecipeError, match=f"is a {kind}, not a commit"):
                read(repository, revision, pinned=False)


def test_e19_a_corrupt_object(traps: Path) -> None:
    with pytest.raises(RecipeError, match=r"blob [0-9a-f]{40} is corrupt") as error:
        read(traps / "e19", git(traps / "e19", "rev-parse", "HEAD"))
    assert "clone" in error.value.remedy


def test_e20_no_judges_is_no_error_and_a_file_of_that_name_is(traps: Path) -> None:
    found = read(traps / "e20", git(traps / "e20", "rev-parse", "HEAD~1"))
    assert (found.has_judges, found.files) == (False, ())
    with pytest.raises(RecipeError, match="judges/ is a file"):
        read(traps / "e20", git(traps / "e20", "rev-parse", "HEAD"))


# Our own.


def test_a_subfolder_is_looked_up_in_the_commit_even_when_it_is_gone_or_replaced(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    head = make(
        repository, {"a/b/judges/tone.yaml": TONE, "other/judges/truth.yaml": TRUTH, "judges/x.yml": b""}
    )
    assert contents(read(repository / "a/b", head)) == {b"tone.yaml": TONE}
    shutil.rmtree(repository / "a")
    assert contents(read(repository / "a/b", head)) == {b"tone.yaml": TONE}
    (repository / "a").mkdir()
    (repository / "a/b").symlink_to("../other")
    assert contents(read(repository / "a/b", head)) == {b"tone.yaml": TONE}


def test_a_link_to_a_recipe_elsewhere_is_followed(tmp_path: Path) -> None:
    head = make(tmp_path / "store/r", {"a/judges/tone.yaml": TONE})
    (tmp_path / "recipe").symlink_to("store/r/a")
    assert contents(read(tmp_path / "recipe", head)) == {b"tone.yaml": TONE}


def test_a_relative_path_and_one_with_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = make(tmp_path / "r", {"a/judges/tone.yaml": TONE})
    monkeypatch.chdir(tmp_path / "r/a")
    assert contents(read(Path("."), head)) == {b"tone.yaml": TONE}
    assert contents(read(Path("../a/./"), head)) == {b"tone.yaml": TONE}


def test_a_subfolder_of_a_bare_repository(tmp_path: Path) -> None:
    head = make(tmp_path / "r", {"a/judges/tone.yaml": TONE})
    git(tmp_path, "clone", "-q", "--bare", "r", "r.git")
    assert contents(read(tmp_path / "r.git/a", head)) == {b"tone.yaml": TONE}


def test_a_folder_the_commit_does_not_have(tmp_path: Path) -> None:
    head = make(tmp_path / "r")
    (tmp_path / "r/later").mkdir()
    with pytest.raises(RecipeError, match="no folder later") as error:
        read(tmp_path / "r/later", head)
    assert error.value.where == "recipe.path"


def test_a_submodules_own_repository(tmp_path: Path) -> None:
    inner = make(tmp_path / "inner")
    make(tmp_path / "outer", {"README": b"x"})
    git(
        tmp_path / "outer", "-c", "protocol.file.allow=always", "submodule", "-q", "add", "../inner", "recipe"
    )
    assert contents(read(tmp_path / "outer/recipe", inner)) == {b"tone.yaml": TONE}


def test_packed_objects_and_deltas(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    files = {f"judges/j{n}.yaml": TONE + b"# %d\n" % n * 200 for n in range(20)}
    head = make(repository, files)
    git(repository, "gc", "-q")
    assert not list((repository / ".git/objects").glob("??/*"))
    assert contents(read(repository, head)) == {name[7:].encode(): body for name, body in files.items()}


def test_objects_of_an_alternate(tmp_path: Path) -> None:
    head = make(tmp_path / "r")
    make(tmp_path / "borrower", {"x": b""})
    (tmp_path / "borrower/.git/objects/info/alternates").write_text(f"{tmp_path / 'r/.git/objects'}\n")
    assert contents(read(tmp_path / "borrower", head)) == {b"tone.yaml": TONE}


def test_only_yaml_files_directly_in_judges_are_judges(tmp_path: Path) -> None:
    names = ["a.yaml", "b.yml", "c.YAML", "d.json", "e.yaml.bak", "deep/f.yaml", "folder.yaml/g.yaml"]
    head = make(tmp_path / "r", {f"judges/{name}": TONE for name in names} | {"h.yaml": TONE})
    assert set(contents(read(tmp_path / "r", head))) == {b"a.yaml", b"b.yml"}


def test_a_submodule_named_like_a_judge_is_that_files_fault_alone(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    head = make(repository)
    blob = git(repository, "rev-parse", f"{head}:judges/tone.yaml")
    tree = git(
        repository,
        "mktree",
        "--missing",
        stdin=f"160000 commit {head}\tmod.yaml\n100644 blob {blob}\ttone.yaml\n".encode(),
    )
    found = read(repository, real_git.commit_of_tree(repository, tree))
    assert "submodule" in problems(found)[b"mod.yaml"] and contents(found)[b"tone.yaml"] == TONE


def test_an_empty_file_and_an_executable_one_are_read(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    make(repository, {"judges/empty.yaml": b"", "judges/tone.yaml": TONE})
    (repository / "judges/tone.yaml").chmod(0o755)
    assert contents(read(repository, commit(repository, {}))) == {b"empty.yaml": b"", b"tone.yaml": TONE}


def test_files_that_are_too_large_leave_the_others(tmp_path: Path) -> None:
    large = b"#" * (recipe_git.MAX_JUDGE_BYTES + 1)
    files = {"a": TONE, "b": large, "c": TRUTH, "d": b"\0" * 20_000_000, "e": TRUTH + b"#", "f": large[:-1]}
    head = make(tmp_path / "r", {f"judges/{name}.yaml": body for name, body in files.items()})
    found = read(tmp_path / "r", head)
    assert set(problems(found)) == {b"b.yaml", b"d.yaml"}
    assert "20,000,000 bytes" in problems(found)[b"d.yaml"]
    whole = {name: body for name, body in contents(found).items() if body is not None}
    assert whole == {f"{name}.yaml".encode(): files[name] for name in "acef"}


def test_judges_that_are_too_large_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_git, "MAX_ALL_BYTES", 2_500)
    files = {f"judges/{name}.yaml": name.encode() * 1_000 for name in "abcd"} | {"judges/e.yaml": b"e"}
    found = read(tmp_path / "r", make(tmp_path / "r", files))
    assert set(problems(found)) == {b"c.yaml", b"d.yaml"}
    assert contents(found)[b"e.yaml"] == b"e"


def test_ten_thousand_judges_and_one_more(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    make(repository)
    lines = "".join(
        f"M 100644 inline judges/j{n:05}.yaml\ndata <<EOF\njudge {n}\nEOF\n\n" for n in range(10_001)
    )
    head = "commit refs/heads/{}\ncommitter A <a@example.test> 0 +0000\ndata 1\nx\nfrom refs/heads/main\n"
    git(repository, "fast-import", "--quiet", stdin=(head.format("many") + lines).encode())
    cut = (head.format("fewer") + lines).replace("from refs/heads/main", "from refs/heads/many")
    git(
        repository,
        "fast-import",
        "--quiet",
        stdin=(cut + "D judges/j10000.yaml\nD judges/tone.yaml\n").encode(),
    )
    found = read(repository, git(repository, "rev-parse", "fewer"))
    assert len(found.files) == 10_000 and found.files[-1].content == b"judge 9999\n"
    with pytest.raises(RecipeError, match="10,002 judge files"):
        read(repository, git(repository, "rev-parse", "many"))


def test_package_json_is_read_from_the_commit_beside_judges(tmp_path: Path) -> None:
    files = {"package.json": b"{}", "a/package.json": b'{"name": "a"}', "a/judges/tone.yaml": TONE}
    head = make(tmp_path / "r", files)
    assert read(tmp_path / "r/a", head).package_json == b'{"name": "a"}'
    assert read(tmp_path / "r", head).package_json == b"{}"


@pytest.mark.anyio
async def test_extras_are_read_by_name_at_the_same_commit(tmp_path: Path) -> None:
    rows = b'{"row": 1}\n'
    head = make(tmp_path / "r", {"judges/tone.yaml": TONE, "judges/tone.calibration.jsonl": rows})
    (tmp_path / "r/judges/tone.calibration.jsonl").write_bytes(b"edited since")
    blobs = await recipe_git.read_recipe(tmp_path / "r", head, environ={})
    found = await read_extras(blobs, [b"tone.calibration.jsonl", b"absent.jsonl"], environ={})
    assert [(file.name, file.content) for file in found] == [(b"tone.calibration.jsonl", rows)]
    assert await read_extras(blobs, [b"absent.jsonl"], environ={}) == ()


@pytest.mark.parametrize(
    ("revision", "wanted"),
    [("main", 1), ("HEAD~1", 0), ("v-light", 0), ("v-full", 0), (":/a commit", 1), ("HEAD^{commit}", 1)],
)
def test_any_revision_will_do_in_a_dry_run_and_is_recorded_in_full(
    tmp_path: Path, revision: str, wanted: int
) -> None:
    commits = [make(tmp_path / "r"), ""]
    git(tmp_path / "r", "tag", "v-light")
    git(tmp_path / "r", "tag", "-a", "v-full", "-m", "x")
    git(tmp_path / "r", "tag", "-a", "v-nested", "-m", "x", "v-full")
    commits[1] = commit(tmp_path / "r", {"judges/tone.yaml": TRUTH})
    assert read(tmp_path / "r", revision, pinned=False).commit == commits[wanted]
    assert read(tmp_path / "r", "v-nested", pinned=False).commit == commits[0]


@pytest.mark.parametrize("name", ["cafe", "deadbeef"])
def test_a_branch_whose_name_could_be_an_id_but_is_none(tmp_path: Path, name: str) -> None:
    head = make(tmp_path / "r")
    git(tmp_path / "r", "branch", name)
    assert read(tmp_path / "r", name, pinned=False).commit == head


@pytest.mark.parametrize(
    "revision", ["", "-x", "--all", "a\nb", "x" * 2_000, "\ud800", "nope", "HEAD~9", "@{9}", "^HEAD"]
)
def test_what_is_no_revision(tmp_path: Path, revision: str) -> None:
    make(tmp_path / "r")
    with pytest.raises(RecipeError):
        read(tmp_path / "r", revision, pinned=False)


@pytest.mark.parametrize("revision", ["main", "HEAD", "abcdef12", "a" * 39, "a" * 41, "g" * 40, "", "a" * 63])
def test_a_pinned_commit_is_a_full_id(tmp_path: Path, revision: str) -> None:
    make(tmp_path / "r")
    with pytest.raises(RecipeError, match="not a full commit id") as error:
        read(tmp_path / "r", revision)
    assert error.value.remedy


def test_a_full_id_of_the_other_object_format(tmp_path: Path) -> None:
    head = make(tmp_path / "long", object_format="sha256")
    with pytest.raises(RecipeError, match="no commit"):  # git itself would complete it
        read(tmp_path / "long", head[:40])
    head = make(tmp_path / "short")
    name = head + "0" * 24
    git(tmp_path / "short", "update-ref", f"refs/heads/{name}", head)
    assert git(tmp_path / "short", "rev-parse", name) == head
    with pytest.raises(RecipeError, match="no commit"):
        read(tmp_path / "short", name)


@pytest.mark.parametrize("path", ["absent", "plain", "plain/judges", "\0", "\ud800"])
def test_no_repository(tmp_path: Path, path: str) -> None:
    (tmp_path / "plain/judges").mkdir(parents=True)
    with pytest.raises(RecipeError) as error:
        read(tmp_path / path, "a" * 40)
    assert error.value.where


def test_a_relative_path_from_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(RecipeError, match="cannot be a path"):
        read(Path("."), "a" * 40)


def test_a_git_file_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nonexistent/r/.git/worktrees/w\n")
    with pytest.raises(RecipeError, match="cannot read the repository") as error:
        read(tmp_path, "a" * 40)
    assert "same path" in error.value.remedy


@pytest.mark.parametrize(
    "setting", ["[extensions]\n\tnonsense = 1\n", "[core]\n\trepositoryformatversion = 99\n", "[broken\n"]
)
def test_a_repository_this_git_cannot_read(tmp_path: Path, setting: str) -> None:
    head = make(tmp_path / "r")
    with (tmp_path / "r/.git/config").open("a") as config:
        config.write("[core]\n\trepositoryformatversion = 1\n" + setting)
    for revision, pinned in ((head, True), ("main", False)):
        with pytest.raises(RecipeError, match="cannot read the repository") as error:
            read(tmp_path / "r", revision, pinned=pinned)
        assert error.value.remedy


def test_a_missing_tree(tmp_path: Path) -> None:
    head = make(tmp_path / "r")
    real_git.loose(tmp_path / "r", git(tmp_path / "r", "rev-parse", f"{head}:judges")).unlink()
    with pytest.raises(RecipeError, match="no tree") as error:
        read(tmp_path / "r", head)
    assert "incomplete" in error.value.remedy


def test_nothing_is_written_to_the_repository(tmp_path: Path) -> None:
    head = make(tmp_path / "r")

    def state() -> list[tuple[str, int]]:
        return sorted((str(path), path.lstat().st_mtime_ns) for path in (tmp_path / "r").rglob("*"))

    before = state()
    read(tmp_path / "r", head)
    read(tmp_path / "r", "main", pinned=False)
    assert state() == before
    assert os.listdir(tmp_path) == ["r"]

"""What an agent that can write the clone can do to it, and what a git that does not answer can do to us."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from real_git import (
    ENVIRON,
    TONE,
    TRUTH,
    contents,
    eventually,
    git,
    is_alive,
    loose,
    make,
    program,
    read,
    replace_object,
)

from sandbox_judge.errors import RecipeError, RecipeTampered
from sandbox_judge.recipe import git_process
from sandbox_judge.recipe.git import read_recipe
from sandbox_judge.recipe.git_process import find_git

OBJECT_FORMATS = ["sha1", "sha256"]


@pytest.mark.parametrize("object_format", OBJECT_FORMATS)
@pytest.mark.parametrize("revision", ["{}:judges/tone.yaml", "{}:judges", "{}:", "{}", "{}:package.json"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_valid_object_under_another_ones_id(
    tmp_path: Path, object_format: str, revision: str, packed: bool
) -> None:
    """Each link of the chain, loose and packed: git reads the forged object without complaint; we do not."""
    repository = tmp_path / "r"
    head = make(repository, {"judges/tone.yaml": TONE, "package.json": b"{}"}, object_format=object_format)
    other_path = tmp_path / "other"
    other = make(other_path, {"judges/tone.yaml": TRUTH, "package.json": b"[]"}, object_format=object_format)
    wanted, forged = (
        git(where, "rev-parse", revision.format(commit))
        for where, commit in ((repository, head), (other_path, other))
    )
    kind = git(repository, "cat-file", "-t", wanted)
    for path in (other_path / ".git/objects").glob("??/*"):
        target = repository / ".git/objects" / path.relative_to(other_path / ".git/objects")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    read(repository, head)
    replace_object(repository, wanted, forged)
    if packed:
        everything = git(repository, "rev-list", "--objects", "--all", "--no-object-names").splitlines()
        name = git(
            repository,
            "pack-objects",
            "-q",
            ".git/objects/pack/pack",
            stdin="\n".join([*everything, wanted, ""]).encode(),
        )
        assert (repository / f".git/objects/pack/pack-{name}.idx").exists()
        for object_id in {*everything, wanted}:
            loose(repository, object_id).unlink()
    assert git(repository, "cat-file", kind, wanted) == git(repository, "cat-file", kind, forged)
    with pytest.raises(RecipeTampered, match=wanted) as error:
        read(repository, head)
    assert forged in error.value.message and "recipe_tampered" in error.value.message
    assert error.value.exit_code == 2 and error.value.remedy


def test_an_object_of_another_type_under_a_blobs_id(tmp_path: Path) -> None:
    head = make(tmp_path / "r")
    blob, tree = (
        git(tmp_path / "r", "rev-parse", f"{head}:{name}") for name in ("judges/tone.yaml", "judges")
    )
    replace_object(tmp_path / "r", blob, tree)
    with pytest.raises(RecipeTampered):
        read(tmp_path / "r", head)


def test_a_tree_entry_that_calls_a_tree_a_file(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    head = make(repository)
    tree = git(repository, "rev-parse", f"{head}:judges")
    raw = b"100644 tone.yaml\0" + bytes.fromhex(tree)
    judges = git(repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    root = git(
        repository,
        "hash-object",
        "-t",
        "tree",
        "-w",
        "--stdin",
        stdin=b"40000 judges\0" + bytes.fromhex(judges),
    )
    with pytest.raises(RecipeError, match="is a tree where"):
        read(repository, git(repository, "commit-tree", "-m", "x", root))


def test_a_tampered_alternate(tmp_path: Path) -> None:
    head = make(tmp_path / "r", {"judges/tone.yaml": TONE, "x": TRUTH})
    make(tmp_path / "borrower", {"y": b""})
    (tmp_path / "borrower/.git/objects/info/alternates").write_text(f"{tmp_path / 'r/.git/objects'}\n")
    blobs = [git(tmp_path / "r", "rev-parse", f"{head}:{name}") for name in ("judges/tone.yaml", "x")]
    replace_object(tmp_path / "r", *blobs)
    with pytest.raises(RecipeTampered):
        read(tmp_path / "borrower", head)


def hostile_configuration(canary: Path, programs: Path) -> str:
    """Every setting that we know of by which a repository runs a program of its own."""
    run = program(programs / "run", f'echo "$0 $*" >>{canary}')
    for hook in (
        "reference-transaction",
        "post-checkout",
        "post-index-change",
        "fsmonitor-watchman",
        "pre-auto-gc",
    ):
        program(programs / "hooks" / hook, f'echo "$0 $*" >>{canary}')
    return f"""
[core]
\tfsmonitor = {run}
\thooksPath = {programs}/hooks
\tpager = {run}
\teditor = {run}
\tsshCommand = {run}
\tgitProxy = {run}
\taskPass = {run}
\talternateRefsCommand = {run}
[pager]
\tcat-file = {run}
\trev-parse = {run}
[alias]
\tcat-file = !{run}
\trev-parse = !{run}
[filter "x"]
\tclean = {run}
\tsmudge = {run}
\tprocess = {run}
\trequired = true
[diff]
\texternal = {run}
[diff "x"]
\ttextconv = {run}
\tcommand = {run}
[credential]
\thelper = !{run}
[gpg]
\tprogram = {run}
[uploadpack]
\tpackObjectsHook = {run}
[protocol]
\tallow = always
[protocol "ext"]
\tallow = always
[protocol "file"]
\tallow = always
[include]
\tpath = {programs}/more
[remote "origin"]
\turl = ext::{run} %S
\tfetch = +refs/heads/*:refs/remotes/origin/*
\tpromisor = true
\tpartialclonefilter = blob:none
\tuploadpack = {run}
\tvcs = ext
"""


def test_a_repositorys_own_configuration_runs_nothing(tmp_path: Path) -> None:
    repository, canary = tmp_path / "r", tmp_path / "canary"
    head = make(repository)
    blob = git(repository, "rev-parse", f"{head}:judges/tone.yaml")
    (repository / ".gitattributes").write_text("*.yaml diff=x filter=x\n")
    git(repository, "gc", "-q")
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/more").write_text("[core]\n\tfsmonitor = true\n")
    config = repository / ".git/config"
    config.write_text(
        config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1")
        + "[extensions]\n\tpartialClone = origin\n"
        + hostile_configuration(canary, tmp_path / "programs")
    )
    for path in (tmp_path / "programs/hooks").iterdir():
        program(repository / ".git/hooks" / path.name, f"echo hook >>{canary}")
    assert contents(read(repository, head)) == {b"tone.yaml": TONE}
    assert read(repository, "main", pinned=False).commit == head
    # A missing object is where git would fetch.
    for pack in (repository / ".git/objects/pack").iterdir():
        pack.chmod(0o600)
        pack.rename(tmp_path / pack.name)
    for path in tmp_path.glob("*.pack"):
        git(repository, "unpack-objects", "-q", stdin=path.read_bytes())
    loose(repository, blob).unlink()
    canary.unlink(missing_ok=True)  # the commands above may have set it off
    with pytest.raises(RecipeError, match="partial clone"):
        read(repository, head)
    with pytest.raises(RecipeError):
        read(repository, "f" * 40)
    assert not canary.exists(), canary.read_text()
    # The trap is a real one: plain git walks into it.
    git(repository, "cat-file", "blob", blob, check=False)
    assert canary.exists()


def test_the_programs_environment_holds_nothing_of_ours(tmp_path: Path) -> None:
    head = make(tmp_path / "r")
    telling = program(tmp_path / "git", f'env >{tmp_path}/env; pwd >{tmp_path}/cwd; exec /usr/bin/git "$@"')
    hostile = {
        "HOME": "/x",
        "GIT_DIR": "/x",
        "OPENAI_API_KEY": "canary",
        "PATH": "/x",
        "PAGER": "/x",
        "LD_LIBRARY_PATH": "",
    }
    read(tmp_path / "r", head, environ={**hostile, "SANDBOX_JUDGE_GIT": str(telling)})
    env = (tmp_path / "env").read_text()
    assert "canary" not in env and "/x" not in env and "HOME=" not in env
    assert (tmp_path / "cwd").read_text() == "/\n"


def test_git_is_not_taken_from_where_others_can_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, open_to_all = tmp_path / "good", tmp_path / "open"
    for folder in (tmp_path, good, open_to_all):
        program(folder / "git", "exit 1")
    open_to_all.chmod(0o777)
    monkeypatch.chdir(tmp_path)
    path = f".::{open_to_all}:relative:{good}"
    assert find_git({"PATH": path}).startswith("/usr/")
    monkeypatch.setattr(git_process, "_PLACES", ())
    assert find_git({"PATH": path}) == str(good / "git")
    for hopeless in ({"PATH": f".:{open_to_all}"}, {"PATH": ""}, {}):
        with pytest.raises(RecipeError, match="git was not found") as error:
            find_git(hopeless)
        assert "SANDBOX_JUDGE_GIT" in error.value.remedy
    for named in ("git", "./git", str(tmp_path / "absent"), str(tmp_path), "/x\0"):
        with pytest.raises(RecipeError, match="absolute path"):
            find_git({"SANDBOX_JUDGE_GIT": named})


async def read_by(fake: Path, repository: Path, *, within_s: float = 5.0) -> None:
    await read_recipe(
        repository,
        "a" * 40,
        environ={"SANDBOX_JUDGE_GIT": str(fake)},
        deadline=anyio.current_time() + within_s,
    )


def pids(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().split()]


HANGS: Mapping[str, str] = {
    "silent": "sleep 300 & echo $! $$ >>{0}/pids; wait",
    "after a header": "echo {1} commit 100; sleep 300 & echo $! $$ >>{0}/pids; wait",
    "deaf to signals": "trap '' TERM INT HUP PIPE; sleep 300 & echo $! $$ >>{0}/pids; while :; do wait; done",
    "talking for ever": "echo $$ >>{0}/pids; echo {1} commit 16000000; while :; do echo y; done",
    "complaining for ever": "echo $$ >>{0}/pids; while :; do echo y >&2; done",
    "deaf to input": "exec <&-; sleep 300 & echo $! $$ >>{0}/pids; wait",
}


@pytest.mark.anyio
@pytest.mark.parametrize("how", HANGS)
async def test_a_git_that_does_not_answer_ends_with_its_children(tmp_path: Path, how: str) -> None:
    make(tmp_path / "r")
    fake = program(tmp_path / "git", HANGS[how].format(tmp_path, "a" * 40))
    start = time.monotonic()
    with pytest.raises(RecipeError, match="did not answer in time") as error:
        await read_by(fake, tmp_path / "r", within_s=0.3)
    assert time.monotonic() - start < 1.3 and error.value.remedy
    for pid in await anyio.to_thread.run_sync(pids, tmp_path):
        assert await anyio.to_thread.run_sync(eventually, lambda pid=pid: not is_alive(pid))


@pytest.mark.anyio
async def test_cancellation_kills_git_at_once_and_leaves_no_thread_waiting(tmp_path: Path) -> None:
    make(tmp_path / "r")
    fake = program(tmp_path / "git", HANGS["silent"].format(tmp_path))
    start = time.monotonic()
    with anyio.move_on_after(0.3) as scope:
        await read_by(fake, tmp_path / "r", within_s=60)
    assert scope.cancelled_caught and time.monotonic() - start < 1.0
    for pid in await anyio.to_thread.run_sync(pids, tmp_path):
        assert await anyio.to_thread.run_sync(eventually, lambda pid=pid: not is_alive(pid))


@pytest.mark.anyio
async def test_a_process_that_left_the_group_cannot_hold_us(tmp_path: Path) -> None:
    make(tmp_path / "r")
    fake = program(tmp_path / "git", f"setsid sleep 300 & echo $! >{tmp_path}/pids; exit 0")
    start = time.monotonic()
    try:
        with pytest.raises(RecipeError):
            await read_by(fake, tmp_path / "r", within_s=0.5)
        assert time.monotonic() - start < 1.5
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill((await anyio.to_thread.run_sync(pids, tmp_path))[0], signal.SIGKILL)


@pytest.mark.anyio
async def test_a_deadline_that_has_passed_starts_nothing(tmp_path: Path) -> None:
    make(tmp_path / "r")
    fake = program(tmp_path / "git", f"touch {tmp_path}/ran")
    with pytest.raises(RecipeError, match="did not answer in time"):
        await read_by(fake, tmp_path / "r", within_s=-1)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 0", "cannot read the repository"),
        ("kill -9 $$", "cannot read the repository"),
        ("echo unknown option: --no-optional-locks >&2; exit 129", "cannot read the repository"),
        ("read x; echo $x missing", "no commit"),
        ("read x; echo $x blob 3; echo abc", "recipe_tampered"),
        ("read x; echo $x commit 3; printf ab", "no commit"),
        ("read x; echo $x commit -3; echo abc", "no commit"),
        ("read x; echo $x commit 99999999999999999999; echo abc", "no commit"),
        ("read x; echo $x commit 999999999999; echo abc", "larger than"),
        ("read x; echo $x", "no commit"),
        ("read x; echo; echo", "no commit"),
        ("head -c 100000 /dev/zero", "no commit"),
        ("printf '\\377\\376\\n'", "no commit"),
        ("read x; echo $x nonsense 3; echo abc", "recipe_tampered"),
    ],
)
def test_a_git_that_answers_nonsense(tmp_path: Path, body: str, message: str) -> None:
    make(tmp_path / "r")
    fake = program(tmp_path / "git", body)
    with pytest.raises(RecipeError, match=message):
        read(tmp_path / "r", "a" * 40, environ={"SANDBOX_JUDGE_GIT": str(fake)})


def test_a_git_that_is_no_program(tmp_path: Path) -> None:
    make(tmp_path / "r")
    fake = tmp_path / "git"
    fake.write_bytes(b"\x7fELF nonsense")
    fake.chmod(0o755)
    with pytest.raises(RecipeError, match="could not be started"):
        read(tmp_path / "r", "a" * 40, environ={"SANDBOX_JUDGE_GIT": str(fake)})


def test_a_configuration_that_is_a_pipe_does_not_hold_us(tmp_path: Path) -> None:
    head = make(tmp_path / "r")
    config = tmp_path / "r/.git/config"
    config.unlink()
    os.mkfifo(config)

    async def go() -> None:
        await read_recipe(tmp_path / "r", head, environ=ENVIRON, deadline=anyio.current_time() + 0.3)

    with pytest.raises(RecipeError, match="did not answer in time"):
        anyio.run(go)


@pytest.mark.anyio
async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    head = make(tmp_path / "r")
    await read_recipe(tmp_path / "r", head, environ={})
    before = os.listdir("/proc/self/fd")
    for commit in (head, "a" * 40):
        with contextlib.suppress(RecipeError):
            await read_recipe(tmp_path / "r", commit, environ={})
    assert os.listdir("/proc/self/fd") == before

"""Real repositories for the tests of this folder, made by git itself."""

import os
import subprocess
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from sandbox_judge.recipe.git import RecipeBlobs, read_recipe

TONE = b"name: tone\ninstructions: Be kind.\nllm:\n  model: m\n"
TRUTH = b"name: truth\ninstructions: Be true.\nllm:\n  model: m\n"
ENVIRON = {
    "PATH": "/usr/bin:/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.test",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.test",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def git(repository: Path, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], env=ENVIRON, input=stdin, capture_output=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def make(
    repository: Path, files: Mapping[str, bytes] = {"judges/tone.yaml": TONE}, *, object_format: str = "sha1"
) -> str:
    """A repository with one commit of these files; its id."""
    repository.mkdir(parents=True)
    git(repository, "init", "-q", "-b", "main", f"--object-format={object_format}")
    return commit(repository, files)


def commit(repository: Path, files: Mapping[str, bytes]) -> str:
    for name, content in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "--allow-empty", "-m", "a commit")
    return git(repository, "rev-parse", "HEAD")


def commit_of_tree(repository: Path, judges: str) -> str:
    """A commit whose `judges` is the tree of that id, made without a work tree."""
    root = git(repository, "mktree", stdin=f"040000 tree {judges}\tjudges\n".encode())
    return git(repository, "commit-tree", "-m", "a commit", root)


def loose(repository: Path, object_id: str) -> Path:
    return repository / ".git" / "objects" / object_id[:2] / object_id[2:]


def replace_object(repository: Path, object_id: str, other_id: str) -> None:
    """Puts a valid object of other content where `object_id` lies, as one with write access can."""
    path = loose(repository, object_id)
    content = loose(repository, other_id).read_bytes()
    assert zlib.decompress(content)
    path.unlink()
    path.write_bytes(content)


def read(
    path: Path, commit_id: str, *, pinned: bool = True, environ: Mapping[str, str] | None = None
) -> RecipeBlobs:
    async def go() -> RecipeBlobs:
        return await read_recipe(path, commit_id, environ=environ or {}, pinned=pinned)

    return anyio.run(go)


def contents(blobs: RecipeBlobs) -> dict[bytes, bytes | None]:
    return {file.name: file.content for file in blobs.files}


def problems(blobs: RecipeBlobs) -> dict[bytes, str]:
    return {file.name: file.problem for file in blobs.files if file.problem}


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that is dead but not yet reaped by its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true within a second."""
    for _ in range(100):
        if condition():
            return True
        anyio.run(anyio.sleep, 0.01)
    return condition()


def own_environment() -> dict[str, str]:
    return dict(os.environ)

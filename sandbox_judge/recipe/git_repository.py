"""Which repository a recipe's path lies in, where in it, and what is wrong with a clone that lacks something.

Looks at the file system only. What it finds decides where git is asked, never what is believed: every object
is held against the commit id that the platform gave.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from sandbox_judge.errors import RecipeError

_SMALL: Final = 4_096
_TOO_OLD: Final = (
    "unknown option",
    "usage: git",
    "unknown repository extension",
    "unknown ref storage",
    "git repo version",
)


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """`git_dir` is what git is told (`.git`, a `.git` file, a bare repository); `prefix` are the folders from
    the top of the commit's tree down to the recipe, as git stores names."""

    git_dir: str
    prefix: tuple[bytes, ...] = ()


def find_repository(path: Path) -> Repository:
    """The innermost repository at or above `path`, as git looks for it. Raises RecipeError for none.

    The path is followed as it is written before its links are: the folder that the platform named is the one
    that is looked up in the commit, even where someone has since put a link (or nothing) in its place.
    """
    try:
        if b"\0" in os.fsencode(path):
            raise ValueError
        written = os.path.abspath(path)
    except (ValueError, OSError) as error:  # the latter: a relative path, and the working directory is gone
        raise RecipeError(
            f"{str(path)!r} cannot be a path.", where="recipe.path", remedy="Give the whole path, from /."
        ) from error
    for start in dict.fromkeys((written, os.path.realpath(written))):
        here = start
        while True:
            git_dir = _git_dir_at(here)
            if git_dir is not None:
                below = os.path.relpath(start, here)
                parts = () if below == "." else tuple(os.fsencode(part) for part in below.split(os.sep))
                return Repository(git_dir=git_dir, prefix=parts)
            if here == os.path.dirname(here):
                break
            here = os.path.dirname(here)
    what = (
        "there is no git repository at or above it" if os.path.isdir(written) else "there is no such folder"
    )
    raise RecipeError(
        f"{what}, so the recipe's commit cannot be read.",
        where=str(path),
        remedy="Give the folder of a clone of the recipe as recipe.path; files that are not committed are "
        "read with --worktree.",
    )


def _git_dir_at(folder: str) -> str | None:
    dot_git = os.path.join(folder, ".git")
    if os.path.isfile(dot_git) or _is_git_dir(dot_git):
        return dot_git
    return folder if _is_git_dir(folder) else None


def _is_git_dir(folder: str) -> bool:
    """git's own test, near enough: a HEAD, objects and refs (which a linked worktree has elsewhere)."""
    return os.path.lexists(os.path.join(folder, "HEAD")) and (
        os.path.isfile(os.path.join(folder, "commondir"))
        or (os.path.isdir(os.path.join(folder, "objects")) and os.path.isdir(os.path.join(folder, "refs")))
    )


def missing_object(repository: Repository, kind: str, object_id: str, complaint: str) -> RecipeError:
    """Why git has no such object, and what to do: by what it said, and by what kind of clone this is."""
    common = _common_dir(repository.git_dir)
    what, remedy = f"the repository has no {kind} {object_id}", ""
    if _says(
        complaint, "corrupt", "inflate", "too long", "unpack", "garbage", "mismatch", "bad object header"
    ):
        what = f"{kind} {object_id} is corrupt in the repository"
        remedy = "See what `git fsck` says there, and clone the recipe again."
    elif kind != "commit" and (
        _says(complaint, "promisor", "lazy fetch", "not allowed") or _is_partial(common)
    ):
        what += ": it is a partial clone that has not fetched it, and judging never fetches"
        remedy = (
            "Clone the recipe without --filter, or run `git fetch --refetch --no-filter` there beforehand."
        )
    elif kind == "commit" and os.path.isfile(os.path.join(common, "shallow")):
        what += ": it is a shallow clone"
        remedy = (
            f"Run `git fetch --depth 1 origin {object_id}` (or `git fetch --unshallow`) there beforehand."
        )
    elif kind == "commit":
        remedy = "Fetch it there, or see whether recipe.path and recipe.commit belong together."
    else:
        remedy = "The clone is incomplete: see what `git fsck` says there, and clone the recipe again."
    return RecipeError(f"{what}.", where=repository.git_dir, remedy=remedy)


def is_repository_fault(complaint: str) -> bool:
    """Whether git complains of the repository or of itself, not of what it was asked."""
    return _says(complaint, "not a git repository", "corrupt", "promisor", "config", *_TOO_OLD)


def git_failed(repository: Repository, complaint: str) -> RecipeError:
    """git ended without an answer: told in terms of what to do."""
    said = complaint.rpartition("fatal: ")[2].partition("\n")[0][:300] or "it ended without a word"
    remedy = "Run `git fsck` there, or clone the recipe again."
    if _says(
        complaint, "unknown option", "usage: git", "unknown repository extension", "unknown ref storage"
    ):
        remedy = (
            "This git is too old for the repository or for us: 2.15 or newer, 2.29 for SHA-256, is needed."
        )
    elif "not a git repository" in complaint:
        remedy = (
            "A linked worktree or submodule needs the repository that its .git file names: make that "
            "available at the same path, or give that repository's folder."
        )
    return RecipeError(f"git cannot read the repository: {said}.", where=repository.git_dir, remedy=remedy)


def _says(complaint: str, *words: str) -> bool:
    return any(word in complaint for word in words)


def _common_dir(git_dir: str) -> str:
    """The directory that a linked worktree shares with its repository; good enough for an error's remedy."""
    pointer = _read_small(git_dir).removeprefix("gitdir:").strip() if os.path.isfile(git_dir) else ""
    own = os.path.join(os.path.dirname(git_dir), pointer) if pointer else git_dir
    return os.path.join(own, _read_small(os.path.join(own, "commondir")).strip())


def _is_partial(common: str) -> bool:
    try:
        return any(name.endswith(".promisor") for name in os.listdir(os.path.join(common, "objects", "pack")))
    except OSError:
        return False


def _read_small(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return os.fsdecode(file.read(_SMALL)).replace("\0", "")
    except OSError:
        return ""

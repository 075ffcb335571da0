"""The judges as they lie on disk, for `--worktree`: what an author is editing, in no commit.

Nothing is followed out of the tree: a link is told of, not opened, and neither is a pipe or a device.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.git_objects import is_lfs_pointer

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DiskFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file's name as bytes, and its bytes, or else a sentence on why not."""

    name: bytes
    content: bytes | None = None
    problem: str | None = None


def list_judges(recipe: Path, endings: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    """Names of the direct children of `judges/` with one of the endings, folders left out.

    None where there is no `judges/`. Raises RecipeError where the recipe or `judges` is no folder.
    """
    with _opened(recipe, "judges") as folder:
        if folder is None:
            return None
        names = [os.fsencode(name) for name in os.listdir(folder)]
        chosen = [name for name in names if name.endswith(endings)]
        return tuple(sorted(name for name in chosen if not _is_folder(name, folder)))


def read_files(
    recipe: Path, folder_name: str, names: Sequence[bytes], *, each: int, together: int
) -> tuple[DiskFile, ...]:
    """Files of a folder of the recipe (`.`: the recipe itself) by name; those it has not are left out.

    Raises RecipeError as `list_judges` does.
    """
    found = []
    with _opened(recipe, folder_name) as folder:
        for name in names if folder is not None else ():
            assert folder is not None
            file = _read(name, folder, min(each, together))
            if file is not None:
                found.append(file)
                together -= len(file.content or b"")
    return tuple(found)


@contextlib.contextmanager
def _opened(recipe: Path, folder_name: str) -> Iterator[int | None]:
    """A descriptor of the folder, None where there is none."""
    with contextlib.ExitStack() as stack:
        try:
            top = os.open(recipe, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise RecipeError(
                f"the recipe's folder cannot be read: {reason}.",
                where=str(recipe),
                remedy="Give the folder that holds judges/.",
            ) from error
        stack.callback(os.close, top)
        try:
            folder = os.open(folder_name, _OPEN | os.O_DIRECTORY, dir_fd=top)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            link = stat.S_ISLNK(os.lstat(folder_name, dir_fd=top).st_mode)
            raise RecipeError(
                "it is a symbolic link, which is not followed." if link else f"{error.strerror}.",
                where=str(recipe / folder_name),
                remedy="Put a folder of that name in its place.",
            ) from error
        stack.callback(os.close, folder)
        yield folder


def _is_folder(name: bytes, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


def _read(name: bytes, folder: int, limit: int) -> DiskFile | None:
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
        if stat.S_ISLNK(mode):
            return DiskFile(name=name, problem="is a symlink: put the file itself in its place.")
        if not stat.S_ISREG(mode):
            return DiskFile(name=name, problem="is not a regular file.")
        with open(os.open(name, _OPEN, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return DiskFile(name=name, problem="was exchanged while it was opened.")
            content = file.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return DiskFile(name=name, problem=f"cannot be read: {error.strerror}.")
    if len(content) > limit:
        return DiskFile(name=name, problem=f"is too large to be read (more than {limit:,} bytes).")
    if is_lfs_pointer(content):
        return DiskFile(name=name, problem="is a Git LFS pointer: fetch the file itself (git lfs pull).")
    return DiskFile(name=name, content=content)

"""Keeping a version of a run's outputs and putting it back, whatever stands in its place by then.

A version is held in memory, so that the agent cannot reach it. Links and special files are neither kept nor
followed nor removed; what was too large to keep stays as it is.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sandbox_judge.errors import UsageError
from sandbox_judge.rubric.tree import Caps, Found, Tree, read_tree

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CAPS: Final = Caps(file_bytes=64 * 1024 * 1024, total_bytes=512 * 1024 * 1024, files=10_000)


def keep(root: Path) -> Tree:
    """The version that lies in `root` now. Raises InputError."""
    return read_tree(root, caps=CAPS)


def put_back(root: Path, version: Tree) -> None:
    """Makes the regular files below `root` those of `version`. Raises UsageError where that cannot be."""
    now = read_tree(root, caps=CAPS)
    kept = {found.path: found for found in version.files}
    untouched = {one.path for one in version.left_out}
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for found in now.files:
                if found.path not in kept and found.path not in untouched:
                    _remove(descriptor, found.path)
            there = {found.path: found.data for found in now.files}
            for found in version.files:
                if there.get(found.path) != found.data:
                    _write(descriptor, found)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UsageError(
            f"the best version could not be put back ({error.strerror}).", where=str(root)
        ) from error


def _remove(root: int, path: str) -> None:
    with _parent(root, path, make=False) as (parent, name):
        os.unlink(name, dir_fd=parent)


def _write(root: int, found: Found) -> None:
    with _parent(root, found.path, make=True) as (parent, name):
        unfinished = f".{secrets.token_hex(8)}.part"
        descriptor = os.open(unfinished, _NEW, 0o600, dir_fd=parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(found.data)
                os.fchmod(file.fileno(), found.mode & 0o777)
            _make_room(parent, name)
            os.rename(unfinished, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(unfinished, dir_fd=parent)
            raise


def _make_room(parent: int, name: str) -> None:
    """An empty folder in the place of a file gives way; one with something in it is an error."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=parent)


@contextlib.contextmanager
def _parent(root: int, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
    """An open folder for the last name of `path`, reached without following any link."""
    *folders, name = path.split("/")
    at = os.dup(root)
    try:
        for folder in folders:
            if make:
                _make_folder(at, folder)
            below = os.open(folder, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        yield at, name
    finally:
        os.close(at)


def _make_folder(parent: int, name: str) -> None:
    try:
        kind = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=parent)
        return
    if not stat.S_ISDIR(kind):  # a file or a link where a folder was: it is newer than the version
        os.unlink(name, dir_fd=parent)
        os.mkdir(name, 0o755, dir_fd=parent)

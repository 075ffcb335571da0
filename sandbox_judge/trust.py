"""Files and directories that must be ours (design, section 14): settings, spool, sockets.

An agent that can write, or swap, a directory on the way to such a file decides what the hook obeys or sends.
So every step from the root to the file is looked at, symbolic links included.
"""

import os
import stat
from pathlib import Path
from typing import Final

from sandbox_judge.errors import TrustError

ROOT_UID: Final = 0
OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
PRIVATE_DIR: Final = 0o700
PRIVATE_FILE: Final = 0o600
_MAX_LINKS: Final = 40
_INSECURE: Final = "For development only, `--insecure` accepts it as it is."


def own_uid() -> int:
    """The user on whose behalf files are opened."""
    return os.geteuid()


def require_private(path: Path, *, insecure: bool = False, ours: bool = True) -> None:
    """Holds that nobody but us and root can write `path`, or put something else in its place.

    `path` may be a directory, a file or a socket and must exist. With `ours` its owner must be us; without,
    root will do too (settings that the platform mounts). `insecure` switches the look off. Raises TrustError.
    """
    if insecure:
        return
    *parents, (last, status) = _steps(os.path.abspath(path))
    for step, found in parents:
        _require_parent(step, found)
    owners = {own_uid()} if ours else {own_uid(), ROOT_UID}
    if status.st_uid not in owners:
        raise TrustError(
            f"it belongs to user {status.st_uid}, but must belong to user {own_uid()}, who runs this.",
            where=last,
            remedy=f"Give it to that user (chown), or name another place. {_INSECURE}",
        )
    if status.st_mode & OTHERS_MAY_WRITE and not _read_only(last):
        raise TrustError(
            f"other users can write it (mode {stat.S_IMODE(status.st_mode):04o}).",
            where=last,
            remedy=f"Take that away: chmod go-w {last}. {_INSECURE}",
        )


def unwritable_by_others(path: str) -> bool:
    """Whether only root and we can change `path` or what it names."""
    try:
        steps = _steps(os.path.abspath(path))
        for step, status in steps:
            _require_parent(step, status)
        return steps[-1][1].st_mode & OTHERS_MAY_WRITE == 0
    except TrustError:
        return False


def make_private_dir(path: Path, *, insecure: bool = False) -> None:
    """Makes `path` and what is missing above it, each 0700, and holds that it is private.

    Raises TrustError.
    """
    missing = []
    here = Path(os.path.abspath(path))
    while not os.path.lexists(here):
        missing.append(here)
        here = here.parent
    try:
        for directory in reversed(missing):
            try:
                directory.mkdir(mode=PRIVATE_DIR)
            except FileExistsError:
                continue  # another run of ours was quicker; what stands there is looked at below
        if not path.is_dir():
            raise TrustError(
                "it is not a directory.", where=str(path), remedy="Move it away, or name another place."
            )
    except OSError as error:
        raise TrustError(
            f"it cannot be made: {error.strerror}.",
            where=str(error.filename or path),
            remedy="Name a directory that this user may write, for instance by SANDBOX_JUDGE_STATE_DIR.",
        ) from error
    require_private(path, insecure=insecure)


def open_own_file(path: str, flags: int, *, dir_fd: int | None = None, insecure: bool = False) -> int:
    """Opens a regular file of ours without following a link at its end; new ones are 0600. The descriptor.

    A file of another owner, or one that others can write, is refused, as are pipes and devices (which could
    hang the reader). Raises TrustError, or OSError as `os.open` does.
    """
    descriptor = os.open(
        path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, PRIVATE_FILE, dir_fd=dir_fd
    )
    status = os.fstat(descriptor)
    fault = ""
    if not stat.S_ISREG(status.st_mode):
        fault = "it is not a regular file."
    elif not insecure and status.st_uid != own_uid():
        fault = f"it belongs to user {status.st_uid}, not to user {own_uid()}, who runs this."
    elif not insecure and status.st_mode & OTHERS_MAY_WRITE:
        fault = f"other users can write it (mode {stat.S_IMODE(status.st_mode):04o})."
    if fault:
        os.close(descriptor)
        raise TrustError(fault, where=path, remedy="Move it away, or give it to that user with mode 0600.")
    os.set_blocking(descriptor, True)
    return descriptor


def read_trusted(path: Path, *, limit: int, insecure: bool = False) -> bytes:
    """The bytes of a file that only we or root can change, at most `limit` of them. Raises TrustError, or
    OSError where it cannot be read."""
    require_private(path, insecure=insecure, ours=False)
    descriptor = os.open(os.path.realpath(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TrustError("it is not a regular file.", where=str(path), remedy="Name a regular file.")
        if not insecure and status.st_uid not in (own_uid(), ROOT_UID):
            raise TrustError("it was exchanged while it was opened.", where=str(path))
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise TrustError(f"it is larger than {limit:,} bytes.", where=str(path), remedy="Make it smaller.")
    return content


def _steps(path: str) -> list[tuple[str, os.stat_result]]:
    """Everything that is passed on the way to `path`, itself last, each with its status; links are followed
    step by step, so that the directory a link stands in is among them."""
    todo = [part for part in reversed(path.split("/")) if part]
    here = "/"
    passed = [(here, _lstat(here))]
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            here = os.path.dirname(here)
            continue
        step = os.path.join(here, part)
        status = _lstat(step)
        if not stat.S_ISLNK(status.st_mode):
            here = step
            passed.append((step, status))
            continue
        links += 1
        if links > _MAX_LINKS:
            raise TrustError("its symbolic links never end.", where=path)
        _require_link(step, status, here)
        target = os.readlink(step)
        if target.startswith("/"):
            here = "/"
        todo.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    if passed[-1][0] != here:  # the last step was `..`
        passed.append((here, _lstat(here)))
    return passed


def _lstat(path: str) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        raise TrustError(
            f"it cannot be looked at: {error.strerror}.", where=path, remedy="Make it, or name another place."
        ) from error


def _require_parent(path: str, status: os.stat_result) -> None:
    """Holds that no other user can exchange what stands in this directory: the sticky bit lets a directory
    such as /tmp be written by all, for its entries stay their owners' (who are looked at in their turn)."""
    if status.st_uid not in (own_uid(), ROOT_UID):
        raise TrustError(
            f"it lies on the way and belongs to user {status.st_uid}, who can exchange what is below.",
            where=path,
            remedy=f"Name a place below directories of root or of user {own_uid()}. {_INSECURE}",
        )
    if status.st_mode & OTHERS_MAY_WRITE and not status.st_mode & stat.S_ISVTX and not _read_only(path):
        raise TrustError(
            "it lies on the way and other users can write it "
            f"(mode {stat.S_IMODE(status.st_mode):04o}), so they can exchange what is below.",
            where=path,
            remedy=f"Take that away (chmod go-w {path}), or name another place. {_INSECURE}",
        )


def _require_link(path: str, status: os.stat_result, parent: str) -> None:
    """A link is its owner's to exchange, in a sticky directory too."""
    _require_parent(parent, _lstat(parent))
    if status.st_uid not in (own_uid(), ROOT_UID):
        raise TrustError(
            f"it is a symbolic link of user {status.st_uid}, who can point it elsewhere.",
            where=path,
            remedy=f"Name the place itself. {_INSECURE}",
        )


def _read_only(path: str) -> bool:
    """A read-only mount cannot be written whatever its modes say (Kubernetes mounts settings as 0777)."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False

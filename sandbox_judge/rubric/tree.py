"""The files below a directory that somebody else may have written: regular ones only, within caps.

Every step is taken relative to an open directory and follows no link, so that nothing outside the directory
can be reached, whatever is renamed meanwhile. What is left out is told, never followed.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from sandbox_judge.errors import InputError

MOST_FILES: Final = 2_000
MOST_DEPTH: Final = 32
_MOST_NAMES: Final = 20_000
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK: Final = 1 << 20


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """In bytes, of one file and of all together; a file beyond them is left out and told."""

    file_bytes: int = 16 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024
    files: int = MOST_FILES


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One file, by its path below the directory, `/` between names. `stamp` changes when it is written."""

    path: str
    data: bytes
    mode: int = 0o644
    stamp: tuple[int, int] = (0, 0)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    why: str


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """`files` in the order of their paths."""

    files: tuple[Found, ...]
    left_out: tuple[LeftOut, ...]


def read_tree(root: Path, *, caps: Caps | None = None, skip: frozenset[str] = frozenset()) -> Tree:
    """Reads the files below `root`, which may itself be a link that the user gave. `skip` are paths that are
    passed over in silence. Raises InputError where `root` is no directory."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"is no directory that can be read ({reason}).", where=str(root)) from error
    reader = _Reader(caps or Caps(), skip)
    try:
        reader.walk(descriptor, "", 0)
    finally:
        os.close(descriptor)
    files = sorted(reader.files, key=lambda found: found.path)
    return Tree(files=tuple(files), left_out=tuple(sorted(reader.left_out, key=lambda one: one.path)))


class _Reader:
    def __init__(self, caps: Caps, skip: frozenset[str]) -> None:
        self.caps = caps
        self.skip = skip
        self.files: list[Found] = []
        self.left_out: list[LeftOut] = []
        self.total = 0
        self.names = 0

    def walk(self, directory: int, prefix: str, depth: int) -> None:
        for name in self._names(directory, prefix):
            path = f"{prefix}{name}"
            if path in self.skip:
                continue
            try:
                self._take(directory, name, path, depth)
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                self._leave(path, f"cannot be read ({reason})")

    def _names(self, directory: int, prefix: str) -> Iterator[str]:
        with os.scandir(directory) as entries:
            for entry in entries:
                self.names += 1
                if self.names > _MOST_NAMES:
                    self._leave(prefix, f"more than {_MOST_NAMES:,} names; the rest was not looked at")
                    return
                yield entry.name

    def _take(self, directory: int, name: str, path: str, depth: int) -> None:
        kind = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISLNK(kind):
            self._leave(path, "a symbolic link, which is not followed")
        elif stat.S_ISDIR(kind):
            if depth >= MOST_DEPTH:
                self._leave(path, f"deeper than {MOST_DEPTH} folders")
                return
            below = os.open(name, _READ | os.O_DIRECTORY, dir_fd=directory)
            try:
                self.walk(below, f"{path}/", depth + 1)
            finally:
                os.close(below)
        elif stat.S_ISREG(kind):
            self._file(directory, name, path)
        else:
            self._leave(path, "neither a file nor a folder")

    def _file(self, directory: int, name: str, path: str) -> None:
        if len(self.files) >= self.caps.files:
            self._leave(path, f"beyond {self.caps.files:,} files")
            return
        descriptor = os.open(name, _READ, dir_fd=directory)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):  # exchanged since it was looked at
                self._leave(path, "neither a file nor a folder")
                return
            most = min(self.caps.file_bytes, self.caps.total_bytes - self.total)
            data = _whole(descriptor, most) if status.st_size <= most else None
        finally:
            os.close(descriptor)
        if data is None:
            self._leave(path, f"too large ({status.st_size:,} bytes)")
            return
        self.total += len(data)
        stamp = (status.st_ino, status.st_mtime_ns)
        mode = stat.S_IMODE(status.st_mode)
        self.files.append(Found(path=_told(path), data=data, mode=mode, stamp=stamp))

    def _leave(self, path: str, why: str) -> None:
        if len(self.left_out) < self.caps.files:
            self.left_out.append(LeftOut(path=_told(path), why=why))


def _whole(descriptor: int, most: int) -> bytes | None:
    """The file's bytes, or None where it grew beyond `most` meanwhile."""
    chunks, size = [], 0
    while chunk := os.read(descriptor, _CHUNK):
        size += len(chunk)
        if size > most:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _told(path: str) -> str:
    """Names that are no UTF-8 hold surrogates, which no report can: shown as replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

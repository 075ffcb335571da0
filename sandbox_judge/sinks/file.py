"""Events appended to a file, fsynced, whole lines only, several writers allowed.

The file is opened for each hand-over, so a rotated log is followed. Its last component may not be a symbolic
link: whoever can write the directory could otherwise have us append to any file of ours
(docs/decisions/spool.md).
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio

from sandbox_judge.errors import DeliveryError, SettingsError
from sandbox_judge.sinks.base import Line, Taken

_FLAGS: Final = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_MODE: Final = 0o600
_LOCK_WAIT_S: Final = 0.005


class FileSink:
    """Appends to a regular file or a character device. New files are 0600: reasoning may be personal."""

    spooled = False
    takes_ledger = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = f"file:{path}"

    def probe(self) -> None:
        """Opens the file once, before any model call. Raises SettingsError if it cannot be written."""
        try:
            os.close(self._open())
        except DeliveryError as error:
            raise SettingsError(error.message, where=error.where, remedy=error.remedy) from error

    async def send(self, lines: Sequence[Line], *, deadline: float, taken: Taken) -> None:
        with anyio.CancelScope(deadline=deadline) as scope:
            await self._append(lines, taken)
        if scope.cancelled_caught:
            raise DeliveryError("another writer held its lock until the deadline.", where=self.name)

    async def finish(self, *, deadline: float, taken: Taken) -> None:
        """Nothing is held back."""

    async def aclose(self) -> None:
        """Nothing is held open."""

    async def _append(self, lines: Sequence[Line], taken: Taken) -> None:
        fd = self._open()
        try:
            await _lock(fd)
            is_file = stat.S_ISREG(os.fstat(fd).st_mode)
            write = _append_whole if is_file else _write_to_device
            written = []
            try:
                for line in lines:
                    write(fd, line.data + b"\n")
                    written.append(line.event_id)
            finally:
                if is_file:
                    os.fsync(fd)
                for event_id in written:
                    taken(event_id)
        except OSError as error:
            raise DeliveryError(f"it cannot be written: {error.strerror}.", where=self.name) from error
        finally:
            os.close(fd)

    def _open(self) -> int:
        try:
            fd = _open_for_appending(self._path)
        except OSError as error:
            if self._path.is_symlink():
                raise DeliveryError(
                    "it is a symbolic link, which is not followed.",
                    where=self.name,
                    remedy="Name the file itself (for standard output: `stdout`).",
                ) from error
            raise DeliveryError(
                f"it cannot be opened: {error.strerror}.",
                where=self.name,
                remedy="Name a file in a directory that this user may write.",
            ) from error
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode) or stat.S_ISCHR(mode):
            return fd
        os.close(fd)
        raise DeliveryError(
            "it is neither a regular file nor a device.",
            where=self.name,
            remedy="For a socket use unix:PATH.",
        )


def _open_for_appending(path: Path) -> int:
    """Readable too where that is allowed, to see whether the last line is whole."""
    is_new = not os.path.lexists(path)
    try:
        fd = os.open(path, os.O_RDWR | _FLAGS, _MODE)
    except PermissionError:
        fd = os.open(path, os.O_WRONLY | _FLAGS, _MODE)
    if is_new:
        _sync_name(path)
    return fd


def _sync_name(path: Path) -> None:
    """Makes a new file's name last; a directory that may not be read is no reason to fail."""
    with contextlib.suppress(OSError):
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


async def _lock(fd: int) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            await anyio.sleep(_LOCK_WAIT_S)


def _append_whole(fd: int, data: bytes) -> None:
    """One write; what a full disk cut off is taken back. The caller holds the lock. Raises OSError."""
    end = os.lseek(fd, 0, os.SEEK_END)
    if end and not _ends_with_newline(fd, end):
        data = b"\n" + data  # a writer died amid its line: do not continue it
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError:
        os.ftruncate(fd, end)
        raise


def _write_to_device(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, "the device took a part of the line only")


def _ends_with_newline(fd: int, end: int) -> bool:
    try:
        return os.pread(fd, 1, end - 1) == b"\n"
    except OSError:  # write-only for us
        return True

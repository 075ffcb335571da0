"""The write-ahead spool: what was graded is on disk before it is sent, and struck off when it was taken.

A directory of files, one a run, each locked (flock) by its writer for as long as that lives. A file is JSON
lines: `{"event": {...}, "id": "...", "sinks": [...]}` for an event and the sinks that are to take it,
`{"taken": "<sink>", "id": "..."}` when one did, `{"refused": "<sink>", "id": "...", "why": "..."}` as a note.
A last line without its newline was cut off by a crash before `append` returned. Files whose lock is free were
left behind: the next run and `flush` deliver them. docs/decisions/spool.md has the reasons.
"""

import contextlib
import errno
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from sandbox_judge.errors import DeliveryError, TrustError
from sandbox_judge.sinks.spool_file import COMPACTING, SpoolFile, lock
from sandbox_judge.trust import make_private_dir, open_own_file

SUFFIX: Final = ".events"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDWR | os.O_APPEND
_TRIES: Final = 16


class Spool:
    """The spool of one state directory. Nothing is touched before `prepare`, `create` or `leftovers`.

    `warnings` collects what was found and left alone. Raises TrustError where the directory is not ours or
    others can write it (not with `insecure`), DeliveryError where it cannot be written.
    """

    def __init__(self, directory: Path, *, insecure: bool = False) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        self._insecure = insecure
        self._fd = -1

    def prepare(self) -> None:
        """Makes the directory and holds that it is private: call it before any model call."""
        if self._fd >= 0:
            return
        try:
            make_private_dir(self.directory, insecure=self._insecure)
            self._fd = os.open(self.directory, _DIRECTORY)
        except TrustError as error:
            # A directory that is not there and cannot be made is no danger: events are then sent without it.
            if isinstance(error.__cause__, OSError):
                raise self._unwritable(error.__cause__) from error
            raise
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Lets go of the directory. Its files must be closed before."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def create(self) -> SpoolFile:
        """A new file, locked by us and known to the directory for good (fsync)."""
        self.prepare()
        try:
            for _ in range(_TRIES):
                name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
                fd = open_own_file(name, _FILE | os.O_CREAT | os.O_EXCL, dir_fd=self._fd)
                if self._lock_or_close(fd):
                    os.fsync(self._fd)
                    return SpoolFile(fd, name, self._fd)
                # Between the two steps another run took it for an empty leftover: try another one.
        except OSError as error:
            raise self._unwritable(error) from error
        raise self._unwritable(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)))

    def leftovers(self, *, skip: Collection[str] = ()) -> Iterator[SpoolFile]:
        """Files in which events of dead runs wait, oldest first, each locked for the caller, who closes it.
        Files of live runs, of other owners, and symbolic links are left alone."""
        if self._fd < 0 and not os.path.lexists(self.directory):
            return
        self.prepare()
        try:
            names = sorted(os.listdir(self._fd))
        except OSError as error:
            raise self._unwritable(error) from error
        for name in names:
            if name.endswith(COMPACTING):
                self._sweep(name)
            elif name.endswith(SUFFIX) and name not in skip:
                file = self._adopted(name)
                if file is not None:
                    yield file

    def _adopted(self, name: str) -> SpoolFile | None:
        fd = self._opened(name)
        try:
            if fd < 0 or not self._lock_or_close(fd):
                return None
            file = SpoolFile(fd, name, self._fd)
            damaged = file.recover()
        except OSError as error:
            self._warn(name, f"it cannot be read ({error.strerror}) and was left alone.")
            return None
        if damaged:
            self._warn(name, f"{damaged} of its lines cannot be read; they are kept there.")
        if any(True for _ in file.waiting()):
            return file
        file.close()
        return None

    def _opened(self, name: str) -> int:
        """-1 where it is not ours to send."""
        try:
            return open_own_file(name, _FILE, dir_fd=self._fd, insecure=self._insecure)
        except FileNotFoundError:
            return -1  # another run has just delivered it
        except TrustError as error:
            self._warn(name, f"{error.message.rstrip('.')}: left alone.")
        except OSError as error:
            why = "a symbolic link" if error.errno == errno.ELOOP else f"not to be opened ({error.strerror})"
            self._warn(name, f"it is {why}: left alone.")
        return -1

    def _sweep(self, name: str) -> None:
        """Removes what a run left that died while compacting; the file it was made from still stands."""
        with contextlib.suppress(OSError, TrustError):
            fd = open_own_file(name, _FILE, dir_fd=self._fd, insecure=self._insecure)
            if self._lock_or_close(fd):
                os.unlink(name, dir_fd=self._fd)
                os.close(fd)

    def _lock_or_close(self, fd: int) -> bool:
        held = False
        try:
            held = lock(fd)
        finally:
            if not held:
                os.close(fd)
        return held

    def _warn(self, name: str, what: str) -> None:
        text = f"{self.directory / name}: {what}"
        if text not in self.warnings:
            self.warnings.append(text)

    def _unwritable(self, error: OSError) -> DeliveryError:
        return DeliveryError(
            f"the spool cannot be used: {error.strerror}.",
            where=str(self.directory),
            remedy="Free space there, or name another state directory.",
        )

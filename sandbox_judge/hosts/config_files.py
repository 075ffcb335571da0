"""Reading and writing a host's configuration files: whole, or not at all."""

import contextlib
import hashlib
import os
from typing import Final

from sandbox_judge.errors import UsageError

_MOST_BYTES: Final = 8 * 1024 * 1024


def bytes_of(path: str) -> bytes | None:
    """A file's bytes, None where it is not there. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"cannot be read ({os.strerror(error.errno or 0)}).", where=path) from error
    if len(data) > _MOST_BYTES:
        raise UsageError("is larger than any configuration; it was left as it is.", where=path)
    return data


def replace(path: str, data: bytes, mode: int) -> None:
    """Writes a file whole, with the mode that it has or else `mode`; a link stays a link."""
    real = os.path.realpath(path)
    new = f"{real}.{os.getpid()}.tmp"
    try:
        with contextlib.suppress(FileNotFoundError):
            mode = (os.stat(real).st_mode & 0o777) | (mode & 0o111)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(new, real)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise UsageError(f"cannot be written ({os.strerror(error.errno or 0)}).", where=path) from error


def make_folders(folder: str, *, private: bool) -> list[str]:
    """Makes what is missing of a path; what was made, the outermost first. Raises UsageError."""
    missing = []
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700 if private else 0o777)
        except OSError as error:
            raise UsageError(f"cannot be made ({os.strerror(error.errno or 0)}).", where=path) from error
    return list(reversed(missing))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

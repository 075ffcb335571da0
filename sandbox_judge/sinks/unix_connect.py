"""Connecting to a unix stream socket: long paths, a full backlog, and a reason for each failure."""

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Final

import anyio

from sandbox_judge.errors import DeliveryError, SettingsError

# sun_path holds 108 bytes on Linux, of which the last is its NUL.
PATH_LIMIT: Final = 107
_BY_DESCRIPTOR: Final = "/proc/self/fd"
_BACKOFF_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05)


def check_path(path: Path, *, where: str) -> None:
    """Raises SettingsError for a path that no socket can be reached by, with its length in bytes."""
    raw = os.fsencode(path)
    if not path.name or b"\0" in raw:
        raise SettingsError("no path of a socket.", where=where, remedy="Write unix:/run/judge.sock.")
    if len(raw) <= PATH_LIMIT:
        return
    # A longer path is reached through a descriptor of its directory, whose number may have seven digits.
    room = PATH_LIMIT - len(_BY_DESCRIPTOR) - len("/1048576/")
    name = len(os.fsencode(path.name))
    if name > room or not os.path.isdir(_BY_DESCRIPTOR):
        raise SettingsError(
            f"its path has {len(raw)} bytes and its last part {name}; the system takes {PATH_LIMIT} bytes"
            f" (or a last part of {room} where /proc is mounted).",
            where=where,
            remedy="Put the socket at a shorter path.",
        )


async def connected(path: Path, *, where: str) -> socket.socket:
    """A non-blocking stream socket. A full backlog is tried again until the caller's scope ends. Raises
    DeliveryError with a reason of its own for a missing, a stale and a datagram socket."""
    attempt = 0
    while True:
        try:
            return _connect(path)
        except BlockingIOError:
            await anyio.sleep(_BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)])
            attempt += 1
        except OSError as error:
            raise DeliveryError(_reason(path, error), where=where) from error


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    directory = -1
    try:
        target = os.fsencode(path)
        if len(target) > PATH_LIMIT:
            directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            target = os.fsencode(f"{_BY_DESCRIPTOR}/{directory}/") + os.fsencode(path.name)
        connection.connect(target)
    except BaseException:
        connection.close()
        raise
    finally:
        if directory >= 0:
            os.close(directory)
    return connection


def _reason(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "there is no socket at this path: the collector has not been started, or listens elsewhere."
    if error.errno == errno.ECONNREFUSED:
        if not _is_socket(path):
            return "what stands at this path is not a socket."
        return "the socket is stale: nobody listens on it any more."
    if error.errno == errno.EPROTOTYPE:
        return "it is a datagram socket; a stream socket is needed."
    if error.errno in (errno.EACCES, errno.EPERM):
        return "this user may not connect to it (it needs write permission on the socket)."
    return f"it cannot be connected to: {error.strerror}."


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False

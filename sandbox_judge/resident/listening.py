"""The server's socket: made where nobody else can replace it, mode 0600, never on top of a living server."""

import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Final

from sandbox_judge.errors import TrustError, UsageError
from sandbox_judge.trust import require_private

# sun_path of Linux, without its closing zero.
MOST_PATH_BYTES: Final = 107
_BACKLOG: Final = 4096  # the kernel takes less where its own limit is lower
_CREDENTIALS: Final = struct.Struct("3i")
_ASK_S: Final = 1.0


def listen(path: Path, *, for_others: bool = False, insecure: bool = False) -> socket.socket:
    """A listening unix socket at `path`, for this user alone; `for_others` lets every user connect (who they
    are is looked at then). A file that no server answers on is replaced.

    Raises UsageError (path too long, something else stands there, a server answers), TrustError.
    """
    text = os.fspath(path)
    if len(os.fsencode(text)) > MOST_PATH_BYTES:
        raise UsageError(
            f"the path has {len(os.fsencode(text))} bytes; the kernel takes {MOST_PATH_BYTES}.",
            where=text,
            remedy="Use a shorter one, such as /run/judge.sock; a symbolic link to the directory will do.",
        )
    require_private(path.parent, insecure=insecure)
    _clear(text)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)  # from its first moment on nobody else can connect
    try:
        listener.bind(text)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen there ({os.strerror(error.errno or 0)}).",
            where=text,
            remedy="Name a place in a directory that exists and that this user may write.",
        ) from error
    finally:
        os.umask(before)
    if for_others:
        os.chmod(text, 0o666)  # noqa: S103 - the peer's uid is what decides
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def _clear(path: str) -> None:
    """Takes away a socket that a dead server left. Raises UsageError where it may not be taken away."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot be looked at ({os.strerror(error.errno or 0)}).", where=path) from error
    if not stat.S_ISSOCK(status.st_mode):
        raise UsageError(
            "something that is no socket stands there.", where=path, remedy="Name another place."
        )
    if _answers(path):
        raise UsageError(
            "a server listens there already.", where=path, remedy="Stop it first, or name another socket."
        )
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _answers(path: str) -> bool:
    """Whether anybody listens: only a refused connection says that nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_ASK_S)
        try:
            probe.connect(path)
        except OSError as error:
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True


def remove(path: Path, listener: socket.socket) -> None:
    """Closes the listener and takes its file away, unless another server has put its own there."""
    with contextlib.suppress(OSError):
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.close()
        with probe:
            probe.settimeout(0.0)
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                os.unlink(path)


def peer_uid(sock: socket.socket) -> int:
    """The user at the other end, as the kernel knows it (of a server: who called listen)."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])


def require_peer(sock: socket.socket, allowed: Collection[int]) -> None:
    """Raises TrustError for a client of a user who is not among `allowed`."""
    uid = peer_uid(sock)
    if uid not in allowed:
        raise TrustError(
            f"user {uid} may not use this server.", remedy="The operator can allow it with --allow-uid."
        )

"""Reading the hook input from a stream that may never close (design, section 3).

The stream ends early only where what came so far is a whole array, or a whole object that is an envelope;
all else is read to its end, but waits at most two seconds for a further byte, inside the deadline.
"""

import os
import stat
from collections.abc import Callable
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.envelope import is_envelope
from sandbox_judge.errors import InputError

IDLE_S: Final = 2.0
_CHUNK: Final = 1 << 20
# How long a stream must be quiet before what came is tried as a whole document: a parse costs time that
# grows with the input, so it is not tried at every chunk.
_QUIET_S: Final = 0.02
DEFAULT_MOST_BYTES: Final = 1 << 30


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What came. `cut_short`: the stream was still open when waiting ended."""

    data: bytes
    cut_short: bool = False


async def read_stream(
    fd: int,
    *,
    deadline: float,
    idle_s: float = IDLE_S,
    most_bytes: int = DEFAULT_MOST_BYTES,
    whole: Callable[[bytes], bool] | None = None,
) -> Received:
    """Reads the descriptor as said above. `deadline` is absolute on anyio's clock.

    Raises InputError for more than `most_bytes` and for a stream that cannot be read.
    """
    is_whole = _whole_document if whole is None else whole
    mode = os.fstat(fd).st_mode
    if stat.S_ISCHR(mode) and not os.isatty(fd):
        return _device(fd, most_bytes, deadline)
    if stat.S_ISREG(mode):
        # An event loop cannot wait for a regular file, and need not.
        with os.fdopen(os.dup(fd), "rb") as file:
            return Received(data=_bounded(file.read(most_bytes + 1), most_bytes))
    buffer = bytearray()
    tried = 0
    while True:
        may_try = len(buffer) > tried and bytes(buffer[-64:]).rstrip()[-1:] in (b"]", b"}")
        wait_s = _QUIET_S if may_try else idle_s
        with anyio.move_on_at(min(deadline, anyio.current_time() + wait_s)) as scope:
            await anyio.wait_readable(fd)
        if not scope.cancelled_caught:
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                continue
            except OSError as error:
                raise InputError(
                    f"cannot be read ({os.strerror(error.errno or 0)}).", where="stdin"
                ) from error
            if not chunk:
                return Received(data=bytes(buffer))
            buffer += chunk
            _bounded(buffer, most_bytes)
        elif may_try:
            tried = len(buffer)
            if is_whole(bytes(buffer)):
                return Received(data=bytes(buffer))
            if anyio.current_time() >= deadline:
                return Received(data=bytes(buffer), cut_short=True)
        else:
            return Received(data=bytes(buffer), cut_short=True)


def _device(fd: int, most_bytes: int, deadline: float) -> Received:
    """A device such as /dev/null, which is always ready and which no event loop can wait for."""
    buffer = bytearray()
    while anyio.current_time() < deadline:
        try:
            chunk = os.read(fd, _CHUNK)
        except OSError as error:
            raise InputError(f"cannot be read ({os.strerror(error.errno or 0)}).", where="stdin") from error
        if not chunk:
            return Received(data=bytes(buffer))
        buffer += chunk
        _bounded(buffer, most_bytes)
    return Received(data=bytes(buffer), cut_short=True)


def _bounded(data: Any, most_bytes: int) -> Any:
    if len(data) > most_bytes:
        raise InputError(f"is larger than {most_bytes} bytes.", where="hook input")
    return data


def _whole_document(data: bytes) -> bool:
    start = data.lstrip()[:1]
    if start not in (b"[", b"{"):
        return False
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return start == b"[" or is_envelope(value)

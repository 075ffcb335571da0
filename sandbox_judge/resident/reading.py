"""Reading one request from a connection: whole, or refused within bounds of time and size.

A request ends where the client shuts down its side, or at a newline behind a whole document. A document that
is neither an array nor an envelope may be the first of several JSON Lines, so after its newline a moment of
quiet is waited for.
"""

import os
import socket
from collections.abc import Callable
from typing import Final

import anyio
import msgspec

from sandbox_judge.envelope import is_envelope
from sandbox_judge.resident.protocol import HEADER_START, RequestRefused

IDLE_S: Final = 2.0
# Nobody may hold a connection open for longer with a byte now and then.
LONGEST_S: Final = 20.0
_QUIET_S: Final = 0.25
_CHUNK: Final = 1 << 18


class Reading(msgspec.Struct, eq=False):
    """One connection that is being read, as the server sees it when it must choose whom to drop."""

    sock: socket.socket
    scope: anyio.CancelScope
    since: float
    received: int = 0


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """A whole request, and when its first byte was there (anyio's clock)."""

    raw: bytes
    started: float


async def read_request(
    reading: Reading, *, most_bytes: int, room: Callable[[int], bool], idle_s: float = IDLE_S
) -> Arrived | None:
    """The request, None where the client closed without a word. `room` is asked for each further number of
    bytes whether the server still has that much. Raises RequestRefused."""
    buffer = bytearray()
    started = anyio.current_time()
    tried = settled = 0  # sizes at which the document was found not whole: at a newline, after quiet
    while True:
        ends = reading.since + LONGEST_S
        may_be_whole = len(buffer) > settled and buffer.endswith(b"\n")
        chunk = None
        with anyio.move_on_at(min(ends, anyio.current_time() + (_QUIET_S if may_be_whole else idle_s))):
            chunk = await _received(reading.sock)
        if chunk == b"":
            return Arrived(raw=bytes(buffer), started=started) if buffer else None
        if chunk is None:
            if may_be_whole and _whole(buffer, any_document=True):
                return Arrived(raw=bytes(buffer), started=started)
            if not may_be_whole or anyio.current_time() >= ends:
                raise _incomplete(len(buffer), idle_s)
            settled = len(buffer)
            continue
        if not buffer:
            started = anyio.current_time()
        buffer += chunk
        reading.received = len(buffer)
        if len(buffer) > most_bytes:
            raise RequestRefused("too_large", f"the request is larger than {most_bytes} bytes.")
        if not room(len(chunk)):
            raise RequestRefused("busy", "the server holds as many requests as it may.")
        # Parsing costs time that grows with the input: not at every newline of a long one.
        if chunk.endswith(b"\n") and len(buffer) >= 2 * tried:
            tried = len(buffer)
            if _whole(buffer, any_document=False):
                return Arrived(raw=bytes(buffer), started=started)


def _whole(buffer: bytearray, *, any_document: bool) -> bool:
    """Whether a whole request stands there: an array, an envelope, or with `any_document` any object."""
    data = bytes(buffer)
    if data.startswith(HEADER_START):
        header, newline, data = data.partition(b"\n")
        if not newline:
            return False
        if b'"ping"' in header and not data.strip():
            return True
    start = data.lstrip()[:1]
    if start not in (b"[", b"{"):
        return False
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return any_document or start == b"[" or is_envelope(value)


async def _received(sock: socket.socket) -> bytes:
    while True:
        try:
            return sock.recv(_CHUNK)
        except BlockingIOError:
            await anyio.wait_readable(sock)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise RequestRefused("incomplete", f"the connection broke: {reason}.") from error


def _incomplete(size: int, idle_s: float) -> RequestRefused:
    return RequestRefused(
        "incomplete",
        f"no whole request had come ({size} bytes) when waiting ended.",
        remedy=f"Send one JSON document and shut down the writing side, without pauses above {idle_s:.0f} s.",
    )

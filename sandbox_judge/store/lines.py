"""Bytes into lines, with a bound on what one line may hold. A leaf."""

import msgspec


class Overlong(msgspec.Struct, frozen=True):
    """The beginning of a line that was longer than the bound; the rest was let go."""

    beginning: bytes


class LineBuffer:
    """Takes chunks, gives whole lines. Never holds more than the bound and one chunk."""

    _SHOWN = 4096

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | Overlong]:
        """The lines that `chunk` completes, without newlines; blank ones are left out."""
        *whole, rest = chunk.split(b"\n")
        lines = [line for piece in whole if (line := self._finish(piece))]
        if overlong := self._hold(rest):
            lines.append(overlong)
        return lines

    def end(self) -> bytes | Overlong | None:
        """What is left when the stream has ended: a line whose newline never came."""
        return self._finish(b"")

    def _hold(self, piece: bytes) -> Overlong | None:
        if self._skipping or not piece:
            return None
        self._parts.append(piece)
        self._size += len(piece)
        if self._size <= self._limit:
            return None
        overlong = Overlong(b"".join(self._parts)[: self._SHOWN])
        self._parts, self._size, self._skipping = [], 0, True
        return overlong

    def _finish(self, piece: bytes) -> bytes | Overlong | None:
        if self._skipping:
            self._skipping = False
            return None
        overlong = self._hold(piece)
        line = b"".join(self._parts).strip()
        self._parts, self._size, self._skipping = [], 0, False
        return overlong or line or None

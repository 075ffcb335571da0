"""One file of the spool: its records, and what still waits in it. `spool.py` says who owns which file."""

import contextlib
import fcntl
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from sandbox_judge.sinks.base import Line
from sandbox_judge.trust import open_own_file

COMPACTING: Final = ".compacting"
DAMAGED: Final = ".damaged"
_COMPACT_ABOVE: Final = 64 * 1024


class _Record(msgspec.Struct, omit_defaults=True):
    """An event and who is to take it; or that `taken` took it; or that `refused` refused it."""

    id: str
    event: msgspec.Raw = msgspec.Raw(b"")
    sinks: tuple[str, ...] = ()
    taken: str = ""
    refused: str = ""
    why: str = ""


class _Waiting(msgspec.Struct):
    offset: int
    length: int
    sinks: set[str]


class SpoolFile:
    """Held by one task. The descriptor is locked, and appends; `directory` must outlive the file."""

    def __init__(self, fd: int, name: str, directory: int) -> None:
        self.name = name
        self.refusals: dict[tuple[str, str], str] = {}
        self._fd = fd
        self._directory = directory
        self._waiting: dict[str, _Waiting] = {}
        self._size = 0
        self._torn = False  # a half record that could not be taken back stands at the end
        self._damaged = 0

    def append(self, lines: Sequence[Line], sinks: Collection[str]) -> None:
        """On return the lines are on disk (one fsync for all). Raises OSError, and then none of them is kept,
        or ValueError for what is not one line of JSON."""
        records = [
            _encoded(_Record(id=line.event_id, event=_one_line(line), sinks=tuple(sinks))) for line in lines
        ]
        offset = self._write(b"".join(records), durable=True)
        for line, record in zip(lines, records, strict=True):
            self._waiting[line.event_id] = _Waiting(offset, len(record), set(sinks))
            offset += len(record)

    def strike(self, event_id: str, sink: str) -> None:
        """Notes that `sink` took the event. Not synced: what a crash undoes is sent twice, with one id."""
        entry = self._waiting.get(event_id)
        if entry is None:
            return
        entry.sinks.discard(sink)
        if not entry.sinks:
            del self._waiting[event_id]
        with contextlib.suppress(OSError):
            if self._waiting or self._damaged:
                self._write(_encoded(_Record(id=event_id, taken=sink)), durable=False)
            else:  # nothing waits: a file never grows by what has been delivered
                os.ftruncate(self._fd, 0)
                self._size, self._torn = 0, False

    def note_refusal(self, event_id: str, sink: str, why: str) -> None:
        """Keeps the reason why `sink` would not take the event, for a person who looks."""
        if self.refusals.get((event_id, sink)) != why and event_id in self._waiting:
            self.refusals[event_id, sink] = why
            with contextlib.suppress(OSError):
                self._write(_encoded(_Record(id=event_id, refused=sink, why=why)), durable=False)

    def waiting(self) -> Iterator[tuple[str, frozenset[str]]]:
        """(event id, sinks that have not taken it), in the order of appending."""
        for event_id, entry in list(self._waiting.items()):
            yield event_id, frozenset(entry.sinks)

    def line(self, event_id: str) -> Line | None:
        """The line of a waiting event, read from disk; None if the disk does not give it back any more."""
        entry = self._waiting[event_id]
        try:
            record = os.pread(self._fd, entry.length, entry.offset)
            return Line(event_id, bytes(msgspec.json.decode(record, type=_Record).event))
        except (OSError, msgspec.DecodeError):
            return None

    def close(self) -> int:
        """Removes the file if nothing waits in it, else leaves it, unlocked, to the next run. How many events
        wait. A file with records that cannot be read is set aside under another name, never removed."""
        left = len(self._waiting)
        with contextlib.suppress(OSError):
            if not left and not self._damaged:
                os.unlink(self.name, dir_fd=self._directory)
            elif not left:
                os.rename(
                    self.name, self.name + DAMAGED, src_dir_fd=self._directory, dst_dir_fd=self._directory
                )
            elif self._size > _COMPACT_ABOVE + 2 * sum(entry.length for entry in self._waiting.values()):
                self._compact()
        os.close(self._fd)
        return left

    def recover(self) -> int:
        """Reads the records that a dead run left, and drops what a crash cut off at the end. How many lines
        cannot be read. Raises OSError."""
        tail = b""
        with open(self._fd, "rb", closefd=False) as file:
            while record := file.readline():
                if not record.endswith(b"\n"):
                    tail = record
                    break
                self._damaged += not self._learn(record)
        if tail and self._learn(tail):
            self._torn = True  # only its newline is missing: the next record begins with one
        elif tail:
            os.ftruncate(self._fd, self._size)
        return self._damaged

    def _learn(self, record: bytes) -> bool:
        offset, self._size = self._size, self._size + len(record)
        try:
            known = msgspec.json.decode(record, type=_Record)
        except (msgspec.DecodeError, RecursionError):
            known = _Record(id="")
        if not (known.sinks or known.refused or known.taken):
            # No JSON, or nothing that we write: a damaged name of a key must not lose an event.
            if not record.endswith(b"\n"):
                self._size = offset
            return False
        if known.sinks:
            self._waiting[known.id] = _Waiting(offset, len(record), set(known.sinks))
        elif known.refused:
            self.refusals[known.id, known.refused] = known.why
        elif (entry := self._waiting.get(known.id)) is not None:
            entry.sinks.discard(known.taken)
            if not entry.sinks:
                del self._waiting[known.id]
        return True

    def _write(self, data: bytes, *, durable: bool) -> int:
        """Appends whole records, or nothing. The offset of the first. Raises OSError."""
        start = self._size
        if self._torn:
            data, start = b"\n" + data, start + 1
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
            if durable:
                os.fsync(self._fd)
        except OSError:
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                self._size = os.fstat(self._fd).st_size
                self._torn = True
            raise
        self._size += len(data)
        self._torn = False
        return start

    def _compact(self) -> None:
        """Writes what waits to a new file and puts it in this one's place; at every instant one of the two is
        whole and locked. Raises OSError, and then this file stays as it is."""
        name = self.name + COMPACTING
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
        fresh = SpoolFile(open_own_file(name, flags, dir_fd=self._directory), name, self._directory)
        try:
            if not lock(fresh._fd):
                return
            for event_id, sinks in self.waiting():
                line = self.line(event_id)
                if line is None:
                    return
                fresh.append([line], sinks)
            for (event_id, sink), why in self.refusals.items():
                fresh.note_refusal(event_id, sink, why)
            os.rename(name, self.name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            os.fsync(self._directory)
        finally:
            os.close(fresh._fd)


def lock(fd: int) -> bool:
    """Whether the file is now ours alone, and still has its name. Not inherited by programs we start. Raises
    OSError where the file system has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(fd).st_nlink > 0


def _one_line(line: Line) -> msgspec.Raw:
    try:
        if b"\n" not in line.data:
            return msgspec.json.decode(line.data, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"event {line.event_id} is not JSON") from error
    raise ValueError(f"event {line.event_id} is more than one line")


def _encoded(record: _Record) -> bytes:
    return msgspec.json.encode(record) + b"\n"

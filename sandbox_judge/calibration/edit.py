"""Changing a calibration set on disk: rows appended, a person's word put into one; whole or not at all."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sandbox_judge.calibration.dataset import MAX_ROW_BYTES, Known
from sandbox_judge.calibration.row import row_line
from sandbox_judge.conversation.document import parse_json
from sandbox_judge.errors import InputError, UsageError


def append_rows(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Adds rows at the end, synced; the number of them. Raises UsageError where it cannot be written."""
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                torn = file.read(1) != b"\n"
                file.write(b"\n" if torn else b"")
            for row in rows:
                file.write(row_line(row) + b"\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"cannot be written ({error.strerror}).", where=str(path)) from error
    return count


def put_words(path: Path, known: Known, words: dict[str, str]) -> None:
    """Puts a person's words into one row. The file is exchanged as a whole, so that an interruption leaves
    the old one. Raises InputError where the row is no longer there, UsageError where it cannot be written."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(path, "rb") as source, open(unfinished, "xb") as target:
            for number, line in enumerate(iter(lambda: source.readline(MAX_ROW_BYTES + 1), b""), 1):
                target.write(_worded(line, known, words, path) if number == known.line else line)
            target.flush()
            os.fsync(target.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise UsageError(f"cannot be written ({error.strerror}).", where=str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Puts a file in place, whole or not at all. Raises UsageError."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise UsageError(f"cannot be written ({error.strerror}).", where=str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)


def write_reports(reports: Mapping[str, tuple[Path, bytes]]) -> None:
    """Puts reports in place. Private: they quote what people said. Raises UsageError."""
    for path, data in reports.values():
        write_whole(path, data, mode=0o600)


def _worded(line: bytes, known: Known, words: dict[str, str], path: Path) -> bytes:
    try:
        row = parse_json(line.decode("utf-8"))
    except ValueError:
        row = None
    if not isinstance(row, dict) or row.get("snapshot_hash") != known.snapshot_hash:
        raise InputError("the file changed while it was labelled.", where=f"{path}:{known.line}")
    return row_line(row | words) + b"\n"

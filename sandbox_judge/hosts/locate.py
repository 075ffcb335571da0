"""Where a session's transcript lies, and its bytes: settled, bounded, whatever the payload named.

Hosts write their transcripts late, in pieces, or as one file an event (`spec/hosts.md`, shims, 4).
"""

import glob
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from sandbox_judge.hosts.host import Host

SETTLE_S: Final = 2.0
MOST_BYTES: Final = 256 * 1024 * 1024
_TAIL_BYTES: Final = 1 << 20
_MOST_EVENTS: Final = 100_000
_POLL_S: Final = 0.05
# An id comes from outside and becomes part of a path.
_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._:-]{0,199}\Z")


def transcript_of(host: Host, session: str, named: str, environ: dict[str, str]) -> str | None:
    """The transcript's path: the one that the payload named, else the newest where the host keeps them."""
    if named and "\0" not in named and os.path.isabs(named) and os.path.exists(named):
        return named
    if not _ID.match(session):
        return None
    found = [path for pattern in patterns(host, environ) for path in glob.iglob(_filled(pattern, session))]
    return max(found, key=_changed, default=None)


def patterns(host: Host, environ: dict[str, str]) -> Iterator[str]:
    """The host's transcript patterns as whole paths, `{session}` still in them."""
    home = environ.get("HOME") or os.path.expanduser("~")
    variable = host.wiring.home_variable if host.wiring is not None else None
    moved = environ.get(variable, "") if variable else ""
    for pattern in host.transcripts:
        folder, _, rest = pattern.partition("/")
        moves = moved and host.wiring is not None and (host.wiring.user or "").startswith(folder)
        base = moved if moves else os.path.join(home, folder)
        yield os.path.join(glob.escape(base), rest)


def _filled(pattern: str, session: str) -> str:
    return (
        pattern.replace("{session}", session)
        .replace("{session_bare}", session.replace("-", ""))
        .replace("{session_short}", session[:8])
    )


def size_of(path: str) -> int:
    """Bytes of a transcript, all files of a folder together. Raises OSError."""
    if os.path.isdir(path):
        return sum(os.stat(event).st_size for event in _events(path))
    return os.stat(path).st_size


def settled(
    path: str, message: str, *, patience_s: float = SETTLE_S, sleep: Callable[[float], None] = time.sleep
) -> tuple[bytes, bool]:
    """The transcript, and whether it holds the payload's last message: waits for that, and for its size to
    rest, up to `patience_s` seconds. Raises OSError, ValueError (too large)."""
    ends = time.monotonic() + patience_s
    before = -1
    while True:
        size = size_of(path)
        if not message and size == before:
            return read_transcript(path), True
        if message and size != before:
            data = read_transcript(path)
            if holds(data, message):
                return data, True
        if time.monotonic() >= ends:
            return read_transcript(path), not message
        before = size
        sleep(_POLL_S)


def holds(data: bytes, message: str) -> bool:
    """Whether the tail of a transcript says `message`, as one of its texts, white space apart."""
    wanted = _squeezed(message)
    if not wanted:
        return True
    for line in reversed(data[-_TAIL_BYTES:].splitlines()[-200:] or [b""]):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if any(wanted in _squeezed(text) for text in _texts(value)):
            return True
    try:  # one document over many lines
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return any(wanted in _squeezed(text) for text in _texts(value))


def read_transcript(path: str) -> bytes:
    """The bytes of a transcript; of a folder of events one JSON list. Raises OSError, ValueError."""
    if os.path.isdir(path):
        events = [_read(event) for event in _events(path)]
        return b"[" + b",".join(event for event in events if _is_json(event)) + b"]"
    return _read(path)


def _events(folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))[:_MOST_EVENTS]
    return [os.path.join(folder, name) for name in names]


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("the transcript is not a regular file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"the transcript is larger than {MOST_BYTES} bytes")
    return data


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0

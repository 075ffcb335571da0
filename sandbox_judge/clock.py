"""Wall time, ids that carry it, and how long this process has been alive. A leaf.

Budgets run on the monotonic clock; wall time is for timestamps only, so that a clock set back or forward
during a run moves no deadline.
"""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

# Where /proc does not say when the process started, this import is the earliest moment known.
_IMPORTED_AT = time.monotonic()


def process_age_s() -> float:
    """Seconds since this process started, interpreter start included (design, section 9).

    Linux tells in ticks of 10 ms; elsewhere it is the time since this module was imported.
    """
    since_import = time.monotonic() - _IMPORTED_AT
    try:
        stat = Path("/proc/self/stat").read_bytes()
        # The command's name may hold spaces and brackets: count fields after its closing bracket.
        started_ticks = int(stat.rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return since_import
    # A frozen or migrated sandbox can show another boot clock than the one that the start was read from.
    return age if since_import <= age < since_import + 60 else since_import


def utc_now() -> str:
    """The wall time as an event writes it: RFC 3339, UTC, microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def uuid7() -> str:
    """A UUIDv7 (RFC 9562): 48 bits of wall time in milliseconds, the rest random."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

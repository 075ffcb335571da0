"""Durations as people write them: `1500ms`, `40s`, `2m`; a bare number is seconds (design, section 13)."""

import math
import re
from typing import Final

from sandbox_judge.errors import UsageError

_FORM: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*(ms|s|m|h)?", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def parse_duration(text: str, *, name: str = "a duration") -> float:
    """Seconds. Zero and negative values are values (no time at all); raises UsageError for anything else."""
    match = _FORM.fullmatch(text.strip().lower())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else math.nan
    if not math.isfinite(seconds):
        raise UsageError(
            f"{text!r} is not a duration.", where=name, remedy="Write 1500ms, 40s, 2m or a number of seconds."
        )
    return seconds


def shown(seconds: float) -> str:
    """`seconds` for a person: `850 ms`, `12.3 s`, `4 min 10 s`."""
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms"
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"

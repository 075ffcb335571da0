"""A bug of ours in a few lines: what was raised and where, with an id, and no values of the user's."""

import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sandbox_judge.clock import uuid7
from sandbox_judge.masking import mask
from sandbox_judge.version import __version__

_FRAMES: Final = 6
_MESSAGE_CHARS: Final = 300


def alone(error: BaseException) -> BaseException:
    """What task groups wrapped, where it is one error: the group itself says nothing."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def crash_report(error: BaseException, secrets: Iterable[str] = ()) -> tuple[str, str]:
    """The report's id and its text. The message is cut, and masked of `secrets` and what looks like one: it
    may quote what was being read."""
    error = alone(error)
    crash_id = uuid7()
    package = str(Path(__file__).parent.parent.parent)
    frames = [
        f"{frame.filename.removeprefix(package).lstrip('/')}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    message = mask(str(error)[: _MESSAGE_CHARS * 4], secrets)[:_MESSAGE_CHARS]
    lines = [
        f"sandbox-judge: internal error {crash_id}: {type(error).__name__}: {message}",
        f"  this is a bug of sandbox_judge {__version__}; please report it with these lines",
        *(f"  at {frame}" for frame in frames[-_FRAMES:]),
    ]
    return crash_id, "\n".join(lines)

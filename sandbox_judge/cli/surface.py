"""What a command sees of the outside: streams, environment, working directory. Passed in, never fetched."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, TextIO

import msgspec

from sandbox_judge.terminal import escaped


class Surface(msgspec.Struct, kw_only=True):
    """The process around one command. `stdout` is binary: events are bytes and must not pass a text layer."""

    stdin: BinaryIO
    stdout: BinaryIO
    stderr: TextIO
    environ: Mapping[str, str]
    cwd: Path
    stdin_is_terminal: bool = False
    stdout_is_terminal: bool = False
    stderr_is_terminal: bool = False
    # Descriptor 1 was closed when the process started: nothing that is written there arrives anywhere.
    stdout_closed: bool = False

    def out(self, line: str) -> None:
        """One line of text on stdout; lone surrogates cannot break it. Raises OSError."""
        self.stdout.write(line.encode("utf-8", "replace") + b"\n")
        self.stdout.flush()

    def err(self, line: str) -> None:
        """One line on stderr, escaped for a terminal; that it cannot be written is no reason to fail."""
        try:
            self.stderr.write(escaped(line, multiline=True) + "\n")
            self.stderr.flush()
        except (OSError, ValueError):
            return


def process_surface() -> Surface:
    """The surface of this process; closed descriptors become the null device, so that the first file opened
    later never gets number 0, 1 or 2 (a write to descriptor 1 would land in that file)."""
    missing = []
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is `fd`
            missing.append(fd)
    stdin = sys.stdin.buffer if sys.stdin is not None else open(os.devnull, "rb")  # noqa: SIM115
    stdout = sys.stdout.buffer if sys.stdout is not None else open(os.devnull, "wb")  # noqa: SIM115
    stderr = sys.stderr if sys.stderr is not None else open(os.devnull, "w")  # noqa: SIM115
    return Surface(
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        environ=dict(os.environ),
        cwd=_working_directory(),
        stdin_is_terminal=sys.stdin is not None and _is_terminal(0),
        stdout_is_terminal=_is_terminal(1),
        stderr_is_terminal=_is_terminal(2),
        stdout_closed=1 in missing,
    )


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError:  # the directory was removed under us
        return Path("/")

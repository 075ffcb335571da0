"""What a command sees of the outside: streams, environment, working directory. Passed in, never fetched."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, TextIO

import msgspec

from sandbox_judge.clock import process_age_s
from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.stdout import claim_stdout
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
    # Where events are written raw, past every buffer; None if stdout was closed when the process started.
    events_fd: int | None = None
    # When the command's time began, on the monotonic clock: the start of the process where that is ours.
    started_at: float = msgspec.field(default_factory=time.monotonic)
    # Set where the process is ours to end.
    owns_process: bool = False

    def exit_soon(self, code: int, seconds: float) -> None:
        """Ends the process with `code` after `seconds` if it is still there then; never one of a host's."""
        if self.owns_process:
            timer = threading.Timer(seconds, os._exit, (code,))
            timer.daemon = True
            with contextlib.suppress(RuntimeError):  # no thread can be started: then no call hangs in one
                timer.start()

    def out(self, line: str) -> None:
        """One line of text on stdout; lone surrogates cannot break it. Raises DeliveryError."""
        self.write(line.encode("utf-8", "replace") + b"\n")

    def write(self, data: bytes) -> None:
        """Bytes on stdout, at once. Raises DeliveryError: the reader went away, the disk is full."""
        try:
            self.stdout.write(data)
            self.stdout.flush()
        except (OSError, ValueError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            raise DeliveryError(f"cannot be written ({why}).", where="stdout") from error

    def err(self, line: str) -> None:
        """One line on stderr, escaped for a terminal; that it cannot be written is no reason to fail."""
        try:
            self.stderr.write(escaped(line, multiline=True) + "\n")
            self.stderr.flush()
        except (OSError, ValueError):
            return


def process_surface() -> Surface:
    """The surface of this process. Descriptor 1 is claimed for what the program itself says: what a library
    prints there goes to stderr."""
    events_fd = claim_stdout()
    stdin = sys.stdin.buffer if sys.stdin is not None else open(os.devnull, "rb")  # noqa: SIM115
    stdout = os.fdopen(events_fd, "wb", closefd=False) if events_fd is not None else open(os.devnull, "wb")  # noqa: SIM115
    stderr = sys.stderr if sys.stderr is not None else open(os.devnull, "w")  # noqa: SIM115
    return Surface(
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        environ=dict(os.environ),
        cwd=_working_directory(),
        stdin_is_terminal=sys.stdin is not None and _is_terminal(0),
        stdout_is_terminal=events_fd is not None and _is_terminal(events_fd),
        stderr_is_terminal=_is_terminal(2),
        events_fd=events_fd,
        started_at=time.monotonic() - process_age_s(),
        owns_process=True,
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

"""Running commands in this process, with streams of our own."""

import io
import os
import time
from contextlib import contextmanager
from pathlib import Path

from sandbox_judge.cli.main import main
from sandbox_judge.cli.surface import Surface


class Done:
    """What a command left behind."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self):
        return self.out.splitlines()


@contextmanager
def captured():
    """A file descriptor and the function that gives what was written to it."""
    fd = os.memfd_create("captured")
    try:
        yield fd, lambda: os.pread(fd, 1 << 26, 0).decode()
    finally:
        os.close(fd)


def run_main(*argv, environ=None, cwd=None, stdin=b"", terminal=False, started_at=None):
    """`sandbox-judge ARGV`; `stdin` are bytes, `terminal` pretends that stdin is one."""
    with captured() as (fd, written):
        source = os.memfd_create("stdin")
        os.write(source, stdin)
        os.lseek(source, 0, os.SEEK_SET)
        stderr = io.StringIO()
        with os.fdopen(source, "rb") as file, os.fdopen(os.dup(fd), "wb") as out:
            surface = Surface(
                stdin=file,
                stdout=out,
                stderr=stderr,
                environ=dict(environ or {}),
                cwd=Path(cwd or "/"),
                stdin_is_terminal=terminal,
                events_fd=fd,
                started_at=time.monotonic() if started_at is None else started_at,
            )
            code = main([str(word) for word in argv], surface)
            out.flush()
        return Done(code, written(), stderr.getvalue())

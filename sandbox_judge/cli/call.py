"""`call`, for those who come through the whole command line; `__main__` goes straight to the thin client."""

import os
from collections.abc import Sequence

from sandbox_judge import client
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError


def run_words(words: Sequence[str], surface: Surface) -> int:
    """Runs the client with its arguments as they are: they are those of `run`, and it reads them itself.

    Raises UsageError inside a host's process, which the one-shot run would replace.
    """
    if not surface.owns_process:
        raise UsageError(
            "call needs a process of its own.",
            remedy="Start `python -I -m sandbox_judge call`, or use sandbox_judge.judge_conversation.",
        )
    if surface.events_fd is not None:
        os.dup2(surface.events_fd, 1)  # events go where stdout led when the process started
    return client.main(list(words), dict(surface.environ))

"""What the resident runner does for hooks: jobs that nobody works on are taken up within a moment.

A worker that was killed with its sandbox leaves its job, and a hook that only spools (in a container that has
no keys) leaves every one. Each pass is a process of its own, so that a large transcript costs the runner no
memory.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from sandbox_judge.hosts.jobs import Jobs

_EVERY_S: Final = 1.0
# A worker of the hook's own takes its job sooner than this.
_LEFT_ALONE_S: Final = 3.0


async def keep_resuming(state: Path, listening: Path, environ: Mapping[str, str]) -> None:
    """Looks for jobs in the state folder until it is cancelled; they are judged through the socket
    `listening`. Faults are logged where hooks log."""
    words = [sys.executable, "-I", "-m", "sandbox_judge", "hooks", "sweep", "--confined"]
    ours = {**environ, "SANDBOX_JUDGE_SOCKET": str(listening), "SANDBOX_JUDGE_STATE_DIR": str(state)}
    while True:
        await anyio.sleep(_EVERY_S)
        if await anyio.to_thread.run_sync(_any_left, str(state / "jobs"), abandon_on_cancel=True):
            await anyio.run_process(
                words, env=ours, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )


def _any_left(folder: str) -> bool:
    """Whether a job is due that nobody works on."""
    if not os.path.isdir(folder):
        return False
    try:
        jobs, now = Jobs(folder), time.time()
        for key in jobs.waiting():
            job = jobs.read(key) or {}
            fired, due = job.get("fired"), job.get("not_before")
            if not isinstance(fired, int | float) or not isinstance(due, int | float):
                continue
            if now - fired < _LEFT_ALONE_S or due > now:
                continue
            held = jobs.claim(key)
            if held is not None:
                os.close(held)
                return True
    except OSError:
        return False
    return False

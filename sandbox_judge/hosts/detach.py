"""Handing a job to a process that outlives the hook, or doing it here where detaching does not help.

Hosts wait until nobody holds the other end of their pipes, and kill the hook's process group at its limit:
the worker gets a session, a directory and descriptors of its own. Standard library only.
"""

import os
import sys
from typing import NoReturn

_MOST_DESCRIPTORS = 65_536
# What the worker must not take over: it starts as a process of its own.
_OWN = ("SANDBOX_JUDGE_FOREGROUND", "SANDBOX_JUDGE_ACTIVE")


def must_stay(environ: dict[str, str]) -> str:
    """Why the work must be done in the foreground, or an empty text. CI ends when its step does, and systemd
    kills what is left in a service's cgroup."""
    said = environ.get("SANDBOX_JUDGE_FOREGROUND", "")
    if said:
        return "" if said == "0" else "SANDBOX_JUDGE_FOREGROUND"
    if environ.get("CI", "").lower() in ("1", "true", "yes") or environ.get("GITHUB_ACTIONS") == "true":
        return "CI"
    if environ.get("INVOCATION_ID") and _in_a_service():
        return "systemd"
    return ""


def command(key: str, *, budget_s: float | None = None) -> list[str]:
    """The worker's command line."""
    limit = [] if budget_s is None else ["--budget", f"{max(0.5, budget_s):.3f}"]
    return [sys.executable, "-I", "-m", "sandbox_judge", "hooks", "work", key, *limit]


def launch(words: list[str], environ: dict[str, str]) -> None:
    """Starts `words` detached. Raises OSError where no process can be made."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)  # it ends at once: what goes on is its own child, which init takes over
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        _become(words, environ)
    finally:
        os._exit(127)


def stay(words: list[str], environ: dict[str, str]) -> NoReturn:
    """Becomes the worker in this very process. Raises OSError."""
    _become(words, environ)


def _become(words: list[str], environ: dict[str, str]) -> NoReturn:
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, _highest_descriptor())
    kept = {name: value for name, value in environ.items() if name not in _OWN}
    os.execve(words[0], words, kept)  # noqa: S606 - no shell is wanted


def _highest_descriptor() -> int:
    try:
        return min(_MOST_DESCRIPTORS, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    except (OSError, ValueError):
        return 4_096


def _in_a_service() -> bool:
    # A desktop's terminals inherit INVOCATION_ID too, but stand in scopes, which nothing empties.
    try:
        with open("/proc/self/cgroup", "rb") as file:
            return file.readline().strip().endswith(b".service")
    except OSError:
        return True

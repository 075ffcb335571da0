"""The state folder by the rules of `sandbox_judge.paths`, and the log of hooks there. Standard library only.

Reading the rules a second time saves each hook the 30 ms that `paths` takes to import; a test holds the two
equal.
"""

import os
import time

MOST_LOG_BYTES = 1 << 20


def state_directory(environ: dict[str, str]) -> str:
    """Where jobs and the log lie. Raises ValueError for a relative override."""
    chosen = environ.get("SANDBOX_JUDGE_STATE_DIR", "")
    if chosen:
        if not os.path.isabs(chosen) or "\0" in chosen:
            raise ValueError("SANDBOX_JUDGE_STATE_DIR is not an absolute path")
        return chosen
    for variable, below in (("XDG_STATE_HOME", "sandbox-judge"), ("HOME", ".local/state/sandbox-judge")):
        base = environ.get(variable, "")
        base = base.strip() if variable == "XDG_STATE_HOME" else base
        if os.path.isabs(base) and "\0" not in base:
            return os.path.join(base, below)
    return makeshift()


def makeshift() -> str:
    """The state folder of a user without a home; the log's place where the state folder cannot be written."""
    return f"/tmp/sandbox-judge-{os.geteuid()}/state"  # noqa: S108 - made 0700 and checked before use


def log_line(environ: dict[str, str], text: str) -> None:
    """One line into our own log, for nothing of ours may stand on a host's stderr. Never raises: a log that
    cannot be written is no reason to disturb the host."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {os.getpid()} {_escaped(text)}\n"
    try:
        folders = [state_directory(environ), makeshift()]
    except ValueError:
        folders = [makeshift()]
    for folder in folders:
        try:
            _append(folder, line.encode("utf-8", "backslashreplace"))
            return
        except OSError:
            continue


def _append(folder: str, line: bytes) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(13, "others can write there", folder)
    path = os.path.join(folder, "hooks.log")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size > MOST_LOG_BYTES:
            os.replace(path, path + ".1")
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:2_000])

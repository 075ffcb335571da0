"""The worker: takes a job, settles its transcript, has it judged, and strikes the job off.

It runs detached, or in the foreground within the host's limit. Judging itself is another process (`call`
where a resident runner is named, else `run`), so that nothing it does can cost the job.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from sandbox_judge.errors import InputError, SandboxJudgeError
from sandbox_judge.hosts.commit import full_commit
from sandbox_judge.hosts.document import Prepared, prepared
from sandbox_judge.hosts.host import Host, host_named
from sandbox_judge.hosts.jobs import MOST_ATTEMPTS, Job, Jobs
from sandbox_judge.hosts.locate import SETTLE_S

EVENTS: Final = "judgements.jsonl"
# Judging ends by its own budget; this ends a process that does not.
_LONGEST_S: Final = 900.0
_STEP_S: Final = 1.0
_SETTLED_CODES: Final = (0, 1, 3, 4)
_TOLD_BYTES: Final = 1_000
# What the platform says of one conversation, and what a resident runner takes from anybody who may call it.
_OF_THE_CONVERSATION: Final = frozenset(
    {"COMMIT", "CONVERSATION_ID", "STATUS", "ENVIRONMENT", "SERVICE_NAME", "RUNTIME_ID", "RUNTIME_GROUP_ID"}
    | {"TRACE_ID", "SPAN_ID", "EXPERIMENT_ID", "EXPERIMENT_ARM_ID"}
)
_SOCKET: Final = "SANDBOX_JUDGE_SOCKET"
_FOREGROUND_SETTLE: Final = 0.25


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker works with. `budget_s`: all that it has, in the foreground; None: judging's own.

    `confined`: jobs are written by one who is less trusted than we are (an agent's container that shares its
    spool with a runner which holds the keys). They then name the conversation alone: recipe, settings and
    sinks are the runner's, and transcripts must lie below the home or the state folder.
    """

    jobs: Jobs
    state: str
    environ: Mapping[str, str]
    log: Callable[[str], None]
    budget_s: float | None = None
    confined: bool = False


def work(shop: Workshop, key: str) -> bool:
    """Does the job `key` until it is not fired anew. False where another process has it, or it is gone."""
    descriptor = shop.jobs.claim(key)
    if descriptor is None:
        return False
    started = time.monotonic()
    try:
        job = shop.jobs.read(key)
        if job is None:
            return False
        while job is not None and not _worked(shop, key, job, started):
            job = shop.jobs.read(key)
        return True
    finally:
        os.close(descriptor)


def _worked(shop: Workshop, key: str, job: Job, started: float) -> bool:
    """Whether the job has ended, one way or another; False where it is to be looked at again."""
    due = job.get("not_before")
    left = due - time.time() if isinstance(due, int | float) else 0.0
    if left > 0:
        if shop.budget_s is not None:  # nobody waits in the foreground: the sweeper finds it
            return True
        time.sleep(min(left, _STEP_S))
        return False
    attempts = job.get("attempts")
    attempts = attempts + 1 if isinstance(attempts, int) else 1
    if attempts > MOST_ATTEMPTS:
        return shop.jobs.finish(key, job, f"given up after {MOST_ATTEMPTS} attempts", failed=True)
    environ = environment_of(job, shop.environ, confined=shop.confined)
    environ |= _pinned(shop, job, environ)
    if shop.confined and not _is_below(str(job.get("transcript")), (environ.get("HOME", ""), shop.state)):
        return shop.jobs.finish(key, job, "its transcript lies elsewhere than transcripts do", failed=True)
    job = shop.jobs.update(key, job, attempts=attempts, environ=_own(environ))
    shim = str(job.get("shim"))
    try:
        host = host_named(shim)
    except KeyError:
        return shop.jobs.finish(key, job, f"there is no host {shim!r}", failed=True)
    return _judged(shop, key, job, host, environ, started)


def _judged(shop: Workshop, key: str, job: Job, host: Host, environ: dict[str, str], started: float) -> bool:
    patience = SETTLE_S if shop.budget_s is None else min(SETTLE_S, shop.budget_s * _FOREGROUND_SETTLE)
    name = f"{host.name} session {_short(job)}"
    try:
        made = prepared(job, host, environ, patience_s=patience)
    except InputError as error:
        shop.log(f"{name}: {error.paragraph()}")
        return shop.jobs.finish(key, job, error.paragraph(), failed=True)
    before = shop.jobs.ended(key)
    if made.seen is not None and before is not None and before.get("seen") == list(made.seen):
        return shop.jobs.finish(key, job, "as it was judged before", seen=made.seen)
    if made.missing:
        shop.log(f"{name}: {made.missing}")
    left = None if shop.budget_s is None else shop.budget_s - (time.monotonic() - started)
    code, told = _run(shop, made, environ, left)
    if told:
        shop.log(f"{name}: {told}")
    if code in _SETTLED_CODES:
        return shop.jobs.finish(key, job, f"exit {code}", seen=made.seen)
    if code == 2:
        return shop.jobs.finish(key, job, told or "exit 2", failed=True)
    # Killed, or a bug: it stays for whoever sweeps next.
    return True


def _run(shop: Workshop, made: Prepared, environ: dict[str, str], left: float | None) -> tuple[int, str]:
    """Judges one document in a process of its own: its exit code and what it said."""
    socket = environ.get(_SOCKET)
    words = [sys.executable, "-I", "-m", "sandbox_judge", *(["call", socket] if socket else ["run"]), "-q"]
    if socket and shop.confined:
        words.append("--no-fallback")
    if left is not None:
        words += ["--budget", f"{max(0.3, left - 0.2):.3f}"]
    environ = {**environ, "SANDBOX_JUDGE_ACTIVE": "1"}
    environ.setdefault("SANDBOX_JUDGE_SINK", f"file:{os.path.join(shop.state, EVENTS)}")
    longest = _LONGEST_S if left is None else left + 1.0
    memory = os.memfd_create("hook input")
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(made.document)
        os.lseek(memory, 0, os.SEEK_SET)
        done = subprocess.run(
            words, env=environ, cwd="/", stdin=memory, capture_output=True, timeout=longest, check=False
        )
    except subprocess.TimeoutExpired:
        return 137, f"judging did not end within {longest:.0f} s"
    except OSError as error:
        return 71, f"judging could not be started ({error.strerror})"
    finally:
        os.close(memory)
    if done.stdout:  # what the resident runner sent: its copy of the events
        _keep(os.path.join(shop.state, EVENTS), done.stdout)
    return done.returncode, done.stderr[-_TOLD_BYTES:].decode("utf-8", "replace").strip()


def environment_of(job: Job, environ: Mapping[str, str], *, confined: bool = False) -> dict[str, str]:
    """The environment of judging: ours, with what the hook's own said about us; `confined`: about the
    conversation alone."""
    taken = job.get("environ")
    words = taken if isinstance(taken, dict) else {}
    ours = {
        key: value
        for key, value in words.items()
        if isinstance(key, str) and isinstance(value, str) and key.startswith("SANDBOX_JUDGE_")
        if not confined or key.removeprefix("SANDBOX_JUDGE_") in _OF_THE_CONVERSATION
    }
    return {**environ, **ours}


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a path, links followed, lies in one of the folders; a path that was not named does."""
    if not path:
        return True
    try:
        real = os.path.realpath(path)
        homes = [os.path.realpath(folder) for folder in folders if os.path.isabs(folder)]
        return any(os.path.commonpath([real, home]) == home for home in homes)
    except (OSError, ValueError):
        return False


def _short(job: Job) -> str:
    return str(job.get("session"))[:80]


def _own(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environ.items() if key.startswith("SANDBOX_JUDGE_")}


def _pinned(shop: Workshop, job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """The commit that the recipe stands at, where none was named: written into the job, so that one which
    is resumed is judged by the same."""
    recipe = environ.get("SANDBOX_JUDGE_RECIPE")
    if not recipe or environ.get("SANDBOX_JUDGE_COMMIT"):
        return {}
    try:
        return {"SANDBOX_JUDGE_COMMIT": full_commit(recipe, environ)}
    except SandboxJudgeError as error:
        shop.log(f"session {_short(job)}: {error.paragraph()}")
        return {}


def _keep(path: str, lines: bytes) -> None:
    """Appends whole lines, one writer at a time. A file that cannot be written costs only our copy."""
    with contextlib.suppress(OSError):
        descriptor = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            left = memoryview(lines)
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)

"""A host's hook: the payload in, the host's "nothing to say" out, exit 0, and the job spooled in between.

Standard library only, and little of it: an agent's user waits for this (`spec/hosts.md`). Whatever goes wrong
becomes one line in our own log; the host never hears of it.
"""

import os
import time

from sandbox_judge.hosts import detach
from sandbox_judge.hosts.host import IDLE, SESSION_END, TURN, WHENS, Host, host_named
from sandbox_judge.hosts.jobs import Job, Jobs, key_of
from sandbox_judge.hosts.payload import Fired, payload_of, read_stream
from sandbox_judge.hosts.places import log_line, state_directory

# After a turn's end, how long a session must be quiet before it counts as idle.
IDLE_S = 300.0
# What of the environment a job takes along, for the process that takes it up may have another.
_PREFIX = "SANDBOX_JUDGE_"
_NOT_TAKEN = ("SANDBOX_JUDGE_ACTIVE", "SANDBOX_JUDGE_FOREGROUND", "SANDBOX_JUDGE_DISABLED")


def main(argv: list[str], environ: dict[str, str], *, stdin: int = 0, stdout: int = 1) -> int:
    """Serves one fire. Always 0."""
    host = None
    answered = False
    try:
        words = list(argv)
        host = host_named(words.pop(0) if words else "")
        if environ.get("SANDBOX_JUDGE_ACTIVE") == "1" or environ.get("SANDBOX_JUDGE_DISABLED") == "1":
            return 0
        arguments = Arguments(host, words, environ)
        data: bytes | str | None = arguments.payload
        payload = payload_of(read_stream(stdin) if data is None else data)
        if payload is None:
            log_line(environ, f"{host.name}: the payload is no JSON object; nothing to judge")
            return 0
        spooled = _spooled(host, arguments, Fired(payload), environ)
        answered = _answer(host, stdout)
        if spooled is not None:
            _hand_over(*spooled, environ)
    except KeyError as error:
        log_line(environ, f"there is no host {error.args[0]!r}")
    except Exception as error:  # the host must never hear of a bug of ours
        log_line(environ, f"{host.name if host else 'hook'}: {type(error).__name__}: {error}")
    finally:
        if not answered:
            _answer(host, stdout)
    return 0


class Arguments:
    """The shim's arguments. What is not known is passed over: a newer configuration must not break a host."""

    def __init__(self, host: Host, words: list[str], environ: dict[str, str]) -> None:
        self.payload: str | None = None
        if host.argument and words:
            self.payload = words.pop()
        self.foreground = "--foreground" in words
        when = environ.get("SANDBOX_JUDGE_WHEN", "")
        for position, word in enumerate(words):
            if word == "--each-turn":
                when = TURN
            elif word == "--when" and position + 1 < len(words):
                when = words[position + 1]
            elif word.startswith("--when="):
                when = word.partition("=")[2]
        self.when = when if when in WHENS else host.when


def _answer(host: Host | None, stdout: int) -> bool:
    try:
        if host is not None and host.answer:
            os.write(stdout, host.answer)
    except OSError:
        pass
    return True


def _spooled(
    host: Host, arguments: Arguments, fired: Fired, environ: dict[str, str]
) -> tuple[str, str, float | None] | None:
    """Spools the job: its key, the worker's reason to stay in the foreground and its budget; None where
    nothing is to be done now. Raises OSError, ValueError."""
    if fired.from_cursor and host.name != "cursor":
        host = host_named("cursor")  # which runs the hooks of Claude Code, too
    job = job_of(host, arguments.when, fired, environ, now=time.time())
    if job is None:
        return None
    key = key_of(str(job["host"]), str(job["session"]), str(job["turn"]))
    jobs = Jobs(os.path.join(state_directory(environ), "jobs"))
    if jobs.submit(key, job) == "done":
        return None
    stays = "--foreground" if arguments.foreground else detach.must_stay(environ)
    return key, stays, host.limit_s(fired.event) - 1.0 if stays else None


def job_of(host: Host, when: str, fired: Fired, environ: dict[str, str], *, now: float) -> Job | None:
    """The job that an event makes, None where `when` does not ask for one. Logs what cannot be used."""
    event = fired.event
    if event and not (host.is_end(event) or host.is_turn(event)):
        log_line(environ, f"{host.name}: the event {event!r} is none that is judged")
        return None
    # A version that does not name its event fires the one that it has.
    ends = host.is_end(event) if event else bool(host.ends)
    if (when == SESSION_END and not ends and host.ends) or (when == TURN and ends and host.turns):
        return None
    session = fired.session or fired.transcript
    if not session:
        log_line(environ, f"{host.name}: the payload names neither session nor transcript")
        return None
    size = _size(fired.transcript)
    status = "failed" if host.is_failure(event) else fired.status
    by_turn = when == TURN or (when == SESSION_END and not host.ends)
    return {
        "version": 1,
        "host": host.job_host,
        "shim": host.name,
        "session": session,
        "turn": (fired.turn or _digest(fired.last_message)) if by_turn and not ends else "",
        "event": event,
        "transcript": fired.transcript,
        "last_message": fired.last_message,
        "cwd": fired.cwd,
        "status": status,
        "fired": now,
        "not_before": now + _idle_s(environ) if when == IDLE and not ends else 0.0,
        "fingerprint": [size, _digest(fired.last_message), fired.turn],
        "environ": {k: v for k, v in environ.items() if k.startswith(_PREFIX) and k not in _NOT_TAKEN},
        "attempts": 0,
    }


def _hand_over(key: str, stays: str, budget_s: float | None, environ: dict[str, str]) -> None:
    if environ.get("SANDBOX_JUDGE_SPOOL_ONLY") == "1":
        return  # the self-test of `hooks list`, or a platform that sweeps by itself
    words = detach.command(key, budget_s=budget_s)
    if stays:
        detach.stay(words, environ)
    detach.launch(words, environ)


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size if path and "\0" not in path else None
    except (OSError, ValueError):
        return None


def _digest(text: str) -> str:
    return key_of("", "", text) if text else ""


def _idle_s(environ: dict[str, str]) -> float:
    try:
        return min(86_400.0, max(0.0, float(environ["SANDBOX_JUDGE_IDLE_SECONDS"])))
    except (KeyError, ValueError):
        return IDLE_S

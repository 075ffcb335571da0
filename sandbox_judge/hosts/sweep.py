"""Finding what nobody tells of: jobs whose worker was killed, and sessions that ended without an event.

An interrupt fires no hook, and a sandbox that is stopped kills what runs in it (`spec/hosts.md`, 6).
"""

import contextlib
import glob
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox_judge.hosts.host import Host, host_named
from sandbox_judge.hosts.jobs import Job, Jobs, key_of
from sandbox_judge.hosts.locate import patterns, size_of
from sandbox_judge.hosts.work import Workshop, work

_MOST_SESSIONS: Final = 10_000
_KEPT_S: Final = 86_400.0


def resume(shop: Workshop) -> int:
    """Does what waits and is due, one after another. How many jobs that were."""
    done = 0
    for key in shop.jobs.waiting():
        job = shop.jobs.read(key)
        due = job.get("not_before") if job is not None else None
        if isinstance(due, int | float) and due > time.time():
            continue
        done += work(shop, key)
    return done


def unseen(
    host: Host, jobs: Jobs, environ: Mapping[str, str], *, idle_s: float, since_s: float, now: float
) -> Iterator[Job]:
    """A job for each session of `host` that has been quiet for `idle_s` seconds, was written to within
    `since_s`, and that no job has seen as it stands."""
    known = _known(jobs)
    for path in _transcripts(host, dict(environ)):
        try:
            changed, size = os.stat(path).st_mtime, size_of(path)
        except OSError:
            continue
        if not (idle_s <= now - changed <= since_s) or size == 0:
            continue
        if (path, size) in known:
            continue
        yield {
            "version": 1,
            "host": host.job_host,
            "shim": host.name,
            "session": session_of(path),
            "turn": "",
            "event": "swept",
            "transcript": path,
            "last_message": "",
            "cwd": "",
            "status": "",
            "fired": now,
            "not_before": 0.0,
            "fingerprint": [size, "", ""],
            "environ": {k: v for k, v in environ.items() if k.startswith("SANDBOX_JUDGE_")},
            "attempts": 0,
        }


def submit_unseen(name: str, jobs: Jobs, environ: Mapping[str, str], *, idle_s: float, since_s: float) -> int:
    """Spools a job for each session of a host that ended unseen. How many those are."""
    found = 0
    for job in unseen(host_named(name), jobs, environ, idle_s=idle_s, since_s=since_s, now=time.time()):
        key = key_of(str(job["host"]), str(job["session"]), "")
        found += jobs.submit(key, job) == "new"
    return found


def session_of(path: str) -> str:
    """The session's id as the file's name or folder tells it: what the host's own event would call it."""
    name = os.path.basename(path)
    if name in ("events", "events.jsonl", "api_conversation_history.json"):
        return os.path.basename(os.path.dirname(path))
    stem = name.removesuffix(".jsonl").removesuffix(".json")
    if stem.startswith("rollout-"):  # rollout-2026-08-03T10-48-56-<uuid>
        return stem[-36:]
    return stem.rpartition("_")[2]


def _transcripts(host: Host, environ: dict[str, str]) -> list[str]:
    found: list[str] = []
    for pattern in patterns(host, environ):
        if "{session" not in pattern:
            continue  # one database for all sessions: its file says nothing of a session's end
        wide = pattern
        for name in ("{session}", "{session_bare}", "{session_short}"):
            wide = wide.replace(name, "*")
        found += glob.glob(wide)[: _MOST_SESSIONS - len(found)]
    return list(dict.fromkeys(found))


def _known(jobs: Jobs) -> set[tuple[Any, Any]]:
    """Paths and sizes that were judged, and those that wait."""
    known: set[tuple[Any, Any]] = set()
    for job in jobs.done():
        seen, fingerprint = job.get("seen"), job.get("fingerprint")
        if isinstance(seen, list) and len(seen) == 2:
            known.add((seen[0], seen[1]))
        if isinstance(fingerprint, list) and fingerprint:
            known.add((job.get("transcript"), fingerprint[0]))
    for key in jobs.waiting():
        waiting = jobs.read(key) or {}
        fingerprint = waiting.get("fingerprint")
        if isinstance(fingerprint, list) and fingerprint:
            known.add((waiting.get("transcript"), fingerprint[0]))
    return known


def tidy(state: str, *, now: float) -> None:
    """Takes away transcripts that were written for us (plugins, integrations) a day ago or longer."""
    for path in glob.iglob(os.path.join(glob.escape(state), "transcripts", "*", "*")):
        with contextlib.suppress(OSError):
            if now - os.lstat(path).st_mtime > _KEPT_S:
                os.unlink(path)

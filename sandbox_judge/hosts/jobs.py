"""The job spool: what is to be judged, one file a host, session and turn. Standard library only.

`<key>.job` is written before anything else is done, so that whatever is killed afterwards can be taken up
again; `<key>.lock` is held by the process that works on it; `<key>.done` remembers it for a while, so that a
double fire after the end is one, too. Writing is not fsynced: a killed sandbox keeps the page cache, and the
host waits.
"""

import fcntl
import hashlib
import json
import os
import time
from pathlib import Path

from sandbox_judge.errors import TrustError
from sandbox_judge.trust import make_private_dir

FORGOTTEN_S = 14 * 86_400.0
MOST_ATTEMPTS = 3
_LOCK_PATIENCE_S = 0.05
_MOST_FILES = 100_000

Job = dict[str, object]


def key_of(host: str, session: str, turn: str) -> str:
    """The name under which fires of one turn meet."""
    return hashlib.sha256(json.dumps([host, session, turn]).encode()).hexdigest()[:32]


class Jobs:
    """The spool in `folder`, which is made private. Raises OSError where it cannot be."""

    def __init__(self, folder: str) -> None:
        try:
            make_private_dir(Path(folder))
        except TrustError as error:
            raise OSError(13, error.message, error.where or folder) from error
        self.folder = folder

    def submit(self, key: str, job: Job) -> str:
        """Writes the job down, or merges it into one that waits: `new`, `merged`, or `done` where this very
        state of the session has been judged."""
        with _Brief(self._path("all", "lock")):
            waiting, done = self.read(key), self._load(self._path(key, "done"))
            if waiting is not None:
                if not _same(waiting, job) or waiting.get("not_before"):
                    # It has gone on, or waits for idleness. An event without a message says nothing of it.
                    message = job["last_message"] or waiting.get("last_message", "")
                    self._write(key, "job", {**job, "last_message": message})
                return "merged"
            if done is not None and _same(done, job):
                return "done"
            self._write(key, "job", job)
            return "new"

    def read(self, key: str) -> Job | None:
        return self._load(self._path(key, "job"))

    def ended(self, key: str) -> Job | None:
        """What is remembered of a job that ended well."""
        return self._load(self._path(key, "done"))

    def claim(self, key: str) -> int | None:
        """A descriptor that holds the job's lock until it is closed; None where another process has it."""
        descriptor = os.open(
            self._path(key, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def update(self, key: str, job: Job, **changes: object) -> Job:
        """Changes a job that is claimed, unless it was fired anew meanwhile. The job as it stands."""
        with _Brief(self._path("all", "lock")):
            found = self.read(key) or job
            changed = {**found, **changes}
            self._write(key, "job", changed)
            return changed

    def finish(self, key: str, job: Job, outcome: str, *, failed: bool = False, seen: object = None) -> bool:
        """Strikes a claimed job off and remembers it, with what was `seen` of the session. False where it was
        fired anew: it is to be worked again."""
        with _Brief(self._path("all", "lock")):
            found = self.read(key)
            if found is not None and found.get("fired") != job.get("fired"):
                return False
            kept = {name: job.get(name) for name in ("host", "session", "turn", "fingerprint", "transcript")}
            kept |= {"ended": time.time(), "outcome": outcome, "seen": seen}
            self._write(key, "failed" if failed else "done", kept)
            _unlink(self._path(key, "job"))
            return True

    def waiting(self) -> list[str]:
        """Keys of the jobs that are to be done, the oldest first."""
        found = []
        for entry in self._files(".job"):
            try:
                found.append((os.stat(entry).st_mtime, os.path.basename(entry).removesuffix(".job")))
            except OSError:
                continue
        return [key for _, key in sorted(found)]

    def done(self) -> list[Job]:
        """What is remembered of jobs that ended."""
        loaded = (self._load(path) for path in self._files(".done", ".failed"))
        return [job for job in loaded if job is not None]

    def failed(self) -> list[Job]:
        loaded = (self._load(path) for path in self._files(".failed"))
        return [job for job in loaded if job is not None]

    def forget(self, *, now: float) -> int:
        """Takes away what ended long ago. How many files that were."""
        gone = 0
        for path in self._files(".done", ".failed", ".lock", ".tmp"):
            try:
                if now - os.stat(path).st_mtime > FORGOTTEN_S and not os.path.basename(path).startswith(
                    "all."
                ):
                    gone += _unlink(path)
            except OSError:
                continue
        return gone

    def _files(self, *endings: str) -> list[str]:
        names = []
        with os.scandir(self.folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_FILES:
                    break
                if entry.name.endswith(endings):
                    names.append(entry.path)
        return names

    def _path(self, key: str, ending: str) -> str:
        return os.path.join(self.folder, f"{key}.{ending}")

    def _load(self, path: str) -> Job | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        with open(descriptor, "rb") as file:
            try:
                value = json.loads(file.read())
            except (ValueError, RecursionError, OSError):
                return None
        return value if isinstance(value, dict) else None

    def _write(self, key: str, ending: str, job: Job) -> None:
        path = self._path(key, f"{ending}.{os.getpid()}.tmp")
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            left = memoryview(json.dumps(job).encode())
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError:
            _unlink(path)
            raise
        finally:
            os.close(descriptor)
        os.replace(path, self._path(key, ending))


class _Brief:
    """A lock that is held for as long as reading and writing one file takes. One that cannot be had in 50 ms
    is gone without: the host waits, and what two writers can lose then is a merge, never a job."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        ends = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > ends:
                    return
                time.sleep(0.002)

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _same(one: Job, other: Job) -> bool:
    """Whether two fires tell of one state: the transcript has one size; where that is not known, the turn and
    the message are the same."""
    a, b = one.get("fingerprint"), other.get("fingerprint")
    if not isinstance(a, list) or not isinstance(b, list) or len(a) != 3 or len(b) != 3:
        return False
    return a[0] == b[0] if a[0] is not None and b[0] is not None else a == b


def _unlink(path: str) -> int:
    try:
        os.unlink(path)
    except OSError:
        return 0
    return 1

"""The core of the in-process integrations: what an agent said goes to the job spool, and a process of its own
judges it. Nothing here waits for a judge, and nothing raises into the host.

A conversation that is handed over is put on a queue; one thread writes it down and starts the worker. At the
interpreter's exit what is on the queue is still written, within a bound.
"""

import atexit
import functools
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from sandbox_judge.hosts.detach import command
from sandbox_judge.hosts.entry import job_of
from sandbox_judge.hosts.host import IN_PROCESS, SESSION_END, host_named
from sandbox_judge.hosts.jobs import Jobs, key_of
from sandbox_judge.hosts.payload import Fired
from sandbox_judge.hosts.places import log_line, state_directory

# How many conversations may wait to be written; one more is dropped, and the log says so.
_MOST_WAITING: Final = 1_000
_FLUSH_S: Final = 2.0
_START_S: Final = 10.0

Document = Callable[[], Any]
Callback = TypeVar("Callback", bound=Callable[..., None])


def quiet(callback: Callback) -> Callback:
    """A callback that never raises into the host: what goes wrong becomes a line in our log."""

    @functools.wraps(callback)
    def called(*args: Any, **options: Any) -> None:
        try:
            callback(*args, **options)
        except Exception as error:  # whatever a host hands us, its agent goes on
            log_line(dict(os.environ), f"{callback.__name__}: {type(error).__name__}: {error}")

    return cast(Callback, called)


class Handing:
    """Hands conversations over. `recipe`, `commit`, `environment`, `settings`, `sink` and `socket` are as
    `SANDBOX_JUDGE_*` variables, which count where they are not given."""

    def __init__(
        self,
        *,
        recipe: str | None = None,
        commit: str | None = None,
        environment: str | None = None,
        settings: str | None = None,
        sink: str | None = None,
        socket: str | None = None,
        flush_s: float = _FLUSH_S,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        given = {
            "RECIPE": recipe,
            "COMMIT": commit,
            "ENVIRONMENT": environment,
            "SETTINGS": settings,
            "SINK": sink,
            "SOCKET": socket,
        }
        self._environ |= {f"SANDBOX_JUDGE_{name}": value for name, value in given.items() if value}
        self._queue: queue.Queue[tuple[str, str, Document] | None] = queue.Queue(_MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._off = self._environ.get("SANDBOX_JUDGE_ACTIVE") == "1"
        self._off |= self._environ.get("SANDBOX_JUDGE_DISABLED") == "1"
        atexit.register(self.flush, flush_s)

    def hand(self, conversation_id: str, document: Document, *, status: str = "") -> None:
        """Takes a conversation: `document` is called on our own thread for its JSON value, in any format that
        is read. Returns at once; never raises."""
        if self._off:
            return
        try:
            self._queue.put_nowait((conversation_id, status, document))
            self._start()
        except queue.Full:
            log_line(self._environ, f"{conversation_id}: too many conversations wait; it is not judged")
        except Exception as error:  # a thread that cannot be started is no reason to disturb the agent
            log_line(self._environ, f"{conversation_id}: {type(error).__name__}: {error}")

    def flush(self, seconds: float = _FLUSH_S) -> bool:
        """Waits until all that was handed over is written down, at most `seconds`. Whether it is."""
        ends = time.monotonic() + seconds
        while self._queue.unfinished_tasks and time.monotonic() < ends:
            time.sleep(0.005)
        return not self._queue.unfinished_tasks

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="sandbox-judge", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            item = self._queue.get()
            try:
                if item is not None:
                    self._write(*item)
            except Exception as error:  # the next conversation is not to suffer for this one
                log_line(self._environ, f"in process: {type(error).__name__}: {error}")
            finally:
                self._queue.task_done()

    def _write(self, conversation_id: str, status: str, document: Document) -> None:
        """Spools one conversation and starts its worker. Raises whatever goes wrong."""
        state = state_directory(self._environ)
        jobs = Jobs(os.path.join(state, "jobs"))
        key = key_of(IN_PROCESS, conversation_id, "")
        folder = os.path.join(state, "transcripts", IN_PROCESS)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, f"{key}.json")
        new = f"{path}.{threading.get_ident()}.tmp"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(json.dumps(document(), default=str).encode("utf-8", "replace"))
        os.replace(new, path)
        fired = Fired(
            {"event": "ended", "session_id": conversation_id, "transcript_path": path, "status": status}
        )
        job = job_of(host_named(IN_PROCESS), SESSION_END, fired, self._environ, now=time.time())
        if job is None or jobs.submit(key, job) == "done":
            return
        if self._environ.get("SANDBOX_JUDGE_SPOOL_ONLY") != "1":
            # Not a fork, for the host has threads; and by a shell that ends at once, so that the worker is
            # init's child and the host has none to bury.
            subprocess.run(
                ["/bin/sh", "-c", '"$@" &', "sh", *command(key)],
                env=self._environ,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                timeout=_START_S,
                check=True,
            )

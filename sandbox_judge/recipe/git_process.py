"""git as a program: where it is, how it is started so that nothing in a repository or an environment can make
it run or fetch anything, and how it is talked to. The only module that starts it (design, section 4).
"""

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.leash import Leash
from sandbox_judge.trust import unwritable_by_others

GIT_VARIABLE: Final = "SANDBOX_JUDGE_GIT"
_PLACES: Final = ("/usr/bin/git", "/usr/local/bin/git", "/bin/git", "/opt/homebrew/bin/git")
_CHUNK: Final = 1 << 16
_KEPT_STDERR: Final = 4_096
_LAST_WORDS_S: Final = 0.2

# All that the child gets, but for the loader's path: no HOME, so no user configuration, and nothing named
# GIT_* that was inherited.
_ENVIRON: Final = {
    "LC_ALL": "C",
    "PATH": "/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    # Older gits do not know the line above. This one wins over any `protocol.*` in a repository's own
    # configuration, so the fetch that they start is refused.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
}
_OPTIONS: Final = (
    "--no-pager",
    "--no-replace-objects",
    "--no-optional-locks",
    *("-c", "safe.directory=*"),  # every object is hashed, so its owner does not matter
    *("-c", "protocol.allow=never"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.alternateRefsCommand="),
    *("-c", "credential.helper="),
    *("-c", "core.askPass="),
    *("-c", "core.sshCommand=false"),
)


def find_git(environ: Mapping[str, str]) -> str:
    """The absolute path of git. Raises RecipeError when there is none.

    The system's places first; then what PATH names absolutely, where only root and we can change it: an agent
    may have put a `git` of its own in a directory that it can write.
    """
    chosen = environ.get(GIT_VARIABLE, "")
    if chosen:
        if os.path.isabs(chosen) and _is_program(chosen):
            return chosen
        raise RecipeError(
            f"{chosen!r} is not a program given by its absolute path.",
            where=GIT_VARIABLE,
            remedy="Name the git to use, or unset the variable.",
        )
    for place in _PLACES:
        if _is_program(place):
            return place
    for directory in environ.get("PATH", "").split(os.pathsep):
        place = os.path.join(directory, "git")
        if os.path.isabs(directory) and _is_program(place) and unwritable_by_others(place):
            return place
    raise RecipeError(
        "git was not found.",
        remedy=f"Install it, or name it by {GIT_VARIABLE}: recipes are read from git objects.",
    )


def _is_program(path: str) -> bool:
    return "\0" not in path and os.path.isfile(path) and os.access(path, os.X_OK)


class GitChild:
    """One running git: bytes in, bytes out, standard error kept (its beginning), each wait on the leash.

    A context manager. Without `fed` its standard input is empty. Raises RecipeError when git cannot be
    started or the time is over.
    """

    def __init__(
        self,
        git: str,
        git_dir: str,
        arguments: Sequence[str],
        *,
        environ: Mapping[str, str],
        leash: Leash,
        fed: bool = True,
    ) -> None:
        self._leash = leash
        leash.left()
        own = {k: environ[k] for k in ("LD_LIBRARY_PATH",) if k in environ}
        try:
            child = subprocess.Popen(
                [git, *_OPTIONS, f"--git-dir={git_dir}", *arguments],
                stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env={**own, **_ENVIRON},
                start_new_session=True,
            )
        except OSError as error:
            raise RecipeError(
                f"git could not be started: {error.strerror}.", where=git, remedy="Run `doctor`."
            ) from error
        leash.tie(child)
        self._streams = [stream for stream in (child.stdout, child.stderr, child.stdin) if stream]
        for stream in self._streams:
            os.set_blocking(stream.fileno(), False)
        self._out, self._err, *rest = (stream.fileno() for stream in self._streams)
        self._in = rest[0] if rest else -1
        self._open = {self._out, self._err}
        self._to_send = bytearray()
        self._got = bytearray()
        self._said = bytearray()

    def __enter__(self) -> "GitChild":
        return self

    def __exit__(self, *_: object) -> None:
        self._leash.release()
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()

    def send(self, data: bytes) -> None:
        """Hands `data` over while answers are read: neither side can block the other."""
        self._to_send += data

    def line(self, longest: int) -> bytes | None:
        """The next line of output without its end, None when git has ended. Longer lines are cut there."""
        while (end := self._got.find(b"\n", 0, longest + 1)) < 0 and len(self._got) <= longest:
            if not self._pump():
                return None
        end = longest if end < 0 else end
        line = bytes(self._got[:end])
        del self._got[: end + 1]
        return line

    def exactly(self, size: int) -> bytes | None:
        """The next `size` bytes of output, None when git has ended before."""
        while len(self._got) < size:
            if not self._pump():
                return None
        data = bytes(self._got[:size])
        del self._got[:size]
        return data

    def complaint(self) -> str:
        """What git has said on standard error so far (it says so before it answers or ends)."""
        stop = time.monotonic() + _LAST_WORDS_S
        while self._err in self._open and time.monotonic() < stop:
            if not self._ready(0.0 if self._out in self._open else _LAST_WORDS_S):
                break
        return self._said.decode("utf-8", "replace").strip()

    def _pump(self) -> bool:
        """Waits for something to happen; False once there is no more output to come."""
        if self._out not in self._open:
            return False
        # Now and then the leash is looked at, even when a process that left the group holds the pipe open.
        self._ready(min(self._leash.left(), 0.25))
        return True

    def _ready(self, wait_s: float) -> bool:
        poll = select.poll()
        for descriptor in self._open:
            poll.register(descriptor, select.POLLIN)
        if self._to_send:
            poll.register(self._in, select.POLLOUT)
        events = poll.poll(wait_s * 1000)
        for descriptor, _ in events:
            if descriptor == self._in:
                self._write()
            else:
                self._read(descriptor)
        return bool(events)

    def _write(self) -> None:
        try:
            del self._to_send[: os.write(self._in, self._to_send[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # it has ended; its output tells how
            self._to_send.clear()

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._open.discard(descriptor)
        elif descriptor == self._out:
            self._got += data
        else:
            self._said += data[: max(0, _KEPT_STDERR - len(self._said))]

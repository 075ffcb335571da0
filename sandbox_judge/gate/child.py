"""The child process of `gate.worker`: runs searches that may take too long beside the event loop.

A script for `python -I -S`, where neither this package nor site-packages can be imported, and of both so that
nothing in the environment or the working directory changes what runs. Protocol, all on the standard streams:
in comes one marshalled `Work`, led by its length, then a job's number a line; out goes `ready`, then for
each job the number of the alternative that holds, or -1, or `!` where a pattern was refused.
"""

import marshal
import os
import signal
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, Final

# (any of these patterns, in any of these texts), by number.
Clause = tuple[tuple[int, ...], tuple[int, ...]]
# All clauses of one alternative must hold; a job asks for the first alternative that does.
Alternative = tuple[Clause, ...]
Job = tuple[Alternative, ...]
# Patterns (flags in front), texts (no surrogates), jobs, and the seconds that one job may take.
Work = tuple[tuple[str, ...], tuple[str, ...], tuple[Job, ...], float]

# The parent kills at the bound; this much later the kernel does, should the parent be gone.
GRACE_S: Final = 0.25
_START_S: Final = 10.0
LENGTH_BYTES: Final = 8


def main(engine_path: str, extension: str) -> None:
    """Answer jobs until the input ends. The default action of the alarm needs no interpreter to end us."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, _START_S)
    engine = ModuleType("engine")
    SourceFileLoader("engine", engine_path).exec_module(engine)
    compiled = engine.load(extension)
    source = sys.stdin.buffer
    length = int.from_bytes(source.read(LENGTH_BYTES), "big")
    work: Work = marshal.loads(source.read(length))  # noqa: S302 - written by our own parent
    searches = _Searches(compiled, work)
    _say("ready")
    while True:
        signal.setitimer(signal.ITIMER_REAL, 0)
        line = source.readline()
        if not line:
            return
        signal.setitimer(signal.ITIMER_REAL, work[3] + GRACE_S)
        try:
            _say(str(searches.first_of(work[2][int(line)])))
        except engine.Refused:
            _say("!")


class _Searches:
    def __init__(self, compiled: Any, work: Work) -> None:
        self._compiled = compiled
        self._patterns, self._texts = work[0], work[1]

    def first_of(self, job: Job) -> int:
        # One job's patterns at a time: compiled ones may be large.
        needed = {p for alternative in job for patterns, _ in alternative for p in patterns}
        search = {p: self._compiled(self._patterns[p]) for p in needed}
        for number, alternative in enumerate(job):
            if all(any(search[p](self._texts[t]) for p in ps for t in ts) for ps, ts in alternative):
                return number
        return -1


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

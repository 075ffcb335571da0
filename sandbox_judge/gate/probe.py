"""Whether a pattern is slow on hostile text: for `check`, which warns its author (design 6)."""

import marshal
import random
import re
import signal
import subprocess
import sys
from typing import Final

from sandbox_judge.gate import child, engine
from sandbox_judge.gate.child import Work
from sandbox_judge.gate.language import RegexLiteral
from sandbox_judge.gate.regex import Regex
from sandbox_judge.gate.worker import child_command, child_environment

_LENGTH: Final = 300_000
# Below this weight `_LENGTH` characters take less than the bound whatever they are: no need to try.
_NEVER_SLOW: Final = 60.0
_TRIES_S: Final = 8.0


def probe_cost(literal: RegexLiteral) -> str | None:
    """A warning where a pattern that the engine takes is slow on a long text that is made to be hard for it.

    Takes no time for a small pattern, else some tenths of a second in a child process; None also where no
    child can be started.
    """
    regex = Regex(literal)
    path = engine.extension_path()
    if regex.weight < _NEVER_SLOW or path is None or not sys.executable:
        return None
    texts = _probe_texts(literal.pattern)
    jobs = tuple((((((0,), (n,)),),)) for n in range(len(texts)))
    # The child's own alarm, which leaves a quarter of a second, is the bound.
    work: Work = ((regex.prefixed,), texts, jobs, 0.0)
    packed = marshal.dumps(work)
    asked = len(packed).to_bytes(child.LENGTH_BYTES, "big") + packed
    asked += b"".join(b"%d\n" % n for n in range(len(texts)))
    try:
        done = subprocess.run(
            child_command(path),
            input=asked,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            cwd="/",
            start_new_session=True,
            timeout=_TRIES_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != -signal.SIGALRM:
        return None
    return (
        f"the regex takes more than {child.GRACE_S * 1000:.0f} ms on {_LENGTH:,} characters that are hard "
        "for it: on a long text this gate may get no answer (a null gate_timeout); smaller counts help"
    )


def _probe_texts(pattern: str) -> tuple[str, ...]:
    """Texts on which automata that must remember much are slow: few letters of the pattern's own, without
    order, and every one of its characters at the end, so that none is ruled out by what it lacks."""
    # What a set or an escape says is not a letter that it needs.
    letters = list(dict.fromkeys(c for c in re.sub(r"\\.|\{[^}]*\}", "", pattern) if c.isalnum()))
    tail = "".join(letters) + " 0aZé_-\n"
    alphabets = ("".join(letters[:2]) or "ab", "ab", "".join(letters[:4]) + "a ", "aé0_")
    return tuple(_disorder(alphabet) + tail for alphabet in dict.fromkeys(alphabets))


def _disorder(alphabet: str) -> str:
    """Characters of `alphabet` in an order that seldom repeats, the same in each run."""
    return "".join(random.Random(1).choices(alphabet, k=_LENGTH // 10)) * 10

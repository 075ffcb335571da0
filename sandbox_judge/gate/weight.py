"""What a pattern can cost a character: an upper estimate of its positions, counts multiplied out.

Measured on hostile texts (a lazy automaton that never settles): about 10 ns a character and position. Read
from the pattern alone, because the engine does not tell; too high only means that a child process is asked.
"""

import re
from math import prod
from typing import Final

_PLAIN: Final = re.compile(r"[\w \-,:;@%&'\"!/<>=~|]{1,500}", re.ASCII)
_COUNT: Final = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_GROUP: Final = re.compile(r"\?(?:P?<[^>]*>|([A-Za-z-]*)[:)])")
_ESCAPE: Final = re.compile(
    r"\\(?:[pPxuUb]\{[^}]*\}|[pP].|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.S
)

# A plain alternation becomes an automaton no larger than its text: its cost does not grow with it.
_PLAIN_WEIGHT: Final = 0.25
# Classes beyond ASCII take several steps a character.
_WIDE: Final = 3
UNKNOWN: Final = 1e9
# Above this a compiled pattern is not kept: a position may take 50 KB, and a recipe may hold many.
MAX_KEPT: Final = 64.0


def weight_of(pattern: str, flags: str) -> float:
    """The weight of a pattern that the engine has taken: at least 0.25, at most `UNKNOWN`."""
    if _PLAIN.fullmatch(pattern):
        return _PLAIN_WEIGHT
    fold = 2 if "i" in flags else 1
    # Sizes of the open groups so far, the innermost last, and of the last atom, which a count multiplies.
    open_groups, last, at = [1.0], 1.0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            match = _ESCAPE.match(pattern, at)
            last, at = _escape_weight(match.group() if match else ""), match.end() if match else at + 1
        elif char == "[":
            last, at = _class(pattern, at)
        elif char == "(":
            group = _GROUP.match(pattern, at + 1)
            inline = (group.group(1) or "") if group else ""
            if "x" in inline.partition("-")[0]:
                return _with_comments(pattern)
            fold = 2 if "i" in inline else fold
            at = group.end() if group else at + 1
            if not (group and group.group().endswith(")")):
                open_groups.append(1.0)
            last = 0.0
        elif char == ")":
            last = open_groups.pop() if len(open_groups) > 1 else 1.0
            at += 1
        elif char == "{":
            count = _COUNT.match(pattern, at)
            if count is None:
                return UNKNOWN
            times = max(int(count[1]) + (1 if count[2] else 0), int(count[3] or 0), 1)
            open_groups[-1] += last * (times - 1)
            last, at = last * times, count.end()
            continue
        elif char in "*+?|^$":
            at += 1
            continue
        else:
            last, at = (_WIDE if char == "." or not char.isascii() else 1.0), at + 1
        open_groups[-1] += last
    return min(sum(open_groups) * fold, UNKNOWN)


def _with_comments(pattern: str) -> float:
    """Of a pattern in which comments may hold anything, also between the braces of a count: every character
    wide, times every number where there is a brace at all."""
    counts = (float(n) for n in _NUMBER.findall(pattern) if int(n)) if "{" in pattern else ()
    return min(2 * _WIDE * len(pattern) * prod(counts), UNKNOWN)


def _escape_weight(escape: str) -> float:
    return _WIDE if escape[1:2] in "wWdDsSpPxuU" and escape else 1.0


def _class(pattern: str, at: int) -> tuple[float, int]:
    """The weight of the class that opens at `at`, and where it ends."""
    depth, start = 0, at
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "[":
            depth += 1
            # A bracket that comes first is a member, not the end.
            after = at + 2 if pattern[at + 1 : at + 2] == "^" else at + 1
            if pattern[after : after + 1] == "]":
                at = after
        elif char == "]":
            depth -= 1
        at += 1
        if depth == 0:
            break
    text = pattern[start:at]
    narrow = text.isascii() and "\\" not in text and not text.startswith("[^") and "[:" not in text
    return (1.0 if narrow else _WIDE), at

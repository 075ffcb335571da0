"""The literal form of a gate target: `/pattern/flags` or a plain string (`spec/judge-file.md`, Gate).

Reading only; whether the pattern itself is one is the engine's answer (`gate.regex`).
"""

from typing import Final

import msgspec

FLAGS: Final = "imsu"
# What other languages take for flags: whoever writes only these means flags, not a path.
_FLAGS_ELSEWHERE: Final = frozenset("imsugyvdxAUXLanqI")


class GateSyntaxError(ValueError):
    """A gate target that is no regex literal, or a pattern that the engine refuses. The message is for the
    author of the judge; it may quote what the file says, so escape it for a terminal."""


class RegexLiteral(msgspec.Struct, frozen=True):
    """`/pattern/flags`. `flags` has each of `imsu` at most once, in the order written."""

    pattern: str
    flags: str = ""

    def __str__(self) -> str:
        return f"/{self.pattern}/{self.flags}"


def literal_of(target: str) -> RegexLiteral | None:
    """The regex literal that `target` is, or None for a plain string, which must equal the whole value.

    A string that starts with a slash and has a later one is a literal: its pattern ends at the last slash.
    Raises GateSyntaxError where what follows that slash is not flags.
    """
    end = target.rfind("/")
    if end <= 0 or target[0] != "/":
        return None
    pattern, flags = target[1:end], target[end + 1 :]
    foreign = "".join(dict.fromkeys(c for c in flags if c not in FLAGS))
    if foreign:
        raise GateSyntaxError(_foreign_flags(target, flags, foreign))
    repeated = "".join(dict.fromkeys(c for c in flags if flags.count(c) > 1))
    if repeated:
        raise GateSyntaxError(f"the regex {_quoted(target)} has the flag {_quoted(repeated)} more than once")
    return RegexLiteral(pattern, flags)


def _foreign_flags(target: str, flags: str, foreign: str) -> str:
    known = f"the flags are {', '.join(FLAGS)}, each at most once"
    if set(flags) <= _FLAGS_ELSEWHERE:
        return f"the regex {_quoted(target)} has the unknown flag {_quoted(foreign)}: {known}"
    exact = f"/^{_escaped_pattern(target)}$/"
    return (
        f"{_quoted(target)} starts with a slash and has a later one, so it is read as a regex with the flags "
        f"{_quoted(flags)}: {known}. To match this very text, write {_quoted(exact)}"
    )


def _escaped_pattern(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\.+*?()|[]{}^$#&-~" else c for c in text)


def _quoted(text: str) -> str:
    shown = text if len(text) <= 120 else f"{text[:117]}..."
    return f'"{shown}"'

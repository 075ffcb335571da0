"""Gate regexes: compiled by the engine, with messages for authors and a size for the gate's bound (design 6).

The engine is linear in the text, but linear is not bounded: it takes time in proportion to text length times
pattern size, and holds the interpreter meanwhile. `Regex.weight` is that size, so that the caller can tell
what must run elsewhere.
"""

from functools import lru_cache
from typing import Final

from sandbox_judge.canonical import without_surrogates
from sandbox_judge.gate import engine
from sandbox_judge.gate.language import GateSyntaxError, RegexLiteral
from sandbox_judge.gate.weight import MAX_KEPT, weight_of

_REMEDIES: Final = {
    "look-around": "say it with two fields, with two entries of `on`, or in the instructions",
    "backreferences": "\\0 to \\9 are read as such; a code point is written \\x{..}",
    "exceeds size limit": "a smaller count in {..}, or [a-z0-9_] in place of \\w, makes it fit",
    "unopened group": "a bracket that is meant itself is written \\)",
    "unclosed group": "a bracket that is meant itself is written \\(",
    "unclosed character class": "a bracket that is meant itself is written \\[ or, in a class, \\]",
    "repetition operator missing expression": "a sign that is meant itself is written with a backslash",
    "invalid UTF-8": "gates search text, so (?-u) may not match single bytes",
}


class Regex:
    """A gate regex, compiled at first use. `prefixed` is what the engine gets, `weight` what a search costs
    a character (`gate.weight`)."""

    __slots__ = ("_kept", "literal", "prefixed", "weight")

    def __init__(self, literal: RegexLiteral) -> None:
        flags = _engine_flags(literal)
        self.literal = literal
        self.prefixed = f"(?{flags}){literal.pattern}" if flags else literal.pattern
        self.weight = weight_of(literal.pattern, literal.flags)
        self._kept: engine.Search | None = None

    def compiled(self) -> engine.Search:
        """The engine's own function, for text that has no surrogates; ask once for many texts.

        Raises GateSyntaxError with the engine's reason and, where known, the remedy.
        """
        if self._kept is not None:
            return self._kept
        if without_surrogates(self.literal.pattern) != self.literal.pattern:
            raise GateSyntaxError("the pattern holds half of a surrogate pair, which is no character")
        try:
            search = _compile()(self.prefixed)
        except engine.Refused as error:
            raise GateSyntaxError(_message(self.literal, str(error))) from error
        self._kept = search if self.weight <= MAX_KEPT else None
        return search

    def search(self, text: str) -> bool:
        """Whether the pattern occurs anywhere in `text`, read as Unicode with lone surrogates as U+FFFD."""
        return self.compiled()(without_surrogates(text))


def compile_regex(literal: RegexLiteral) -> Regex:
    """The literal as a regex that the engine has taken. Raises GateSyntaxError."""
    regex = Regex(literal)
    regex.compiled()
    return regex


def _engine_flags(literal: RegexLiteral) -> str:
    """`u` says what is always so."""
    return "".join(c for c in literal.flags if c != "u")


@lru_cache(maxsize=1)
def _compile() -> engine.Compile:
    return engine.load(engine.extension_path())


def _message(literal: RegexLiteral, reason: str) -> str:
    """The engine's reason, its picture of the pattern without our prefix, and what to write instead."""
    shown = str(literal) if len(str(literal)) <= 120 else f"{str(literal)[:117]}..."
    cause = reason.rpartition("error: ")[2].strip()
    remedy = next((r for key, r in _REMEDIES.items() if key in cause), "")
    flags = _engine_flags(literal)
    column = _column(reason, len(flags) + 3 if flags else 0)
    where = f" at character {column} of the pattern" if column else ""
    return f"the regex {shown} is refused{where}: {cause.rstrip('.')}{f' ({remedy})' if remedy else ''}"


def _column(reason: str, prefix: int) -> int | None:
    """Where the engine's caret stands, counted from 1 in a pattern of one line; None where it shows none."""
    carets = [line for line in reason.splitlines() if line.strip() and not line.strip(" ^")]
    if len(carets) != 1 or not reason.startswith("regex parse error:\n    "):
        return None
    return max(1, carets[0].index("^") - 4 - prefix + 1)

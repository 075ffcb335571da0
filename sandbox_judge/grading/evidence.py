"""Evidence: is what the judge quotes really in what it saw? (design, section 7)"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from sandbox_judge.caps import QUOTE_CHARS, QUOTES, cut
from sandbox_judge.grading.reply import Quote

# The marks of further lines, and tabs, which the view shows as escapes.
_LAYOUT: Final = re.compile(r"^\| ?|\\t", re.MULTILINE)


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One quote, cut visibly, and whether it stands in the view."""

    quote: str
    verified: bool
    entry: int | None = None


def verified(quotes: Sequence[Quote], *, view_text: str) -> tuple[Evidence, ...]:
    """The first ten quotes, each looked up in the view: exactly, then without regard to white space, case and
    the marks that the view puts before further lines."""
    loose = ""
    evidence = []
    for quote in quotes[:QUOTES]:
        # A quote cannot be longer than what it was taken from; looking for it would only cost time.
        fits = bool(quote.quote.strip()) and len(quote.quote) <= len(view_text)
        found = fits and quote.quote in view_text
        if fits and not found:
            loose = loose or normalised(view_text)
            found = normalised(quote.quote) in loose
        evidence.append(Evidence(quote=cut(quote.quote, QUOTE_CHARS), entry=quote.entry, verified=found))
    return tuple(evidence)


def normalised(text: str) -> str:
    """`text` without regard to white space, case and the marks of the view."""
    # One blank at each end would let a quote fail at the border of a line.
    return " ".join(_LAYOUT.sub(" ", text).casefold().split())

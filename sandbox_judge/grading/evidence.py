"""Evidence: is what the judge quotes really in what it saw, where it says it is? (design, section 7)"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from sandbox_judge.caps import QUOTE_CHARS, QUOTES, cut
from sandbox_judge.grading.reply import Quote

# The marks of further lines, and tabs, which the view shows as escapes.
_ENTRY: Final = re.compile(r"^\[(\d{1,9})\] ", re.MULTILINE)
_LAYOUT: Final = re.compile(r"^\| ?|\\t", re.MULTILINE)


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One quote, cut visibly, and whether it stands in the entry that it names (none: in the view)."""

    quote: str
    verified: bool
    entry: int | None = None


def verified(quotes: Sequence[Quote], *, view_text: str) -> tuple[Evidence, ...]:
    """The first ten quotes, each looked up in its entry: exactly, then without regard to white space, case
    and the marks that the view puts before further lines. One that names no entry may stand anywhere."""
    entries = _Entries(view_text)
    return tuple(
        Evidence(
            quote=cut(quote.quote, QUOTE_CHARS),
            entry=quote.entry,
            verified=_stands(quote.quote, entries.text_of(quote.entry), entries),
        )
        for quote in quotes[:QUOTES]
    )


class _Entries:
    """The entries of a view by their numbers, found when first asked for."""

    def __init__(self, view_text: str) -> None:
        self._view = view_text
        self._spans: dict[int, tuple[int, int]] | None = None
        self._loose: dict[str, str] = {}

    def text_of(self, entry: int | None) -> str:
        if entry is None:
            return self._view
        if self._spans is None:
            starts = [(int(found[1]), found.start()) for found in _ENTRY.finditer(self._view)]
            ends = [start for _, start in starts[1:]] + [len(self._view)]
            # A view without entries (other instruments have those) has one more end than starts.
            self._spans = {n: (start, end) for (n, start), end in zip(starts, ends, strict=False)}
        start, end = self._spans.get(entry, (0, 0)) if self._spans else (0, len(self._view))
        return self._view[start:end]

    def loose(self, text: str) -> str:
        if text not in self._loose:
            self._loose[text] = normalised(text)
        return self._loose[text]


def _stands(quote: str, text: str, entries: _Entries) -> bool:
    # A quote cannot be longer than what it was taken from; looking for it would only cost time.
    if not quote.strip() or len(quote) > len(text):
        return False
    return quote in text or normalised(quote) in entries.loose(text)


def normalised(text: str) -> str:
    """`text` without regard to white space, case and the marks of the view."""
    # One blank at each end would let a quote fail at the border of a line.
    return " ".join(_LAYOUT.sub(" ", text).casefold().split())

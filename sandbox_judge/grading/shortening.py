"""Cutting the longest texts in the middle until a view fits (`spec/conversation.md`, View). Pure.

Works on text as the view shows it, whose further lines start with `| `; the mark that says how much was left
out stands on a line of its own, so a cut never makes a line that starts with a bracket.
"""

from collections.abc import Sequence
from typing import Final

# What stays of a text at least, and what the mark of a cut may take.
_KEPT_AT_LEAST: Final = 100
_MARK_ROOM: Final = 64
_BREAK: Final = "\n| "


def shortened(texts: Sequence[str], excess: int) -> tuple[list[str], int]:
    """`texts` cut so that together they are `excess` characters shorter, as far as that can be: all that are
    longer than one common length are cut to it, so the longest lose first. Also the number left out."""
    kept = _common_length(sorted((len(text) for text in texts), reverse=True), excess)
    out, left_out = [], 0
    for text in texts:
        if len(text) <= kept + _MARK_ROOM:
            out.append(text)
            continue
        cut, count = _cut(text, kept)
        out.append(cut)
        left_out += count
    return out, left_out


def _common_length(lengths: Sequence[int], excess: int) -> int:
    """The greatest length to which cutting saves `excess`; `_KEPT_AT_LEAST` where nothing saves as much."""
    low, high = _KEPT_AT_LEAST, max(lengths[0] if lengths else 0, _KEPT_AT_LEAST)
    while low < high:
        middle = (low + high + 1) // 2
        if _saving(lengths, middle) >= excess:
            low = middle
        else:
            high = middle - 1
    return low


def _saving(lengths: Sequence[int], kept: int) -> int:
    total = 0
    for length in lengths:
        if length <= kept + _MARK_ROOM:
            break
        total += length - kept - _MARK_ROOM
    return total


def _cut(text: str, kept: int) -> tuple[str, int]:
    head, tail = text[: kept - kept // 2], text[len(text) - kept // 2 :]
    for ending in (_BREAK, "\n|", "\n"):
        head = head.removesuffix(ending)
    middle = text[len(head) : len(text) - len(tail)]
    count = len(middle) - 2 * middle.count(_BREAK)
    return f"{head}{_BREAK}[... {count:,} characters left out ...]{_BREAK}{tail}", count

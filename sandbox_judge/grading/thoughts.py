"""Thinking that a model left in its reply's text: where it stands, so that nothing is read out of it."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

Span = tuple[int, int]

# White space and what editors and tokenizers leave invisibly at the ends of a text.
BLANK: Final = (
    " \t\n\r\v\f\x00\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u200b\u200c\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
)

_NAMES: Final = (
    r"think|thinking|thought|thoughts|reasoning|reflection|scratchpad|(?:seed|antml):think(?:ing)?"
)
_TAG: Final = re.compile(
    rf"<(?P<slash>/?)(?:{_NAMES})\s{{0,9}}>"
    r"|\[(?P<slash2>/?)THINK\]"
    r"|◁(?P<slash3>/?)think▷"
    r"|<\|(?:begin_of_thought|(?P<slash4>end_of_thought))\|>",
    re.IGNORECASE,
)


def outside_thoughts(text: str, objects: Sequence[Span]) -> list[Span]:
    """The stretches of `text` that are no thinking: blocks that are closed, or closed without an opening,
    are left out, and so is one that opens the reply and never closes.

    `objects` are the complete JSON objects of `text`: a tag inside one is data, a judge may speak of one.
    """
    kept: list[Span] = []
    begins, opened = 0, -1
    for tag in _TAG.finditer(text):
        if _inside(tag.start(), objects):
            continue
        if not any(tag.groupdict().values()):
            opened = tag.start() if opened < 0 else opened
        elif opened >= 0:
            kept.append((begins, opened))
            begins, opened = tag.end(), -1
        else:
            # Closed without an opening: the template opened it, and all before is thinking.
            kept.clear()
            begins = tag.end()
    if opened >= 0 and not any(text[a:b].strip(BLANK) for a, b in [*kept, (begins, opened)]):
        return []
    kept.append((begins, len(text)))
    return [(a, b) for a, b in kept if a < b]


def _inside(at: int, spans: Sequence[Span]) -> bool:
    index = bisect_right(spans, (at, at)) - 1
    return index >= 0 and spans[index][0] <= at < spans[index][1]

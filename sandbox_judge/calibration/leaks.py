"""Conversations that say nearly the same, across splits: what was learnt on one is no news on the other.

A sketch of a conversation is the lowest hashes of its runs of five words (bottom-k MinHash, Broder 1997).
Sketches that share a hash are compared, so that a thousand rows take no million comparisons.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from sandbox_judge.conversation.model import Conversation, Message, ToolResult

NEAR: Final = 0.8
_RUN: Final = 5
_SKETCH: Final = 64
_WORD: Final = re.compile(r"\w+")
# A hash that so many rows share is a phrase of the shop, not of the conversation.
_COMMON: Final = 50

Sketch = tuple[int, ...]


def sketch(conversation: Conversation) -> Sketch:
    """The sketch of what was said and returned; what the system says is the same in every row."""
    words: list[str] = []
    for entry in conversation.entries:
        said = isinstance(entry, ToolResult) or (isinstance(entry, Message) and entry.role != "system")
        if said:
            for part in getattr(entry, "parts", ()):
                words += _WORD.findall((getattr(part, "text", None) or "").casefold())
    runs = {" ".join(words[at : at + _RUN]) for at in range(max(1, len(words) - _RUN + 1))} - {""}
    hashes = (int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest()) for run in runs)
    return tuple(sorted(hashes)[:_SKETCH])


def likeness(one: Sketch, other: Sketch) -> float:
    """The estimated share of runs that two conversations have in common, 0 to 1."""
    union = sorted(set(one) | set(other))[:_SKETCH]
    if not union:
        return 0.0
    both = set(one) & set(other)
    return sum(1 for value in union if value in both) / len(union)


def near_pairs(sketches: Iterable[Sketch]) -> Iterator[tuple[int, int, float]]:
    """(position, later position, likeness) of all that are at least `NEAR` alike."""
    kept = list(sketches)
    holders: dict[int, list[int]] = defaultdict(list)
    for later, own in enumerate(kept):
        candidates = set()
        for value in own:
            if len(holders[value]) < _COMMON:
                candidates.update(holders[value])
                holders[value].append(later)
        for earlier in sorted(candidates):
            alike = likeness(kept[earlier], own)
            if alike >= NEAR:
                yield earlier, later, alike

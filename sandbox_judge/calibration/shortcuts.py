"""Could the labels be told without reading? What one surface feature of the conversations would reach alone.

A judge that does no better than the length of the answer measures length. Each feature is cut at the best
place, separately for its absence or low values and its presence or high values, on the very labels: an upper
bound of what it can do, which is what a warning needs. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sandbox_judge.conversation.model import Conversation, Message, Text, ToolResult

# A feature whose agreement is so near to the judge's, or so far above the majority's, is worth a warning.
NEAR_JUDGE: Final = 0.05
ABOVE_MAJORITY: Final = 0.1

_PATTERNS: Final = {
    "headers": re.compile(r"^#{1,6} ", re.MULTILINE),
    "lists": re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)]) ", re.MULTILINE),
    "code": re.compile(r"```|`[^`\n]+`"),
    "hedges": re.compile(
        r"\b(?:may|might|perhaps|possibly|probably|likely|seems?|appears?)\b"
        r"|\bi (?:think|believe)\b|\bnot sure\b|\bcould be\b",
        re.IGNORECASE,
    ),
    "apologies": re.compile(r"\b(?:sorry|apolog(?:y|ies|i[sz]e)|regret|unfortunately)\b", re.IGNORECASE),
    "links": re.compile(r"https?://|\bwww\.", re.IGNORECASE),
    "emoji": re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]"),
}
_COMMON_ENGLISH: Final = frozenset(
    {"the", "and", "is", "you", "to", "of", "a", "in", "it", "for", "i", "that", "your", "have", "not"}
)
_WORD: Final = re.compile(r"[^\W\d_]+")


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on the surface of one conversation. Lengths in characters, of the assistant's text."""

    assistant_chars: int
    last_answer_chars: int
    turns: int
    headers: int
    lists: int
    code: int
    hedges: int
    apologies: int
    links: int
    emoji: int
    not_english: int
    tool_failures: int
    status_not_completed: int


class Shortcut(msgspec.Struct, frozen=True, kw_only=True):
    """How far one feature alone agrees with the labels, of `n`; `rule` says how it would be used."""

    feature: str
    agreement: float
    n: int
    rule: str
    majority: float

    @property
    def tells(self) -> bool:
        """Whether the feature alone says clearly more than the commonest label does."""
        return self.agreement >= self.majority + ABOVE_MAJORITY

    def nears(self, judge_agreement: float | None) -> bool:
        """Whether a judge of that agreement does hardly better than this feature, which tells something."""
        return (
            judge_agreement is not None
            and self.agreement > self.majority
            and self.agreement >= judge_agreement - NEAR_JUDGE
        )


def features(conversation: Conversation) -> Features:
    said = [
        "\n".join(part.text for part in entry.parts if isinstance(part, Text))
        for entry in conversation.entries
        if isinstance(entry, Message) and entry.role == "assistant"
    ]
    text = "\n".join(said)
    spoken = [one for one in said if one.strip()]
    words = _WORD.findall(text.casefold())
    common = sum(word in _COMMON_ENGLISH for word in words)
    return Features(
        assistant_chars=len(text),
        last_answer_chars=len(spoken[-1]) if spoken else 0,
        turns=sum(isinstance(entry, Message) and entry.role != "system" for entry in conversation.entries),
        not_english=int(len(words) >= 5 and common / len(words) < 0.05),
        tool_failures=sum(
            isinstance(entry, ToolResult) and entry.status == "error" for entry in conversation.entries
        ),
        status_not_completed=int(conversation.status != "completed"),
        **{name: len(pattern.findall(text)) for name, pattern in _PATTERNS.items()},
    )


def shortcuts(rows: Sequence[tuple[str, Features]]) -> tuple[Shortcut, ...]:
    """The features by what they reach on (label, features) of labelled rows, best first."""
    if not rows:
        return ()
    labels = Counter(label for label, _ in rows)
    majority = max(labels.values()) / len(rows)
    found = []
    for name in Features.__struct_fields__:
        agreed, rule = _best_cut([(getattr(given, name), label) for label, given in rows], name)
        found.append(
            Shortcut(feature=name, agreement=agreed / len(rows), n=len(rows), rule=rule, majority=majority)
        )
    return tuple(sorted(found, key=lambda one: (-one.agreement, one.feature)))


def _best_cut(values: Iterable[tuple[int, str]], name: str) -> tuple[int, str]:
    """How many rows one cut gets right, each side given its commonest label; and the cut in words."""
    ordered = sorted(values)
    below: Counter[str] = Counter()
    above = Counter(label for _, label in ordered)
    best, rule = max(above.values()), f"always {_commonest(above)}"
    for at, (value, label) in enumerate(ordered):
        below[label] += 1
        above[label] -= 1
        if at + 1 == len(ordered) or ordered[at + 1][0] == value:
            continue
        agreed = max(below.values()) + max(above.values())
        if agreed > best:
            best = agreed
            rule = f"{name} > {value}: {_commonest(above)}, else {_commonest(below)}"
    return best, rule


def _commonest(counts: Counter[str]) -> str:
    return min(counts, key=lambda word: (-counts[word], word))

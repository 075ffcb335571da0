"""What can be said about anchors without a model: do they say what is there, and could a command count it?

Advice only. An anchor such as "excellent, very professional" leaves the score to taste; one such as "at least
three sources, each with a link" two people would read alike, and a code check can hold part of it.
"""

import re
from collections.abc import Sequence
from typing import Final

from sandbox_judge.rubric.criteria import Criterion, Doubt

_FEELING_WORDS: Final = """
    excellent outstanding exceptional superb great good very quite fairly really truly nice fine ok okay
    decent acceptable adequate average fair mediocre satisfactory poor bad weak terrible awful horrible strong
    high low quality professional polished impressive amazing perfect beautiful elegant engaging compelling
    world class best worst better worse top notch solid reasonable sufficient insufficient unsatisfactory
    unacceptable perfectly highly extremely mostly somewhat clear unclear clearly useful useless helpful
    unhelpful interesting boring delightful pleasing overall well done work job output result looks feels
    reads exceeds meets below expectations expectation standard standards
"""
_SMALL_WORDS: Final = """
    a an the and or but of in on to is are was be it its this that for with as not no at by so too all
    both
"""
_FEELING: Final = frozenset(_FEELING_WORDS.split())
_SMALL: Final = frozenset(_SMALL_WORDS.split())
_COUNTED: Final = re.compile(
    r"(?:≥|≤|>=|<=|<|>|\bat least\b|\bat most\b|\bexactly\b|\bno more than\b|\bfewer than\b|\bunder\b"
    r"|\bover\b|\bup to\b|\bbetween\b)\s{0,2}\d"
    r"|\b\d{1,6}(?:\s?[–-]\s?\d{1,6})?\s(?:words?|characters?|pages?|rows?|columns?|files?|items?|sections?|"
    r"bytes|lines?|links?|slides?|bullets?|sentences?|paragraphs?|images?|seconds?|recs?|recommendations?)\b"
    r"|\bvalid (?:json|yaml|xml|csv|html)\b|\bfile exists\b|\bnon-?empty\b|\bparses\b|\bschema\b"
    r"|\bno placeholder",
    re.IGNORECASE,
)


def anchor_doubts(criteria: Sequence[Criterion]) -> list[Doubt]:
    """One piece of advice a kind and criterion, at the criterion's line."""
    doubts = []
    for criterion in criteria:
        felt = [level for level, text in criterion.anchors.items() if _only_feels(text)]
        if felt:
            which = " and ".join(map(str, felt))
            message = (
                f"{criterion.name}: the anchor for {which} says how good it feels; say what is there, so "
                "that two people would score alike"
            )
            doubts.append(_advice("anchor_feels", message, criterion.line))
        counted = next((m for text in criterion.anchors.values() if (m := _COUNTED.search(text))), None)
        if counted is not None:
            message = (
                f"{criterion.name}: a command can count “{counted.group().strip()}…”; consider a code check "
                "beside it"
            )
            doubts.append(_advice("anchor_countable", message, criterion.line))
    return doubts


def _only_feels(text: str) -> bool:
    words = re.findall(r"[^\W\d_]+", text.lower())
    told = [word for word in words if word not in _SMALL]
    return bool(told) and all(word in _FEELING for word in told) and not re.search(r"\d", text)


def _advice(code: str, message: str, line: int) -> Doubt:
    return Doubt(code=code, message=message, severity="advice", line=line)

"""Reads an answer out of a model's reply, or says why there is none (design, section 7, "Reading a reply").

Pure, and never raises whatever the text is. There is no default answer: what is not literally there, in a
complete top-level JSON object of the reply, is a null.
"""

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sandbox_judge.caps import cut
from sandbox_judge.grading.instruments import Answer, AnswerSet
from sandbox_judge.grading.json_objects import Found, canonical, top_level_objects
from sandbox_judge.grading.planted import PlantedObjects
from sandbox_judge.grading.thoughts import BLANK, Span, outside_thoughts
from sandbox_judge.lanes.base import Reply
from sandbox_judge.nulls import Invalid

# A judge may ask for 131,072 tokens at most; what is longer than those can be is no judgement.
MAX_CHARS: Final = 1_000_000
# Objects with an answer, unlike one another; beyond these nobody can say which was meant.
MAX_ANSWERS: Final = 64

_FENCE: Final = re.compile(r"(?:`{3,}|~{3,})[ \t]{0,9}[\w+.-]{0,20}")
# What a refusal in plain words starts with. Narrow on purpose: "I cannot find a refund" is a judge at work.
_REFUSAL: Final = re.compile(
    r"(?:(?:(?:i|we)(?: am| are|[’']m|[’']re))?\s{0,3}(?:so |very |really )?(?:sorry|afraid|apologi[sz]e)"
    r"[^a-z]{1,3}(?:but |that )?|unfortunately,? )?"
    r"(?:i|we) (?:can[’']?t|cannot|can not|won[’']?t|will not|am unable to|am not able to|must decline to) "
    r"(?:help|assist|comply|fulfil|continue|engage|respond|participate|do (?:this|that)\b"
    r"|(?:complete|process|answer|grade|judge|evaluate|assess|review|provide|support|discuss)"
    r" (?:this|that|your)\b)",
    re.IGNORECASE,
)
_REFUSAL_CHARS: Final = 2_000

_CUT_OFF: Final = Invalid(type="output_truncated", message="the token limit cut the reply off")


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """A quote as the model gave it. `entry` is the view's entry number, None where it gave none."""

    quote: str
    entry: int | None = None


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is literally in the reply, with the reasoning and quotes of the same object."""

    answer: Answer
    reasoning: str
    evidence: tuple[Quote, ...] = ()


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, and the object that it was read from: a sheet of several answers is read on."""

    read: Read
    value: Mapping[str, Any]


def read_reply(reply: Reply, *, instrument: AnswerSet, view_text: str) -> Read | Invalid:
    """The reply's answer. `view_text` is what the model saw: an object that stands there was planted."""
    answered = read_answer(reply, instrument=instrument, view_text=view_text)
    return answered if isinstance(answered, Invalid) else answered.read


def read_answer(reply: Reply, *, instrument: AnswerSet, view_text: str) -> Answered | Invalid:
    """As `read_reply`, with the object that holds the answer."""
    if reply.finish == "content_filter":
        return Invalid(type="refused", message="the provider's content filter stopped the reply")
    if reply.refusal is not None and reply.refusal.strip(BLANK):
        return Invalid(type="refused", message="the model refused to answer")
    text = (reply.text or "").strip(BLANK)
    if len(text) > MAX_CHARS:
        return Invalid(type="malformed_output", message=f"a reply of {len(text)} characters is no judgement")
    found, rest = _objects(text)
    if not found and not rest:
        return _nothing(reply)
    whole = len(found) == 1 and not rest
    if reply.finish == "length":
        # Only an object that the reply ends with is known to be the answer: more could have followed.
        found = [last for last in found[-1:] if _ends(text, last)]
        if not found:
            return _CUT_OFF
    if not found and len(rest) <= _REFUSAL_CHARS and _REFUSAL.match(rest):
        return Invalid(type="refused", message="the model refused to answer")
    planted = None if whole else PlantedObjects(view_text, key=instrument.key)
    return _agreed(found, instrument, planted)


def _objects(text: str) -> tuple[list[Found], str]:
    """The top-level objects that are no thinking, and what else there is besides fences and blanks."""
    found, spans = list(top_level_objects(text)), [(0, len(text))]
    rest = _rest(text, found, spans)
    if len(found) == 1 and not rest:
        return found, rest
    spans = outside_thoughts(text, [(one.start, one.end) for one in found])
    if spans == [(0, len(text))]:
        return found, rest
    # Read anew: a stray brace or quote of the thinking may have hidden what follows it.
    found = [one for begins, ends in spans for one in top_level_objects(text, begins, ends)]
    return found, _rest(text, found, spans)


def _rest(text: str, found: list[Found], spans: list[Span]) -> str:
    pieces, objects = [], deque(found)
    for begins, ends in spans:
        while objects and objects[0].start < ends:
            one = objects.popleft()
            pieces.append(text[begins : one.start])
            begins = one.end
        pieces.append(text[begins:ends])
    return _FENCE.sub("", "\n".join(pieces)).strip(BLANK)


def _ends(text: str, last: Found) -> bool:
    behind = text[last.end :].strip(BLANK)
    return not behind or (len(behind) >= 3 and set(behind) in ({"`"}, {"~"}))


def _nothing(reply: Reply) -> Invalid:
    if reply.finish == "length":
        return _CUT_OFF
    if reply.tool_calls:
        return Invalid(type="empty_output", message="the reply holds tool calls and no text")
    if reply.reasoning or (reply.text or "").strip(BLANK):
        return Invalid(
            type="empty_output", message="the reply holds thinking or an empty fence, and no answer"
        )
    return Invalid(type="empty_output", message="the reply is empty")


def _agreed(found: list[Found], instrument: AnswerSet, planted: PlantedObjects | None) -> Answered | Invalid:
    """The one answer of all objects that count, or why there is none."""
    key = instrument.key
    answers: dict[Answer, Answered] = {}
    other: Invalid | None = None
    seen: set[str] = set()
    for one in found:
        if key not in one.value or ((same := canonical(one.value)) in seen and not one.repeated):
            continue
        seen.add(same)
        if len(seen) > MAX_ANSWERS:
            return Invalid(type="ambiguous_output", message=f"more than {MAX_ANSWERS} objects hold a {key}")
        if planted is not None and planted.holds(one.value):
            continue
        if one.repeated:
            return Invalid(type="ambiguous_output", message="an object repeats a key with different values")
        read = read_object(one.value, instrument=instrument)
        if isinstance(read, Read):
            answers[read.answer] = Answered(read=read, value=one.value)
        elif read.type == "out_of_vocabulary":
            other = read
    if len(answers) > 1:
        stated = ", ".join(str(answer) for answer in answers)
        return Invalid(type="ambiguous_output", message=f"the reply answers more than one way: {stated}")
    for answered in answers.values():
        return answered
    return other or _no_object(key)


def read_object(value: Mapping[str, Any], *, instrument: AnswerSet) -> Read | Invalid:
    """The answer of one object of a reply. What else the reply holds is the caller's business."""
    key = instrument.key
    if key not in value:
        return _no_object(key)
    answer = instrument.read(value[key])
    if answer is None:
        return Invalid(
            type="out_of_vocabulary",
            message=f"{key} must be {instrument.wanted()}, the reply has {cut(canonical(value[key]), 60)}",
        )
    reasoning = value.get("reasoning")
    if not isinstance(reasoning, str) or not reasoning.strip(BLANK):
        return _no_object(key)
    return Read(answer=answer, reasoning=reasoning, evidence=_quotes(value))


def _no_object(key: str) -> Invalid:
    return Invalid(
        type="malformed_output",
        message=f'no complete JSON object with "reasoning" and "{key}" stands in the reply',
    )


def _quotes(value: Mapping[str, Any]) -> tuple[Quote, ...]:
    """The quotes that have the asked shape; a judge's slip in one costs that one, not the verdict."""
    evidence = value.get("evidence")
    quotes = []
    for item in evidence if isinstance(evidence, list) else ():
        quote = item.get("quote") if isinstance(item, dict) else None
        if isinstance(quote, str) and quote.strip(BLANK):
            entry = item.get("entry")
            known = isinstance(entry, int) and not isinstance(entry, bool) and 0 < entry < 10**9
            quotes.append(Quote(quote=quote, entry=entry if known else None))
    return tuple(quotes)

"""Pairs: two answers to one request, shown both ways round. Only a preference that survives both is one.

An instrument of its own (first, second, tie); the hook never asks this.
"""

from typing import Final

from sandbox_judge.calibration.trials import Grader, Trial
from sandbox_judge.canonical import sha256
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.grading.instruments import Instrument, categories
from sandbox_judge.grading.view import View, build_view

PREFERENCE: Final[Instrument] = categories(("first", "second", "tie"))
SWAPPED: Final = {"first": "second", "second": "first", "tie": "tie"}
_QUESTION: Final = """\
The transcript shows two candidate conversations with the same request, FIRST CANDIDATE and SECOND \
CANDIDATE. Say which of the two better satisfies what the following instructions ask for: "first", "second", \
or "tie" where neither is better. The order in which they stand means nothing.

"""


def pair_view(first: Conversation, second: Conversation, *, allowance: int) -> View:
    """Both views in one, under lines that no content can write: each of its lines begins with a mark."""
    one, other = (build_view(each, allowance=allowance // 2) for each in (first, second))
    text = f"Two candidates.\nFIRST CANDIDATE\n{one.text}\nSECOND CANDIDATE\n{other.text}"
    return View(
        text=text,
        entries=one.entries + other.entries,
        left_out_chars=one.left_out_chars + other.left_out_chars,
        sequence_hash=sha256(text.encode()),
        overflow=one.overflow or other.overflow,
    )


async def both_ways(
    grader: Grader, first: Conversation, second: Conversation
) -> tuple[Trial, Trial, View, View]:
    """The pair as it stands, and swapped; the second trial's answer is in the words of the second order."""
    there = pair_view(first, second, allowance=grader.allowance)
    back = pair_view(second, first, allowance=grader.allowance)
    question = _QUESTION + grader.judge.instructions
    trials = [
        await grader.trial(first, view=view, instructions=question, instrument=PREFERENCE)
        for view in (there, back)
    ]
    return trials[0], trials[1], there, back

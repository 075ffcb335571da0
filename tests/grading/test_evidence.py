"""Quotes are looked up in the view, whose layout does not count against them."""

import pytest

from sandbox_judge.caps import QUOTE_CHARS, QUOTES, cut
from sandbox_judge.conversation.model import SCHEMA, Conversation, Message, Text
from sandbox_judge.grading.evidence import Evidence, verified
from sandbox_judge.grading.reply import Quote
from sandbox_judge.grading.view import build_view

TALK = Conversation(
    schema=SCHEMA,
    source_format="canonical",
    status="completed",
    warnings=(),
    entries=(
        Message(n=1, role="user", parts=(Text(text="Please refund\n  my order\r\n\tnumber 17 | today"),)),
        Message(n=2, role="assistant", parts=(Text(text="I cannot do that."),)),
    ),
)
VIEW = build_view(TALK).text


def found(text: str, view: str = VIEW) -> bool:
    return verified([Quote(quote=text)], view_text=view)[0].verified


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("I cannot do that.", True),
        ("i CANNOT  do\nthat.", True),
        ("refund my order number 17", True),
        ("refund\n  my order\n\tnumber 17", True),
        ("refund\n| my order", True),
        ("17 | today", True),
        ("I can do that.", False),
        ("refund order", False),
        ("", False),
        ("  ", False),
        ("x" * 10_000, False),
    ],
)
def test_quotes(quote: str, expected: bool) -> None:
    assert found(quote) is expected


def test_a_quote_keeps_its_entry_and_its_words() -> None:
    assert verified([Quote(quote="i cannot", entry=2), Quote(quote="so")], view_text=VIEW) == (
        Evidence(quote="i cannot", entry=2, verified=True),
        Evidence(quote="so", verified=False),
    )


@pytest.mark.parametrize(
    ("entry", "quote", "expected"),
    [
        (1, "refund my order", True),
        (2, "refund my order", False),
        (2, "I cannot do that.", True),
        (1, "I cannot do that.", False),
        (3, "I cannot do that.", False),
        (0, "status completed", False),
        (None, "status completed", True),
        (-1, "refund", False),
    ],
)
def test_a_quote_stands_in_the_entry_that_it_names(entry: int | None, quote: str, expected: bool) -> None:
    (evidence,) = verified([Quote(quote=quote, entry=entry)], view_text=VIEW)
    assert evidence.verified is expected


def test_a_text_without_entries_is_looked_through_whole() -> None:
    (evidence,) = verified([Quote(quote="plain", entry=4)], view_text="some plain text")
    assert evidence.verified


def test_caps_are_visible_and_looked_up_whole() -> None:
    long = "word " * 400
    quotes = [Quote(quote=long, entry=1)] * (QUOTES + 3)
    evidence = verified(quotes, view_text=f"[1] message user: {long}")
    assert len(evidence) == QUOTES
    assert evidence[0].verified
    assert len(evidence[0].quote) <= QUOTE_CHARS and evidence[0].quote.endswith("characters cut]")


@pytest.mark.parametrize("length", [499, 500, 501, 510, 999, 1_000, 1_500, 100_000])
def test_a_cut_tells_how_much_is_gone(length: int) -> None:
    text = cut("a" * length, 500)
    assert len(text) <= 500
    if length <= 500:
        assert text == "a" * length
    else:
        kept, _, told = text.partition(" … [")
        assert len(kept) + int(told.split()[0]) == length

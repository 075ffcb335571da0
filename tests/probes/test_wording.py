"""Changes of manner leave facts alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.probes import wording

CASES = [
    (wording.trimmed, "Great question! It costs 89.50 EUR. I hope this helps!", "It costs 89.50 EUR."),
    (wording.trimmed, "Let me know by 5 May.", "Let me know by 5 May."),
    (wording.trimmed, "It is on its way by now. It is on its way by now.", "It is on its way by now."),
    (wording.without_header, "## Done\n\nIt is sent.", "It is sent."),
    (wording.without_header, "✅ Status: complete\nIt is sent.", "It is sent."),
    (wording.with_markdown, "It costs 89.50 EUR. See x.test.", "- It costs 89.50 EUR.\n- See x.test."),
    (wording.without_markdown, "# A\n- **b** c\n* d", "A\nb c\nd"),
    (wording.unhedged, "I think we can. Perhaps it is late.", "We can. It is late."),
    (wording.unpolite, "Thank you for your message. It is sent. Have a good day!", "It is sent."),
    (wording.formal, "It’s late and I can't. Don't ask.", "It is late and I cannot. Do not ask."),
    (wording.casual, "It is late. Do not ask.", "It's late. Don't ask."),
    (wording.without_typos, "Teh parcel, recieved.", "The parcel, received."),
    (wording.with_typos, "parcel AB-1234x Lisbon", "pacrel AB-1234x Lisbon"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "before", "after"), CASES)
def test_changes(change, before, after):
    assert change(before) == after


ADDING = (wording.padded, wording.with_header, wording.with_markdown, wording.hedged, wording.polite)
EVERY = (
    *ADDING, wording.trimmed, wording.without_header, wording.without_markdown, wording.unhedged,
    wording.unpolite, wording.formal, wording.casual, wording.with_typos, wording.without_typos,
)  # fmt: skip


@given(st.text(max_size=200), st.sampled_from(EVERY))
def test_no_text_breaks_a_change(text, change):
    assert isinstance(wording.outside_code(change)(text), str)


@given(st.lists(st.integers(0, 10**6), max_size=8), st.sampled_from(ADDING))
def test_numbers_stay(numbers, change):
    text = "It costs " + ". ".join(f"{n}.25 EUR" for n in numbers) + "."
    assert re.findall(r"\d+\.\d+", change(text)) == re.findall(r"\d+\.\d+", text)


def test_code_is_left_alone():
    text = "Perhaps run\n```\nI think perhaps\n```\nPerhaps not."
    assert wording.outside_code(wording.unhedged)(text) == "Run\n```\nI think perhaps\n```\nNot."


def test_what_was_added_can_be_taken_away():
    text = "It is sent. It will be with you soon."
    assert wording.trimmed(wording.padded(text)) == text
    assert wording.without_header(wording.with_header(text)) == text
    assert wording.unhedged(wording.hedged(text)) == text
    assert wording.unpolite(wording.polite(text)) == text


@pytest.mark.parametrize("change", EVERY)
def test_long_hostile_texts_take_no_time(change):
    import time

    for text in ("a" * 50_000, "i think " * 6_000, "**" * 20_000, "Thank you for " * 4_000, "- " * 20_000):
        began = time.perf_counter()
        wording.outside_code(change)(text)
        assert time.perf_counter() - began < 2

"""Flips, their interval and test, and what a person sees of a change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.probes.count import Count, Moved, difference


def moved(id="a"):
    return Moved(id=id, before="pass", after="fail", expected="pass", changed="x", diff=())


def test_flips_are_stated_with_interval_and_test():
    count = Count("length", "padded")
    for _ in range(5):
        count.same("x")
    for number in range(5):
        count.flip(moved(f"r{4 - number}"), to_pass=False, from_pass=True)
    found = count.as_json()
    assert (found["n"], found["flips"], found["share"]) == (10, 5, 0.5)
    assert found["interval"] == pytest.approx([0.2366, 0.7634], abs=1e-4)
    assert found["mcnemar_p"] == pytest.approx(0.0625)
    assert [one["id"] for one in found["moved"]] == ["r0", "r1", "r2", "r3", "r4"]


def test_nothing_is_stated_of_nothing_or_of_too_few():
    assert Count("a", "b").as_json()["undefined"] == "no row has a verdict both ways"
    few = Count("familiarity", "b", least=20)
    for _ in range(19):
        few.same("x")
    found = few.as_json()
    assert found["share"] is None and found["mcnemar_p"] is None and "19 rows are left" in found["undefined"]
    few.same("x")
    assert few.as_json()["share"] == 0.0


def test_a_long_line_is_shown_from_where_it_differs():
    before = "[1] " + "same words " * 100
    diff = difference(before, before + "and the new end")
    assert any(line.startswith("+…") and line.endswith("and the new end") for line in diff)


@given(st.text(max_size=400), st.text(max_size=400))
def test_any_two_texts_have_a_bounded_difference(one, other):
    diff = difference(one * 3, other)
    assert len(diff) <= 41 and all(len(line) <= 303 for line in diff)

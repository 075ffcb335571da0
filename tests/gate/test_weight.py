import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.gate.weight import UNKNOWN, weight_of


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        ("[ab]*a[ab]{900}z", 900),
        ("(a{30}){30}", 900),
        ("(?:(?:a{10}){10}){10}", 1000),
        ("(a|b|[c-f]){100,}", 300),
        (r"\w{100}", 300),
        (r"(\(){50}", 50),
        ("[]a]{40}", 40),
        (r"[\]]{40}", 40),
        ("[^]a]{40}", 40),
        ("[[a]b]{40}", 40),
        ("a{2}{3}{4}", 24),
        ("(?P<n>ab){40}", 80),
        ("(?i:ab){40}", 80),
        ("(?x)#[\na{900}", 900),
        ("字{50}", 50),
        ("(?x)(a{30 # times\n}){30}", 900),
    ],
)
def test_counts_are_multiplied_out(pattern: str, least: float) -> None:
    assert weight_of(pattern, "") >= least


def test_plain_alternations_cost_next_to_nothing() -> None:
    assert weight_of("refund|invoice|charge back", "i") < 1
    assert weight_of("a" * 100_000, "") > 1


def test_ordinary_patterns_stay_light() -> None:
    assert weight_of(r"\b(cancel(led|lation)?|refund(ed)?)\b", "i") < 100


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from(list("ab(){}[]\\^|?*+,0123456789:<>Px-i.p& #")), max_size=40))
def test_any_text_has_a_weight(pattern: str) -> None:
    assert 0 < weight_of(pattern, "i") <= UNKNOWN

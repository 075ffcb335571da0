"""Sampling: the worked rule, that it repeats, and that a lower rate selects a subset."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.sampling import is_sampled, selected

RATES = st.floats(0, 1)
IDS = st.text(max_size=20)


def fraction(key: str, judge_id: str, conversation_id: str) -> float:
    digest = hmac.new(key.encode(), f"{judge_id}\n{conversation_id}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def test_the_rule_by_hand() -> None:
    number = fraction("k", "j-1", "c-1")
    ids = {"judge_id": "j-1", "conversation_id": "c-1", "sampling_key": "k"}
    assert number == pytest.approx(0.5007110197)
    assert selected(rate=number + 1e-9, **ids)
    assert not selected(rate=number - 1e-9, **ids)


@given(judge=IDS, conversation=IDS, key=IDS)
def test_the_ends(judge: str, conversation: str, key: str) -> None:
    ids = {"judge_id": judge, "conversation_id": conversation, "sampling_key": key}
    assert selected(rate=1.0, **ids)
    assert not selected(rate=0.0, **ids)


@given(judge=IDS, conversation=IDS, key=IDS, one=RATES, other=RATES)
def test_a_lower_rate_selects_a_subset(
    judge: str, conversation: str, key: str, one: float, other: float
) -> None:
    ids = {"judge_id": judge, "conversation_id": conversation, "sampling_key": key}
    low, high = sorted((one, other))
    assert selected(rate=low, **ids) == selected(rate=low, **ids)
    assert selected(rate=high, **ids) or not selected(rate=low, **ids)


def test_about_as_many_as_the_rate_says() -> None:
    chosen = sum(
        selected(judge_id="j", conversation_id=f"c{n}", rate=0.25, sampling_key="k") for n in range(4_000)
    )
    assert 880 <= chosen <= 1_120


def test_judges_are_sampled_apart() -> None:
    def sample(judge: str) -> set[int]:
        return {
            n
            for n in range(400)
            if selected(judge_id=judge, conversation_id=f"c{n}", rate=0.5, sampling_key="k")
        }

    assert 60 < len(sample("a") & sample("b")) < 140


def test_ids_that_are_no_unicode_are_no_crash() -> None:
    assert isinstance(selected(judge_id="\ud800", conversation_id="c", rate=0.5, sampling_key="\udfff"), bool)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [("production", True), ("staging", False), ("development", False), (None, False)],
)
def test_only_production_is_sampled(environment: str | None, expected: bool) -> None:
    assert is_sampled(environment=environment) is expected

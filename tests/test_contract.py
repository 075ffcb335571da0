"""The contract's digest: it moves only on purpose."""

from sandbox_judge.contract import CONTRACT_VERSION
from sandbox_judge.contract_digest import contract_digest, contract_record

PINNED = ("1", "sha256:d7589032b0d1958ad7edbee47c5c5f817e6469fab5917c04f77ce51f10093e14")


def test_the_contract_has_not_moved() -> None:
    now = (CONTRACT_VERSION, contract_digest())
    assert now == PINNED, (
        "View, prompt or reply reader changed: judgements before and after are not comparable. If that is "
        "meant, pin what `python -m sandbox_judge.contract_digest` prints here and say so in CHANGELOG; "
        "after the first tagged release raise CONTRACT_VERSION too."
    )


def test_the_digest_sees_what_it_is_for() -> None:
    """A digest over conversations that show nothing would pin nothing."""
    record = contract_record()
    readings = [reading if isinstance(reading, str) else reading[0] for reading in record["readings"]]
    assert {"pass", "fail", "not_applicable"} <= set(readings)
    assert {
        "ambiguous_output",
        "out_of_vocabulary",
        "malformed_output",
        "output_truncated",
        "refused",
        "empty_output",
    } <= set(readings)
    texts = [view["text"] for view in record["views"]]
    whole = "\n".join(texts)
    for sign in (
        "tool_call",
        "tool_result of",
        "feedback",
        "reasoning left out",
        "[image",
        "[refusal]",
        "\n| ",
    ):
        assert sign in whole
    assert any(view["left_out_chars"] for view in record["views"])
    assert len(set(texts)) > len(texts) // 2


def test_the_digest_repeats() -> None:
    assert contract_digest() == contract_digest()

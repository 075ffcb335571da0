import pytest

from sandbox_judge.gate.language import RegexLiteral
from sandbox_judge.gate.probe import probe_cost


@pytest.mark.parametrize("pattern", ["[ab]*a[ab]{900}z", r"\w{150}[!?]"])
def test_slow_patterns_are_told(pattern: str) -> None:
    told = probe_cost(RegexLiteral(pattern))
    assert told is not None and "gate_timeout" in told


@pytest.mark.parametrize(
    "pattern",
    ["refund|invoice", "(a+)+$", r"(.*)(.*)(.*)z", r"\b(please )?(cancel|stop) my (plan|account)\b", ""],
)
def test_ordinary_patterns_are_not(pattern: str) -> None:
    assert probe_cost(RegexLiteral(pattern, "i")) is None

"""Events, and sinks that do as they are told."""

import json
from collections.abc import Callable

import pytest

from sandbox_judge.sinks.base import Line


@pytest.fixture
def event() -> Callable[..., Line]:
    """`event(7)` is a line with the id "7"; `size` is its length in bytes, about."""

    def make(number: int, *, size: int = 0) -> Line:
        data = {"id": str(number), "payload": {"reasoning": "r" * size}}
        return Line(str(number), json.dumps(data, separators=(",", ":")).encode())

    return make

"""What the lanes' tests share: one way to make a call."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from lane_calls import KEY, a_call

from sandbox_judge.lanes.base import Endpoint, ModelFailure, Reply
from sandbox_judge.lanes.http import HttpClient
from sandbox_judge.lanes.memory import Memory
from sandbox_judge.lanes.openai_wire import OpenAiWire


@pytest.fixture
def ask() -> Callable[..., Any]:
    """`await ask(base_url, …)`: the reply or the failure of one call on the wire lane."""

    async def asked(
        base_url: str,
        *,
        budget: float = 5.0,
        environ: dict[str, str] | None = None,
        memory: Memory | None = None,
        **parts: Any,
    ) -> Reply | ModelFailure:
        lane = OpenAiWire(HttpClient(environ or {}), memory=memory)
        call = a_call(endpoint=Endpoint(base_url=base_url, api_key=KEY), **parts)
        try:
            return await lane.complete(call, deadline=anyio.current_time() + budget)
        except ModelFailure as failure:
            return failure
        finally:
            await lane.aclose()

    return asked

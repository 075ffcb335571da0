"""The lane for OpenAI's chat format: one POST, no provider library (design, section 12)."""

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import canonical_json
from sandbox_judge.lanes.address import HttpFailure
from sandbox_judge.lanes.base import Call, LaneName, ModelFailure, Reply, Wire
from sandbox_judge.lanes.failures import of_status, of_trouble, upstream
from sandbox_judge.lanes.http import HttpClient, Response
from sandbox_judge.lanes.memory import Memory, NoMemory
from sandbox_judge.lanes.negotiation import MAX_REQUESTS, Plan, Refusal, plan, refusal_in
from sandbox_judge.lanes.openai_reply import read_reply

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"


class OpenAiWire:
    """`client` is the lane's own from now on: `aclose` closes it."""

    lane: LaneName = "openai_wire"

    def __init__(
        self,
        client: HttpClient,
        *,
        memory: Memory | None = None,
        wall_clock: Callable[[], float] = time.time,
        lane: LaneName = "openai_wire",
    ) -> None:
        self._client = client
        self._memory = memory or NoMemory()
        self._wall_clock = wall_clock
        self.lane = lane

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        """See `ChatModel.complete`. A parameter that the model refuses is left out and the call repeated, at
        most `MAX_REQUESTS` in all, each within the same deadline."""
        known = self._memory.known(call)
        refused: set[Refusal] = set(known)
        requests = 0
        while True:
            tried = plan(call, refused)
            wire = Wire(
                lane=self.lane,
                output_mode=tried.output_mode,
                sent=tried.sent,
                dropped=tried.dropped,
                requests=requests + 1,
            )
            try:
                response = await self._post(call, tried, deadline)
            except HttpFailure as trouble:
                raise _with_wire(of_trouble(trouble), wire) from trouble
            requests += response.requests
            wire = msgspec.structs.replace(wire, requests=requests)
            if 200 <= response.status < 300:
                self._memory.learn(call, frozenset(refused - known))
                return self._read(call, response, wire)
            said = upstream(response.body)
            failure = of_status(
                response.status,
                said,
                headers=response.headers,
                secrets=(call.endpoint.api_key,),
                now=self._wall_clock(),
            )
            refusal = refusal_in(said, tried) if failure.type == "bad_request" else None
            if refusal is None or refusal in refused or requests >= MAX_REQUESTS:
                raise _with_wire(failure, wire)
            refused.add(refusal)

    async def warm(self, base_url: str | None, *, count: int, deadline: float) -> None:
        """Opens connections ahead of the first call, TLS done; what fails is told by the call itself."""
        await self._client.warm(base_url or DEFAULT_BASE_URL, count=count, deadline=deadline)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _post(self, call: Call, tried: Plan, deadline: float) -> Response:
        body: dict[str, Any] = {"model": call.model, "messages": call.messages, **tried.parameters}
        if call.tools:
            body["tools"] = call.tools
        headers = {"Content-Type": "application/json", "User-Agent": "sandbox-judge"}
        if call.endpoint.api_key:
            headers["Authorization"] = f"Bearer {call.endpoint.api_key.strip()}"
        base = (call.endpoint.base_url or DEFAULT_BASE_URL).rstrip("/")
        return await self._client.post(
            f"{base}/chat/completions", headers=headers, content=encoded(body), deadline=deadline
        )

    def _read(self, call: Call, response: Response, wire: Wire) -> Reply:
        try:
            return read_reply(response.body, wire, secrets=(call.endpoint.api_key,), now=self._wall_clock())
        except ModelFailure as failure:
            raise _with_wire(failure, wire) from failure.__cause__


def encoded(body: Any) -> bytes:
    """JSON for the wire; lone surrogates, which UTF-8 cannot hold, replaced."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return canonical_json(body)


def _with_wire(failure: ModelFailure, wire: Wire) -> ModelFailure:
    return ModelFailure(
        failure.type,
        failure.message,
        retry_after_s=failure.retry_after_s,
        retryable=failure.retryable,
        wire=wire,
    )

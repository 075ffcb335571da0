"""One judge grades one view through one lane, within a deadline (design, sections 7 and 9).

Expected outcomes are values. What is retried, and when:
- A call gets its transport timeout or what is left of the deadline, whichever is less.
- A failure that may pass (`Invalid.may_pass_on_retry`) is retried up to `max_retries` times, after the wait
  that the server asked for (Retry-After), else after an exponential backoff capped by `max_retry_delay_ms`.
- An attempt, a repair too, is made only if a useful one still fits behind the wait: what is left then must
  be at least the time that the last attempt took, at least half a second, but never more than a whole
  transport timeout. If it does not fit, the failure stands at once, without waiting.
- A reply that cannot be read is repaired at most once, whatever `max_retries` is. If the repair brings no
  answer either, the fault of the last reply stands; if it brings no reply, that of the first.

A cancelled call ends as soon as its lane lets go. anyio leaves no task behind, so that whoever must stop
whatever a lane does (`run.py`) takes the null from the judge's `Progress` instead of waiting.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.budget import LEAST_USEFUL_CALL_S
from sandbox_judge.grading.evidence import Evidence, verified
from sandbox_judge.grading.instruments import VERDICT, Answer, AnswerSet, Instrument
from sandbox_judge.grading.prompt import build_messages, repair_messages
from sandbox_judge.grading.reply import Answered, read_answer
from sandbox_judge.grading.view import View
from sandbox_judge.lanes.base import Call, ChatModel, Endpoint, ModelFailure, Reply, Usage, Wire
from sandbox_judge.nulls import ErrorType, Invalid
from sandbox_judge.recipe.judge import Llm

FIRST_BACKOFF_S: Final = 0.5
LEAST_ATTEMPT_S: Final = 0.5
REPAIRABLE: Final[frozenset[ErrorType]] = frozenset(
    {"malformed_output", "out_of_vocabulary", "ambiguous_output", "empty_output", "output_truncated"}
)


class Graded(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the instrument's set, with the judge's reasons. `quotes` is how many it gave in all;
    `value` the object that the answer was read from."""

    answer: Answer
    reasoning: str
    evidence: tuple[Evidence, ...] = ()
    quotes: int = 0
    value: Mapping[str, Any] = {}


class Grading(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one judge. Times in milliseconds; `started_ms` counts from the run's start.

    `repaired`: a repair request was made. `usage` is the sum over all attempts that told theirs.
    """

    outcome: Graded | Invalid
    attempts: int = 0
    repaired: bool = False
    started_ms: int | None = None
    duration_ms: int | None = None
    wire: Wire | None = None
    response_model: str | None = None
    usage: Usage | None = None


class Progress:
    """How far one judge has come. The caller keeps it, so that a cancelled grading still tells its story."""

    def __init__(self, *, zero: float) -> None:
        """`zero`: when the run began, on anyio's clock, in seconds."""
        self.zero = zero
        self.started: float | None = None
        self.attempts = 0
        self.repaired = False
        self.wire: Wire | None = None
        self.response_model: str | None = None
        self.usage: Usage | None = None

    def ended(self, outcome: Graded | Invalid) -> Grading:
        """The record of this judge, ending now with `outcome`."""
        started, now = self.started, anyio.current_time()
        return Grading(
            outcome=outcome,
            attempts=self.attempts,
            repaired=self.repaired,
            started_ms=None if started is None else max(0, round((started - self.zero) * 1000)),
            duration_ms=None if started is None else max(0, round((now - started) * 1000)),
            wire=self.wire,
            response_model=self.response_model,
            usage=self.usage,
        )

    def _asked(self) -> None:
        self.attempts += 1
        self.started = anyio.current_time() if self.started is None else self.started

    def _replied(self, reply: Reply) -> None:
        self.wire = reply.wire
        self.response_model = reply.response_model or self.response_model
        self.usage = _sum(self.usage, reply.usage)


async def grade(
    *,
    model: ChatModel,
    llm: Llm,
    endpoint: Endpoint,
    view: View,
    instructions: str,
    deadline: float,
    progress: Progress,
    instrument: Instrument = VERDICT,
) -> Grading:
    """Grades `view` by `instructions`. `deadline` is absolute, in seconds on anyio's clock.

    Raises only what is a bug (in a lane, or here); cancellation by the host passes through.
    """
    if view.overflow:
        message = f"the view has {len(view.text)} characters and cannot be shortened to the allowance"
        return progress.ended(Invalid(type="context_overflow", message=message))
    if deadline - anyio.current_time() < LEAST_USEFUL_CALL_S:
        return progress.ended(Invalid(type="budget_exhausted", message="no time was left to start"))
    messages = build_messages(view=view, instructions=instructions, instrument=instrument)
    return await ask(
        model=model,
        llm=llm,
        endpoint=endpoint,
        messages=messages,
        view_text=view.text,
        deadline=deadline,
        progress=progress,
        instrument=instrument,
    )


async def ask(
    *,
    model: ChatModel,
    llm: Llm,
    endpoint: Endpoint,
    messages: tuple[dict[str, Any], ...],
    view_text: str,
    deadline: float,
    progress: Progress,
    instrument: AnswerSet,
) -> Grading:
    """An answer to `messages`, which show `view_text`: the same bounds, reading and evidence for every
    instrument and every prompt. See `grade`."""
    if deadline - anyio.current_time() < LEAST_USEFUL_CALL_S:
        return progress.ended(Invalid(type="budget_exhausted", message="no time was left to start"))
    exchange = _Exchange(model, llm, endpoint, deadline, progress, instrument=instrument)
    return progress.ended(await exchange.answer(messages, view_text))


async def turn(
    *,
    model: ChatModel,
    llm: Llm,
    endpoint: Endpoint,
    messages: tuple[dict[str, Any], ...],
    tools: tuple[Mapping[str, Any], ...],
    deadline: float,
    progress: Progress,
) -> Reply | Invalid:
    """One turn of a judge with tools: the reply as it came, tool calls and all. See `grade`."""
    if deadline - anyio.current_time() < LEAST_USEFUL_CALL_S:
        return Invalid(type="budget_exhausted", message="no time was left for another turn")
    return await _Exchange(model, llm, endpoint, deadline, progress, tools=tools).reply(messages)


class _Exchange:
    """Calls of one judge, with what retries and repairs are allowed."""

    def __init__(
        self,
        model: ChatModel,
        llm: Llm,
        endpoint: Endpoint,
        deadline: float,
        progress: Progress,
        *,
        instrument: AnswerSet | None = None,
        tools: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        self.model = model
        self.llm = llm
        self.endpoint = endpoint
        self.deadline = deadline
        self.progress = progress
        self.instrument = instrument
        self.tools = tools
        self.retries = 0
        self.last_took_s = 0.0

    @property
    def timeout_s(self) -> float:
        return self.llm.transport.timeout_ms / 1000

    async def answer(self, messages: tuple[dict[str, Any], ...], view_text: str) -> Graded | Invalid:
        assert self.instrument is not None, "an answer is of an instrument"
        reply = await self.reply(messages)
        if isinstance(reply, Invalid):
            return reply
        first = _graded(reply, self.instrument, view_text)
        if isinstance(first, Graded) or first.type not in REPAIRABLE or not self._fits(0.0):
            return first
        self.progress.repaired = True
        fault, text = first.message, reply.text
        messages = repair_messages(messages, reply_text=text, fault=fault, instrument=self.instrument)
        repaired = await self.reply(messages)
        return first if isinstance(repaired, Invalid) else _graded(repaired, self.instrument, view_text)

    async def reply(self, messages: tuple[dict[str, Any], ...]) -> Reply | Invalid:
        """A reply to `messages`, with as many retries as are left and fit."""
        while True:
            result = await self._attempt(messages)
            if isinstance(result, Reply):
                return result
            fault = Invalid(type=result.type, message=result.message, retryable=result.retryable)
            wait = self._wait(result.retry_after_s)
            if (
                not fault.may_pass_on_retry
                or self.retries >= self.llm.transport.max_retries
                or not self._fits(wait)
            ):
                return fault
            self.retries += 1
            await anyio.sleep(wait)

    async def _attempt(self, messages: tuple[dict[str, Any], ...]) -> Reply | ModelFailure:
        began = anyio.current_time()
        limit = min(began + self.timeout_s, self.deadline)
        self.progress._asked()
        try:
            with anyio.CancelScope(deadline=limit):
                reply = await self.model.complete(self._call(messages), deadline=limit)
                self.progress._replied(reply)
                return reply
            whose = "the time budget" if limit == self.deadline else "the judge's timeout_ms"
            return ModelFailure("timeout", f"no reply within {limit - began:.1f} s, the end of {whose}")
        except ModelFailure as failure:
            self.progress.wire = failure.wire or self.progress.wire
            return failure
        finally:
            self.last_took_s = anyio.current_time() - began

    def _call(self, messages: tuple[dict[str, Any], ...]) -> Call:
        request = self.llm.request
        return Call(
            provider=self.llm.provider,
            model=self.llm.model,
            endpoint=self.endpoint,
            messages=messages,
            schema=None if self.instrument is None else self.instrument.schema(),
            tools=self.tools,
            temperature=request.temperature,
            temperature_authored=request.temperature_authored,
            max_tokens=request.max_tokens,
            reasoning_effort=request.reasoning_effort,
        )

    def _wait(self, retry_after_s: float | None) -> float:
        if retry_after_s is not None and math.isfinite(retry_after_s) and retry_after_s >= 0:
            return retry_after_s
        return min(FIRST_BACKOFF_S * 2.0**self.retries, self.llm.transport.max_retry_delay_ms / 1000)

    def _fits(self, wait_s: float) -> bool:
        useful = min(max(self.last_took_s, LEAST_ATTEMPT_S), self.timeout_s)
        return anyio.current_time() + wait_s + useful <= self.deadline


def _graded(reply: Reply, instrument: AnswerSet, view_text: str) -> Graded | Invalid:
    answered = read_answer(reply, instrument=instrument, view_text=view_text)
    if not isinstance(answered, Answered):
        return answered
    read = answered.read
    return Graded(
        answer=read.answer,
        reasoning=read.reasoning,
        evidence=verified(read.evidence, view_text=view_text),
        quotes=len(read.evidence),
        value=answered.value,
    )


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other

    def total(a: int | None, b: int | None) -> int | None:
        return b if a is None else a + (b or 0)

    return Usage(
        input_tokens=total(one.input_tokens, other.input_tokens),
        output_tokens=total(one.output_tokens, other.output_tokens),
    )

"""Grading against a scripted model in virtual time: budgets of minutes are tested in milliseconds."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio.testing

from sandbox_judge.conversation.model import SCHEMA, Conversation, Message, Text
from sandbox_judge.grading.grade import Graded, Grading, Progress, grade
from sandbox_judge.grading.view import View, build_view
from sandbox_judge.lanes.base import Call, Endpoint, LaneName, ModelFailure, Reply, Usage, Wire
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import Llm, ModelRequest, Transport

WIRE = Wire(lane="openai_wire", sent={"temperature": 0})
VIEW = build_view(
    Conversation(
        schema=SCHEMA,
        source_format="canonical",
        status="completed",
        warnings=(),
        entries=(Message(n=1, role="user", parts=(Text(text="Refund me"),)),),
    )
)
GOOD = '{"reasoning": "Asked.", "evidence": [{"entry": 1, "quote": "refund ME"}], "verdict": "fail"}'
HANG = math.inf

Step = tuple[float, Any]


class Scripted:
    """A lane that plays steps: seconds to wait, then a text, a reply or a failure."""

    lane: LaneName = "openai_wire"

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.calls: list[Call] = []
        self.times: list[float] = []
        self.deadlines: list[float] = []

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        self.calls.append(call)
        self.times.append(anyio.current_time())
        self.deadlines.append(deadline)
        wait, what = self.steps.pop(0)
        await anyio.sleep(wait)
        if isinstance(what, Exception):
            raise what
        if isinstance(what, Reply):
            return what
        return Reply(
            wire=WIRE,
            text=what,
            finish="stop",
            response_model="m-1",
            usage=Usage(input_tokens=100, output_tokens=10),
        )

    async def aclose(self) -> None:
        """Nothing to close."""


def virtually(story: Callable[[], Awaitable[Any]]) -> Any:
    return anyio.run(
        story, backend="trio", backend_options={"clock": trio.testing.MockClock(autojump_threshold=0)}
    )


async def graded(
    model: Scripted,
    *,
    budget: float = 30.0,
    view: View = VIEW,
    progress: Progress | None = None,
    **transport: int,
) -> Grading:
    now = anyio.current_time()
    return await grade(
        model=model,
        llm=Llm(
            model="m",
            request=ModelRequest(max_tokens=50, reasoning_effort="low"),
            transport=Transport(**transport),
        ),
        endpoint=Endpoint(base_url="http://127.0.0.1:1/v1"),
        view=view,
        instructions="Fail when asked.",
        deadline=now + budget,
        progress=progress or Progress(zero=now),
    )


def run(*steps: Step, **more: Any) -> tuple[Grading, Scripted]:
    model = Scripted(*steps)
    return virtually(lambda: graded(model, **more)), model


def fault(grading: Grading) -> str:
    assert isinstance(grading.outcome, Invalid), grading.outcome
    return grading.outcome.type


def test_a_verdict() -> None:
    grading, model = run((1.25, GOOD))
    assert isinstance(grading.outcome, Graded)
    assert (grading.outcome.answer, grading.outcome.reasoning, grading.outcome.quotes) == (
        "fail",
        "Asked.",
        1,
    )
    assert grading.outcome.evidence[0].verified
    assert (grading.attempts, grading.repaired, grading.started_ms, grading.duration_ms) == (
        1,
        False,
        0,
        1250,
    )
    assert (grading.wire, grading.response_model) == (WIRE, "m-1")
    call = model.calls[0]
    assert (call.max_tokens, call.reasoning_effort, call.temperature) == (50, "low", 0.0)
    assert call.schema is not None and call.schema["required"] == ["reasoning", "evidence", "verdict"]


def test_times_count_from_the_run() -> None:
    async def story() -> Grading:
        progress = Progress(zero=anyio.current_time())
        await anyio.sleep(2)
        return await graded(Scripted((0.5, GOOD)), progress=progress)

    grading = virtually(story)
    assert (grading.started_ms, grading.duration_ms) == (2000, 500)


def test_time_that_ends_in_flight_is_a_timeout() -> None:
    grading, model = run((HANG, GOOD), budget=5)
    assert fault(grading) == "timeout"
    assert (grading.attempts, grading.duration_ms, len(model.calls)) == (1, 5000, 1)


@pytest.mark.parametrize("budget", [0.0, -3.0, 0.01])
def test_no_time_to_start_is_an_exhausted_budget(budget: float) -> None:
    grading, model = run((0, GOOD), budget=budget)
    assert fault(grading) == "budget_exhausted"
    assert (grading.attempts, grading.started_ms, model.calls) == (0, None, [])


def test_a_call_gets_its_timeout_or_what_is_left() -> None:
    grading, model = run((HANG, GOOD), budget=30, timeout_ms=2000)
    assert (fault(grading), grading.duration_ms) == ("timeout", 2000)
    assert model.deadlines[0] - model.times[0] == pytest.approx(2)
    _, model = run((0, GOOD), budget=7, timeout_ms=60_000)
    assert model.deadlines[0] - model.times[0] == pytest.approx(7)


def test_a_view_that_does_not_fit_costs_no_call() -> None:
    view = build_view(
        Conversation(
            schema=SCHEMA,
            source_format="canonical",
            status="completed",
            warnings=(),
            entries=(Message(n=1, role="user", parts=(Text(text="x" * 500),)),),
        ),
        allowance=100,
    )
    grading, model = run((0, GOOD), view=view)
    assert (fault(grading), model.calls) == ("context_overflow", [])


BUSY = ModelFailure("provider_error", "503 from the provider")


def test_nothing_is_retried_unless_the_author_allows_it() -> None:
    grading, _ = run((0.1, BUSY))
    assert (fault(grading), grading.attempts) == ("provider_error", 1)


def test_backoff_doubles_up_to_its_cap() -> None:
    grading, model = run(*[(0, BUSY)] * 5, (0, GOOD), max_retries=5, max_retry_delay_ms=3000)
    assert isinstance(grading.outcome, Graded) and grading.attempts == 6
    waits = [round(later - earlier, 3) for earlier, later in zip(model.times, model.times[1:], strict=False)]
    assert waits == [0.5, 1, 2, 3, 3]
    assert not grading.repaired


def test_retry_after_is_honoured_if_it_fits() -> None:
    grading, model = run(
        (0, ModelFailure("rate_limited", "slow down", retry_after_s=7)), (0, GOOD), max_retries=1
    )
    assert isinstance(grading.outcome, Graded)
    assert model.times[1] - model.times[0] == pytest.approx(7)


@pytest.mark.parametrize("seconds", [29.8, 31.0, 86_400.0])
def test_retry_after_that_does_not_fit_ends_at_once(seconds: float) -> None:
    grading, _ = run((0.2, ModelFailure("rate_limited", "slow", retry_after_s=seconds)), max_retries=3)
    assert (fault(grading), grading.attempts, grading.duration_ms) == ("rate_limited", 1, 200)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -5.0])
def test_a_senseless_retry_after_is_no_retry_after(seconds: float) -> None:
    grading, model = run(
        (0, ModelFailure("rate_limited", "slow", retry_after_s=seconds)), (0, GOOD), max_retries=1
    )
    assert isinstance(grading.outcome, Graded)
    assert model.times[1] - model.times[0] == pytest.approx(0.5)


def test_a_retry_that_could_not_end_is_not_made() -> None:
    # The first attempt took 4 s of 6: another of that kind does not fit.
    grading, _ = run((4, BUSY), max_retries=3, budget=6)
    assert (fault(grading), grading.attempts, grading.duration_ms) == ("provider_error", 1, 4000)


def test_a_timeout_is_retried_while_a_whole_one_fits() -> None:
    grading, _ = run(*[(HANG, "")] * 3, budget=8, timeout_ms=3000, max_retries=9)
    assert (fault(grading), grading.attempts, grading.duration_ms) == ("timeout", 2, 6500)


@pytest.mark.parametrize(
    "failure",
    [
        ModelFailure("auth", "401"),
        ModelFailure("bad_request", "400"),
        ModelFailure("context_overflow", "413"),
        ModelFailure("rate_limited", "quota used up", retryable=False),
    ],
    ids=lambda f: f.type,
)
def test_what_will_not_pass_is_not_retried(failure: ModelFailure) -> None:
    grading, _ = run((0, failure), max_retries=3)
    assert (fault(grading), grading.attempts) == (failure.type, 1)
    assert isinstance(grading.outcome, Invalid) and not grading.outcome.may_pass_on_retry


@pytest.mark.parametrize(
    "text", ["It passes.", GOOD.replace("fail", "failed"), GOOD + GOOD.replace("fail", "pass"), ""]
)
def test_an_unreadable_reply_is_repaired_once_without_retries(text: str) -> None:
    grading, model = run((1, text), (1, GOOD), max_retries=0)
    assert isinstance(grading.outcome, Graded)
    assert (grading.attempts, grading.repaired) == (2, True)
    assert grading.usage == Usage(input_tokens=200, output_tokens=20)
    assert "could not be read" in model.calls[1].messages[-1]["content"]


def test_there_is_no_second_repair() -> None:
    grading, _ = run((1, "It passes."), (1, GOOD.replace("fail", "failed")), max_retries=5)
    assert (fault(grading), grading.attempts, grading.repaired) == ("out_of_vocabulary", 2, True)


def test_a_repair_without_a_reply_leaves_the_first_fault() -> None:
    grading, _ = run((1, "It passes."), (1, ModelFailure("auth", "401")))
    assert (fault(grading), grading.attempts, grading.repaired) == ("malformed_output", 2, True)


def test_a_repair_that_does_not_fit_is_not_made() -> None:
    grading, _ = run((4, "It passes."), budget=6)
    assert (fault(grading), grading.attempts, grading.repaired) == ("malformed_output", 1, False)


def test_a_refusal_is_not_argued_with() -> None:
    grading, _ = run((1, Reply(wire=WIRE, text=GOOD, finish="content_filter")))
    assert (fault(grading), grading.attempts, grading.repaired) == ("refused", 1, False)


def test_cancellation_passes_through_and_leaves_the_story() -> None:
    async def story() -> Grading:
        progress = Progress(zero=anyio.current_time())
        with anyio.move_on_after(3) as scope:
            await graded(Scripted((1, BUSY), (HANG, "")), progress=progress, max_retries=1)
        assert scope.cancelled_caught
        return progress.ended(Invalid(type="cancelled", message="the host ended"))

    grading = virtually(story)
    assert (fault(grading), grading.attempts, grading.duration_ms) == ("cancelled", 2, 3000)


def test_a_bug_in_a_lane_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        run((0, ZeroDivisionError()))


def test_usage_counts_what_was_told() -> None:
    def reply(text: str, usage: Usage | None) -> Reply:
        return Reply(wire=WIRE, text=text, finish="stop", usage=usage)

    grading, _ = run((0, reply("no", Usage(input_tokens=5))), (0, reply(GOOD, None)))
    assert grading.usage == Usage(input_tokens=5)
    grading, _ = run((0, reply("no", Usage(input_tokens=5))), (0, reply(GOOD, Usage(output_tokens=2))))
    assert grading.usage == Usage(input_tokens=5, output_tokens=2)


@pytest.mark.anyio
async def test_both_event_loops(anyio_backend: str) -> None:
    grading = await graded(Scripted((0, "no"), (0, GOOD)))
    assert isinstance(grading.outcome, Graded) and grading.repaired

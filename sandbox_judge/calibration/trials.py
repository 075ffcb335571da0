"""Grading rows by the very path of the hook: its view, prompt, reading and retries, many at a time.

The hook's whole budget does not bind here: each trial has the judge's own timeout and retries, and the run's
budget bounds all of them.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import msgspec

from sandbox_judge.access import endpoint_for
from sandbox_judge.calibration.verdict_log import Kept, VerdictLog, trial_key
from sandbox_judge.caps import REASONING_CHARS, cut
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.errors import SandboxJudgeError
from sandbox_judge.grading.evidence import Evidence
from sandbox_judge.grading.grade import Graded, Progress, grade
from sandbox_judge.grading.instruments import VERDICT, Instrument
from sandbox_judge.grading.view import ALLOWANCE, View, build_view
from sandbox_judge.lanes.base import ChatModel, Endpoint
from sandbox_judge.lanes.choose import Lanes, lane_for
from sandbox_judge.masking import mask, mask_values
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import Judge, Llm
from sandbox_judge.run import is_short
from sandbox_judge.settings import LiveSettings

_LOCAL_TIMEOUT_MS: Final = 600_000
Job = TypeVar("Job")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one row asked once: an answer, or the null. `reused`: it was had already."""

    answer: str | None
    error: Invalid | None = None
    reasoning: str = ""
    evidence: tuple[Evidence, ...] = ()
    response_model: str | None = None
    reused: bool = False


class Grader:
    """One judge, its model, and the verdicts that are had already. `deadline` is the whole run's, on anyio's
    clock; `allowance` the view's, in characters."""

    def __init__(
        self,
        judge: Judge,
        *,
        settings: LiveSettings,
        environ: Mapping[str, str],
        lanes: Lanes,
        log: VerdictLog | None,
        deadline: float,
        local: bool = False,
        allowance: int = ALLOWANCE,
    ) -> None:
        self.judge, self.settings, self.environ, self.lanes = judge, settings, environ, lanes
        self.log, self.deadline, self.local, self.allowance = log, deadline, local, allowance
        self.calls = self.reused = 0

    @property
    def endpoint(self) -> Endpoint | Invalid:
        """Where calls go now. Keys are read at each call."""
        if self.local:
            return Endpoint()
        return endpoint_for(self.judge.llm, self.settings, self.environ, dry_run=True)

    @property
    def llm(self) -> Llm:
        """The judge's model; one in this process has as long as the run."""
        llm = self.judge.llm
        if not self.local:
            return llm
        return msgspec.structs.replace(
            llm, transport=msgspec.structs.replace(llm.transport, timeout_ms=_LOCAL_TIMEOUT_MS)
        )

    def model(self) -> ChatModel:
        """The lane. Raises MissingExtra where it is not installed."""
        provider = self.judge.llm.provider
        lane = lane_for(
            provider,
            local_endpoint=self.judge.llm.local is not None,
            provider_lane=self.settings.provider(provider).lane,
            local_run=self.local,
        )
        self.lanes.prepare([lane])
        return self.lanes.get(lane)

    async def view(self, conversation: Conversation) -> View:
        """The view that the hook would make; a long one in a thread."""
        if is_short(conversation):
            return build_view(conversation, allowance=self.allowance)
        return await anyio.to_thread.run_sync(
            lambda: build_view(conversation, allowance=self.allowance), abandon_on_cancel=True
        )

    async def trial(
        self,
        conversation: Conversation,
        *,
        view: View | None = None,
        instructions: str | None = None,
        instrument: Instrument = VERDICT,
        repeat: int = 0,
    ) -> Trial:
        """Asks the judge once. `instructions` other than the judge's own are a probe's."""
        missing = conversation.missing_context()
        if missing is not None:
            return Trial(answer=None, error=Invalid(type="missing_context", message=missing))
        seen = view or await self.view(conversation)
        asked = self.judge.instructions if instructions is None else instructions
        key = trial_key(
            sequence_hash=seen.sequence_hash,
            question={"instructions": asked, "guidance": instrument.guidance, "answers": instrument.answers},
            repeat=repeat,
        )
        had = self.log.get(key) if self.log is not None else None
        if had is not None:
            self.reused += 1
            return Trial(
                answer=had.answer,
                reasoning=had.reasoning,
                evidence=had.evidence,
                response_model=had.response_model,
                reused=True,
            )
        return await self._asked(seen, asked, instrument, key)

    async def _asked(self, view: View, instructions: str, instrument: Instrument, key: str) -> Trial:
        endpoint = self.endpoint
        if isinstance(endpoint, Invalid):
            return Trial(answer=None, error=endpoint)
        secrets = (endpoint.api_key,) if endpoint.api_key else ()
        self.calls += 1
        now = anyio.current_time()
        grading = await grade(
            model=self.model(),
            llm=self.llm,
            endpoint=endpoint,
            view=view,
            instructions=instructions,
            deadline=min(self.deadline, now + _longest_s(self.llm)),
            progress=Progress(zero=now),
            instrument=instrument,
        )
        outcome = grading.outcome
        if isinstance(outcome, Invalid):
            told = msgspec.structs.replace(outcome, message=mask(outcome.message, secrets))
            return Trial(answer=None, error=told, response_model=grading.response_model)
        trial = Trial(
            answer=str(outcome.answer),
            reasoning=cut(mask_values(outcome.reasoning, secrets), REASONING_CHARS),
            evidence=_masked(outcome, secrets),
            response_model=grading.response_model,
        )
        if self.log is not None:
            self.log.put(
                Kept(
                    key=key,
                    answer=str(outcome.answer),
                    reasoning=trial.reasoning,
                    evidence=trial.evidence,
                    response_model=trial.response_model,
                )
            )
        return trial


def _masked(outcome: Graded, secrets: tuple[str, ...]) -> tuple[Evidence, ...]:
    return tuple(
        msgspec.structs.replace(one, quote=mask_values(one.quote, secrets)) for one in outcome.evidence
    )


def _longest_s(llm: Llm) -> float:
    """What one trial may take at most: every attempt and a repair to its timeout, every wait to its cap."""
    transport = llm.transport
    attempts = transport.max_retries + 2
    return (attempts * transport.timeout_ms + transport.max_retries * transport.max_retry_delay_ms) / 1000 + 1


async def work_through(
    jobs: Iterator[Job], work: Callable[[Job], Awaitable[None]], *, concurrency: int
) -> None:
    """Does every job, at most `concurrency` at once; a job is fetched only when it is begun, so that memory
    does not grow with their number."""

    failures: list[SandboxJudgeError] = []

    async def worker() -> None:
        try:
            for job in jobs:
                await work(job)
        except SandboxJudgeError as error:
            failures.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for _ in range(concurrency):
            tasks.start_soon(worker)
    if failures:
        raise failures[0]  # outside, where no group wraps it

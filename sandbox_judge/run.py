"""The hook, in order: candidates, gates, view, grading side by side, an event a judge as it ends, the ledger.

Applicable judges = verdicts + nulls, always: whatever ends a run (all done, the deadline, a signal, the
host's cancellation, a bug), each judge that was not settled by then is settled here with its null.
"""

from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from sandbox_judge.access import endpoint_for
from sandbox_judge.admission import Candidate, candidates
from sandbox_judge.budget import Budget, grading_ends, judge_ends
from sandbox_judge.calibration.lookup import Calibrations
from sandbox_judge.conversation.events import gate_events
from sandbox_judge.conversation.model import Conversation, Feedback, ToolCall
from sandbox_judge.gate.gate import Applies, GateOutcome, Match, Missed, decide
from sandbox_judge.grading.grade import Graded, Grading, Progress, grade
from sandbox_judge.grading.view import View, build_view
from sandbox_judge.hook_input import Subject
from sandbox_judge.judgement import Calibration, RunContext
from sandbox_judge.lanes.base import Endpoint, LaneName
from sandbox_judge.lanes.choose import lane_for
from sandbox_judge.lanes.metered import Meter, MeteredModel
from sandbox_judge.nulls import ErrorType, Invalid
from sandbox_judge.recipe.judge import Judge, Llm
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.run_ports import Ports, RunOptions, RunReport
from sandbox_judge.settings import LiveSettings
from sandbox_judge.settlement import Settlement

_LOCAL_TIMEOUT_MS: Final = 600_000
# A view of so many characters takes about 5 ms.
_SHORT_CHARS: Final = 200_000
_ENTRY_CHARS: Final = 50
_ARGUMENT_CHARS: Final = 2_000


async def run_conversation(
    subject: Subject,
    recipe: LoadedRecipe,
    settings: LiveSettings,
    *,
    budget: Budget,
    started: float,
    options: RunOptions,
    ports: Ports,
) -> RunReport:
    """Judges one conversation. `started` is when its budget began, on anyio's clock.

    Never raises for what a judge, a model or a recipe does. Cancellation by the host emits the nulls first.
    """
    found = candidates(
        recipe,
        settings,
        conversation_id=subject.conversation_id,
        environment=subject.envelope.environment,
        dry_run=options.dry_run,
        model=options.model,
        calibration=options.calibration,
    )
    context = _context(subject, recipe, budget, options)
    calibrations = Calibrations(
        recipe.source,
        environ=ports.environ,
        tasks=ports.tasks,
        deadline=grading_ends(budget, started=started),
    )
    settlement = Settlement(context, found, ports.deliver)
    run = _Run(subject, found, settlement, settings, budget, started, options, ports, calibrations)
    reason: ErrorType | None = "cancelled"
    try:
        reason = await run.ended()
    finally:
        with anyio.CancelScope(shield=True):
            await run.settle_rest(reason)
    used_s = anyio.current_time() - started
    return RunReport(
        events=tuple(run.settlement.events), ledger=run.settlement.ledger(budget=budget, used_s=used_s)
    )


class _Run:
    def __init__(
        self,
        subject: Subject,
        found: tuple[Candidate, ...],
        settlement: Settlement,
        settings: LiveSettings,
        budget: Budget,
        started: float,
        options: RunOptions,
        ports: Ports,
        calibrations: Calibrations,
    ) -> None:
        self.calibrations = calibrations
        self.conversation, self.candidates, self.settlement = subject.conversation, found, settlement
        self.settings, self.budget, self.started = settings, budget, started
        self.options, self.ports = options, ports
        self.grading_end = grading_ends(budget, started=started)
        self.missing = self.conversation.missing_context()
        self.meter = Meter(budget.max_calls)
        self.applicable = 0
        self.stopped = False
        self.matched: dict[str, Match | None] = {}
        self.progress: dict[str, Progress] = {}
        self.graded: dict[str, Grading] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.scopes: list[anyio.CancelScope] = []
        self._view: View | None = None
        self._view_lock = anyio.Lock()

    async def ended(self) -> ErrorType | None:
        """Returns when all is settled or time is up (None), or when the run is stopped (`cancelled`)."""
        scope = anyio.CancelScope(deadline=self.grading_end)
        watch = anyio.CancelScope()
        self.scopes.append(watch)
        self.ports.tasks.start_soon(self._watch, watch, scope)
        with scope:
            asked = await self._settle_known()
            if self.options.unread:
                return "cancelled" if self.ports.stop.is_set() else None
            if asked:
                await self._gates(asked)
            if self.candidates:
                await self.settlement.complete.wait()
        return "cancelled" if self.stopped else None

    async def settle_rest(self, reason: ErrorType | None) -> None:
        """Settles every judge that is still open: by `reason`, else as not started or in flight."""
        for scope in self.scopes:
            scope.cancel()
        for candidate in list(self.settlement.waiting.values()):
            if self.options.explain:
                self.settlement.note(candidate, "null", error_type=reason or "gate_timeout")
                continue
            progress = self.progress.get(candidate.path) or Progress(zero=self.started)
            null = candidate.null or _unfinished(reason, begun=progress.started is not None)
            # A verdict whose calibration is still being looked up is a verdict.
            await self._settle(candidate, self.graded.get(candidate.path) or progress.ended(null))

    async def _watch(self, own: anyio.CancelScope, scope: anyio.CancelScope) -> None:
        with own:
            await self.ports.stop.wait()
            self.stopped = True
            scope.cancel()

    async def _settle_known(self) -> list[Candidate]:
        """Settles what needs no gate; gives the candidates that are asked."""
        asked = []
        for candidate in self.candidates:
            if candidate.outcome is None:
                asked.append(candidate)
            elif candidate.null is not None and not self.options.explain:
                await self._settle(candidate, Progress(zero=self.started).ended(candidate.null))
            else:
                self.settlement.note(candidate, candidate.outcome)
        return asked

    async def _gates(self, asked: list[Candidate]) -> None:
        gates = [candidate.loaded.gate for candidate in asked if candidate.loaded.gate is not None]
        events = list(gate_events(self.conversation)) if any(gate.matchers for gate in gates) else []
        try:
            await decide(
                gates,
                events,
                deadline=self.grading_end,
                explain=self.options.explain,
                settled=lambda number, outcome: self._gate_decided(asked[number], outcome),
            )
        except Exception as error:
            null = self._internal(error)
            for candidate in asked:
                if candidate.path in self.settlement.waiting and candidate.path not in self.matched:
                    await self._settle(candidate, Progress(zero=self.started).ended(null))

    def _gate_decided(self, candidate: Candidate, outcome: GateOutcome) -> None:
        if isinstance(outcome, Missed):
            self.settlement.note(candidate, "gate_miss", nearest_miss=outcome.nearest_miss)
            return
        null = None
        if isinstance(outcome, Applies):
            self.matched[candidate.path] = outcome.matched
            null = self._refused()
        else:
            null = Invalid(type="gate_timeout", message=outcome.message)
        if self.options.explain:
            self.settlement.note(
                candidate,
                "would_run" if null is None else "null",
                error_type=None if null is None else null.type,
                matched=self.matched.get(candidate.path),
            )
        else:
            self.ports.tasks.start_soon(self._judge, candidate, null)

    def _refused(self) -> Invalid | None:
        """Why a judge that applies is not asked all the same."""
        self.applicable += 1
        if self.missing is not None:
            return Invalid(type="missing_context", message=self.missing)
        if self.applicable > self.budget.max_judges:
            message = f"more than {self.budget.max_judges} judges apply (max_judges of the settings)"
            return Invalid(type="budget_exhausted", message=message)
        return None

    async def _judge(self, candidate: Candidate, null: Invalid | None) -> None:
        progress = self.progress[candidate.path] = Progress(zero=self.started)
        with anyio.CancelScope() as scope:
            self.scopes.append(scope)
            try:
                if null is not None:
                    await self.view()
                    grading = progress.ended(null)
                else:
                    grading = await self._grading(candidate, progress)
            except Exception as error:
                grading = progress.ended(self._internal(error))
            with anyio.CancelScope(shield=True):
                if isinstance(grading.outcome, Graded):
                    self.graded[candidate.path] = grading
                    await self._settle(candidate, grading, await self._calibration(candidate, grading))
                else:
                    await self._settle(candidate, grading)

    async def _calibration(self, candidate: Candidate, grading: Grading) -> Calibration | None:
        """The state of a judge whose model has answered: known by now, or within milliseconds."""
        judge = candidate.judge
        if judge is None or judge.name in self.options.calibration:
            return None
        return await self.calibrations.state(
            judge.name,
            definition_hash=judge.definition_hash,
            endpoint=self.endpoints.get(candidate.path),
            response_model=grading.response_model,
        )

    async def _grading(self, candidate: Candidate, progress: Progress) -> Grading:
        judge = candidate.judge
        assert judge is not None, "only candidates with a judge are asked"
        lane = self._lane(judge)
        self.ports.lanes.prepare([lane])
        view = await self.view()
        async with self.ports.slots.slot(judge.llm.provider):
            endpoint = self._endpoint(judge)
            if isinstance(endpoint, Invalid):
                return progress.ended(endpoint)
            self.endpoints[candidate.path] = endpoint
            self.settlement.keep_secret(endpoint.api_key)
            if judge.name not in self.options.calibration:
                self.calibrations.begin(judge.name)
            return await grade(
                model=MeteredModel(self.ports.lanes.get(lane), self.meter),
                llm=self._llm(judge),
                endpoint=endpoint,
                view=view,
                instructions=judge.instructions,
                deadline=judge_ends(self.budget, now=anyio.current_time(), grading_end=self.grading_end),
                progress=progress,
            )

    def _internal(self, error: Exception) -> Invalid:
        crash = self.ports.crashed(error)
        return Invalid(type="internal", message=f"a bug of sandbox_judge; its report is {crash}")

    async def view(self) -> View:
        """The view, made once; in a thread where it takes long, so that deadline and signals hold."""
        async with self._view_lock:
            if self._view is None and is_short(self.conversation):
                self._view = self._build()
            elif self._view is None:
                self._view = await anyio.to_thread.run_sync(self._build, abandon_on_cancel=True)
            return self._view

    def _build(self) -> View:
        return build_view(
            self.conversation,
            allowance=self.options.allowance,
        )

    def _lane(self, judge: Judge) -> LaneName:
        return lane_for(
            judge.llm.provider,
            local_endpoint=judge.llm.local is not None,
            provider_lane=self.settings.provider(judge.llm.provider).lane,
            local_run=self.options.local,
        )

    def _llm(self, judge: Judge) -> Llm:
        if not self.options.local:
            return judge.llm
        # The author's limits are for a hosted model; a small one on two cores has the run's whole budget.
        patient = msgspec.structs.replace(judge.llm.transport, timeout_ms=_LOCAL_TIMEOUT_MS)
        return msgspec.structs.replace(judge.llm, transport=patient)

    def _endpoint(self, judge: Judge) -> Endpoint | Invalid:
        if self.options.local:
            return Endpoint()
        return endpoint_for(judge.llm, self.settings, self.ports.environ, dry_run=self.options.dry_run)

    async def _settle(
        self, candidate: Candidate, grading: Grading, calibration: Calibration | None = None
    ) -> None:
        await self.settlement.settle(
            candidate,
            grading,
            view=self._view,
            endpoint=self.endpoints.get(candidate.path),
            matched=self.matched.get(candidate.path),
            calibration=calibration,
        )


def is_short(conversation: Conversation) -> bool:
    """Whether the view is made within a few milliseconds; looks no further than it must."""
    left = _SHORT_CHARS
    for entry in conversation.entries:
        left -= _ENTRY_CHARS
        for part in getattr(entry, "parts", ()):
            left -= len(getattr(part, "text", None) or "")
        # The size of arguments is not known without writing them: count them as if they were large.
        left -= _ARGUMENT_CHARS if isinstance(entry, ToolCall | Feedback) else 0
        if left < 0:
            return False
    return True


def _unfinished(reason: ErrorType | None, *, begun: bool) -> Invalid:
    if reason == "cancelled":
        return Invalid(type="cancelled", message="the run was stopped from outside before this judge ended")
    if begun:
        return Invalid(type="timeout", message="no reply had come when the time budget ended")
    return Invalid(type="budget_exhausted", message="the time budget ended before this judge was started")


def _context(subject: Subject, recipe: LoadedRecipe, budget: Budget, options: RunOptions) -> RunContext:
    envelope = subject.envelope
    regrade = options.agent_commit is not None and options.agent_commit != recipe.commit
    return RunContext(
        conversation_id=subject.conversation_id,
        conversation_id_source=subject.id_source,
        recipe_id=recipe.recipe_id,
        recipe_git_commit_sha=options.agent_commit or recipe.commit,
        judge_git_commit_sha=recipe.commit if regrade else None,
        regrade=regrade,
        environment=envelope.environment,
        service_name=envelope.service_name,
        trace_id=envelope.trace_id,
        span_id=envelope.span_id,
        runtime_id=envelope.runtime_id,
        runtime_group_id=envelope.runtime_group_id,
        experiment_id=envelope.experiment.id,
        experiment_arm_id=envelope.experiment.arm_id,
        budget_ms=round(max(0.0, budget.total_s) * 1000),
        dry_run=options.dry_run,
        redact=options.redact,
    )

"""Which gates apply to a conversation, within a bound for each and one deadline for all (design 6)."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import anyio.lowlevel
import msgspec

from sandbox_judge.gate.child import Alternative, Job, Work
from sandbox_judge.gate.language import GateSyntaxError
from sandbox_judge.gate.match import CompiledGate, Event
from sandbox_judge.gate.nearest import nearest_miss
from sandbox_judge.gate.scan import Aside, Hit, Scanned, Shared, scan
from sandbox_judge.gate.table import Table
from sandbox_judge.gate.worker import Answer, Found, run_jobs
from sandbox_judge.recipe.judge import EventKind

BOUND_S: Final = 0.25
# CPU time that one gate may use in this process, before what is left of it goes to a child.
_SLICE_S: Final = 0.05
# How long the event loop may wait for us.
_TURN_S: Final = 0.01
# For all gates together: shares of the time that is left, and what they get at least, in seconds.
_HERE: Final = (0.1, 1.0)
_ELSEWHERE: Final = (0.2, 2.0)
_USED_UP: Final = "the slow gates before it used up the time that all gates have together"
# Events that wait for child processes before these are started early, for the sake of memory.
_MOST_WAITING: Final = 20_000
# For naming the nearest miss of one gate, and of all.
_ONE_REASON_S: Final = 0.1
_REASONS_S: Final = 2.0


class Match(msgspec.Struct, frozen=True):
    """What met a gate: `field` names the matched fields, None where the entry of `on` asks for none."""

    entry: int
    event: EventKind
    field: str | None


class Applies(msgspec.Struct, frozen=True):
    """`matched` is None where the gate has no entries, so that it always applies."""

    matched: Match | None


class Missed(msgspec.Struct, frozen=True):
    nearest_miss: str | None = None


class Unanswered(msgspec.Struct, frozen=True):
    """The gate gave no answer within its bound: a null `gate_timeout`."""

    message: str


GateOutcome = Applies | Missed | Unanswered


async def decide(
    gates: Sequence[CompiledGate],
    events: Sequence[Event],
    *,
    deadline: float,
    bound_s: float = BOUND_S,
    explain: bool = False,
    settled: Callable[[int, GateOutcome], None] | None = None,
) -> list[GateOutcome]:
    """The outcome of each gate, in their order.

    `deadline` is on `anyio.current_time`; `bound_s` is for one gate's searches in a process of their own.
    `settled` is called with a gate's number as soon as its outcome is known: cheap gates come first, so that
    slow ones delay no other judge. With `explain` a miss names the event that came closest.
    """
    run = _Run(gates, events, deadline, bound_s, explain, settled)
    await run.here()
    await run.elsewhere()
    return run.outcomes()


class _Run:
    def __init__(
        self,
        gates: Sequence[CompiledGate],
        events: Sequence[Event],
        deadline: float,
        bound_s: float,
        explain: bool,
        settled: Callable[[int, GateOutcome], None] | None,
    ) -> None:
        # Judges with the same gate share one answer; plain gates come before heavy ones.
        self._numbers: dict[str, list[int]] = {}
        for number, gate in enumerate(gates):
            self._numbers.setdefault(gate.key, []).append(number)
        distinct = {gate.key: gate for gate in gates}
        self._gates = sorted(
            distinct.values(), key=lambda g: sum(f.weight for m in g.matchers for f in m.fields)
        )
        self._table = Table(events)
        self._shared = Shared(self._gates)
        self._deadline, self._bound_s, self._explain, self._settled = deadline, bound_s, explain, settled
        self._outcomes: list[GateOutcome | None] = [None] * len(gates)
        self._asides: list[tuple[CompiledGate, tuple[Aside, ...]]] = []
        self._turn_ends = time.monotonic() + _TURN_S
        self._reasons_left_s = _REASONS_S
        self._here_left_s = self._share(_HERE)
        self._elsewhere_left_s = self._share(_ELSEWHERE)

    async def here(self) -> None:
        """Decide what can be decided in this process."""
        for gate in self._gates:
            if not gate.matchers:
                self._settle(gate, Applies(None))
            elif anyio.current_time() >= self._deadline:
                self._settle(gate, Unanswered("the deadline came before its turn"))
            elif self._here_left_s <= 0 and self._elsewhere_left_s <= 0:
                self._settle(gate, Unanswered(_USED_UP))
            else:
                await self._read(gate)
                self._here_left_s -= await self._scan(gate, min(_SLICE_S, self._here_left_s))
                if sum(len(aside) for _, aside in self._asides) > _MOST_WAITING:
                    await self.elsewhere()

    async def elsewhere(self) -> None:
        """Decide what was set aside in child processes."""
        if not self._asides:
            return
        if self._elsewhere_left_s <= 0:
            for gate, _ in self._asides:
                self._settle(gate, Unanswered(_USED_UP))
            self._asides = []
            return
        asides, self._asides = sorted(self._asides, key=_searches), []
        began = anyio.current_time()

        def answered(job: int, answer: Answer) -> None:
            gate, aside = asides[job]
            if not isinstance(answer, Found):
                self._settle(gate, Unanswered(answer.message))
            elif answer.alternative is None:
                self._miss(gate)
            else:
                self._hit(gate, aside[answer.alternative].hit)

        work = _work([aside for _, aside in asides], self._bound_s)
        await run_jobs(work, deadline=self._deadline, total_s=self._elsewhere_left_s, settled=answered)
        self._elsewhere_left_s -= anyio.current_time() - began

    def outcomes(self) -> list[GateOutcome]:
        return [outcome or Unanswered("it was not decided") for outcome in self._outcomes]

    def _share(self, share: tuple[float, float]) -> float:
        part, least = share
        return max(least, part * (self._deadline - anyio.current_time()))

    async def _read(self, gate: CompiledGate) -> None:
        """Read the fields that the gate asks for; no part of its slice, since others ask for them too."""
        for matcher in gate.matchers:
            for field in matcher.fields:
                for _ in self._table.column(matcher.event, field.path):
                    await self._turn()
                await self._turn()

    async def _scan(self, gate: CompiledGate, slice_s: float) -> float:
        """Take steps until the answer, or until the slice is used up; the CPU seconds it took."""
        steps = scan(gate, self._table, self._shared, hurried=slice_s <= 0)
        used, hurry = 0.0, None
        while True:
            # The thread's own time: on a busy machine a gate does not pay for its neighbours.
            began = time.thread_time()
            try:
                steps.send(hurry)
            except StopIteration as stop:
                self._scanned(gate, stop.value)
                return used + time.thread_time() - began
            except GateSyntaxError as error:
                self._settle(gate, Unanswered(str(error)))
                return used
            used += time.thread_time() - began
            hurry = used >= slice_s
            await self._turn()
            if anyio.current_time() >= self._deadline:
                self._settle(gate, Unanswered("the deadline came before its answer"))
                return used

    async def _turn(self) -> None:
        if time.monotonic() >= self._turn_ends:
            await anyio.lowlevel.checkpoint()
            self._turn_ends = time.monotonic() + _TURN_S

    def _scanned(self, gate: CompiledGate, scanned: Scanned) -> None:
        if scanned.hit is not None:
            self._hit(gate, scanned.hit)
        elif scanned.too_many:
            self._settle(gate, Unanswered("its searches are too many for one conversation"))
        elif scanned.aside:
            self._asides.append((gate, scanned.aside))
        else:
            self._miss(gate)

    def _hit(self, gate: CompiledGate, hit: Hit) -> None:
        kind = hit.matcher.event
        fields = ", ".join(sorted(field.path for field in hit.matcher.fields))
        entry = self._table.events(kind)[hit.position].entry
        self._settle(gate, Applies(Match(entry, kind, fields or None)))

    def _miss(self, gate: CompiledGate) -> None:
        if not self._explain:
            self._settle(gate, Missed())
            return
        began = time.monotonic()
        nearest = nearest_miss(gate, self._table, within_s=min(_ONE_REASON_S, self._reasons_left_s))
        self._reasons_left_s -= time.monotonic() - began
        self._settle(gate, Missed(nearest))

    def _settle(self, gate: CompiledGate, outcome: GateOutcome) -> None:
        for number in self._numbers[gate.key]:
            self._outcomes[number] = outcome
            if self._settled is not None:
                self._settled(number, outcome)


def _searches(entry: tuple[CompiledGate, tuple[Aside, ...]]) -> float:
    """About what a gate's searches cost, to ask for cheap ones first."""
    clauses = (clause for aside in entry[1] for clause in aside.clauses)
    return sum(sum(r.weight for r in c.regexes) * sum(map(len, c.texts)) for c in clauses)


def _work(asides: Sequence[tuple[Aside, ...]], bound_s: float) -> Work:
    """The searches as plain values, each pattern and each text once."""
    patterns: dict[str, int] = {}
    texts: dict[int, tuple[int, str]] = {}

    def alternative(aside: Aside) -> Alternative:
        return tuple(
            (
                tuple(patterns.setdefault(r.prefixed, len(patterns)) for r in clause.regexes),
                tuple(texts.setdefault(id(t), (len(texts), t))[0] for t in clause.texts),
            )
            for clause in aside.clauses
        )

    jobs: tuple[Job, ...] = tuple(tuple(map(alternative, aside)) for aside in asides)
    return tuple(patterns), tuple(text for _, text in texts.values()), jobs, bound_s

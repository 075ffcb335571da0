"""The rubric loop: run the agent, score, hand back the weakest criteria; at most three rounds, best kept.

A round whose agent crashes, hangs or leaves nothing has no scores. The best version is the one with the
fewest criteria without a score, then the highest unrounded mean, then the fewest below their floor; of equals
the first. It is put back at the end.
"""

from collections.abc import Awaitable, Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from sandbox_judge.errors import InputError
from sandbox_judge.nulls import Invalid
from sandbox_judge.rubric.agent_run import Agent, feedback_of
from sandbox_judge.rubric.contained import Ended
from sandbox_judge.rubric.report import Report, read_report, self_scores
from sandbox_judge.rubric.runbook import Runbook
from sandbox_judge.rubric.scores import Score, Standing, standing_of, to_rework, whole_score
from sandbox_judge.rubric.scoring import missing_outputs
from sandbox_judge.rubric.tree import Tree
from sandbox_judge.rubric.versions import keep, put_back

ROUNDS: Final = 3
REPORT: Final = "validation_report.json"
_UNREPORTED: Final = "the agent reported no score"
_TAIL: Final = 300

# Scores the version that lies there now; None: the agent scores itself.
Scorer = Callable[[], Awaitable[tuple[Score, ...]]]


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the agent. `scores` empty: it was not scored, and `problem` says why."""

    number: int
    scores: tuple[Score, ...] = ()
    standing: Standing | None = None
    problem: str = ""
    seconds: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`best` None: no round was scored. `report` is the agent's own of the best round, where it left one."""

    rounds: tuple[Round, ...]
    best: Round | None
    report: Report | None
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.best is not None and self.best.standing is not None and self.best.standing.passed


class _Version(msgspec.Struct, frozen=True, kw_only=True):
    round: Round
    tree: Tree
    report: Report | None


async def run_loop(
    runbook: Runbook,
    agent: Agent,
    *,
    deadline: float,
    scoring_s: float,
    scorer: Scorer | None,
    told: Callable[[Round], None] = lambda round: None,
    rounds: int = ROUNDS,
) -> Outcome:
    """Drives the agent until the rubric is passed, the rounds are used up or the time is. `scoring_s` of what
    is left is kept from each run of the agent for scoring. Raises UsageError where the agent cannot start."""
    loop = _Loop(runbook, agent, scorer)
    feedback: dict[str, Any] | None = None
    for number in range(1, rounds + 1):
        until = deadline - scoring_s
        if agent.most_s is not None:
            until = min(until, anyio.current_time() + agent.most_s)
        if until <= anyio.current_time():
            loop.notes.append(f"no time was left for round {number}")
            break
        round = await loop.round(number, rounds=rounds, feedback=feedback, until=until)
        told(round)
        if round.standing is not None and round.standing.passed:
            break
        feedback = loop.feedback(number + 1, rounds)
    return await loop.end()


class _Loop:
    def __init__(self, runbook: Runbook, agent: Agent, scorer: Scorer | None) -> None:
        self.runbook, self.agent, self.scorer = runbook, agent, scorer
        self.rounds: list[Round] = []
        self.versions: list[_Version] = []
        self.notes: list[str] = []
        self.stamp = _report_stamp(keep(agent.results))
        self.lying: int = 0

    async def round(
        self, number: int, *, rounds: int, feedback: dict[str, Any] | None, until: float
    ) -> Round:
        ended = await self.agent.run(round=number, rounds=rounds, feedback=feedback, deadline=until)
        problem = _problem(ended)
        if problem:
            round = Round(number=number, problem=problem, seconds=ended.seconds)
            self.rounds.append(round)
            if self.versions:
                # What a run left half done is no version to go on from.
                await _in_thread(lambda: put_back(self.agent.results, self.versions[-1].tree))
            return round
        tree = await _in_thread(lambda: keep(self.agent.results))
        self.lying = number
        report, problem = self._report(tree)
        scores: tuple[Score, ...] = ()
        missing = missing_outputs(self.runbook, tree.files)
        if missing:
            problem = f"primary outputs are missing or empty: {', '.join(missing)}"
        elif self.scorer is None:
            scores = self._own_scores(report)
            problem = problem or ("" if any(one.score for one in scores) else "the agent scored nothing")
        else:
            problem, scores = await self._judged(self.scorer)
        standing = standing_of(scores, self.runbook.criteria, self.runbook.bar) if scores else None
        round = Round(number=number, scores=scores, standing=standing, problem=problem, seconds=ended.seconds)
        self.rounds.append(round)
        if standing is not None and standing.mean is not None:
            self.versions.append(_Version(round=round, tree=tree, report=report))
        return round

    async def _judged(self, scorer: Scorer) -> tuple[str, tuple[Score, ...]]:
        try:
            return "", await scorer()
        except InputError as error:
            return error.message, ()

    def _report(self, tree: Tree) -> tuple[Report | None, str]:
        """The report that this run of the agent left, and what is wrong where there is none."""
        stamp, self.stamp = self.stamp, _report_stamp(tree)
        found = next((one for one in tree.files if one.path == REPORT), None)
        if found is None:
            return None, f"the agent left no {REPORT}"
        if stamp == self.stamp:
            return None, f"{REPORT} is left from before: this run of the agent did not write it"
        try:
            return read_report(found.data, name=REPORT), ""
        except InputError as error:
            return None, f"{REPORT} {error.message}"

    def _own_scores(self, report: Report | None) -> tuple[Score, ...]:
        given = {} if report is None else self_scores(report)
        scores = []
        for criterion in self.runbook.criteria:
            entries = given.get(criterion.id, [])
            plain = Score(id=criterion.id, name=criterion.name, source="self")
            values = [entry.get("score") for entry in entries]
            score = whole_score(values[0]) if values and all(v == values[0] for v in values) else None
            if score is None:
                fault = f"the agent's scores {values!r:.60} are not one whole number from 1 to 5"
                message = fault if values else _UNREPORTED
                null = Invalid(type="out_of_vocabulary" if values else "empty_output", message=message)
                scores.append(msgspec.structs.replace(plain, error=null))
            else:
                text = entries[0].get("message")
                message = text if isinstance(text, str) else ""
                scores.append(msgspec.structs.replace(plain, score=score, message=message))
        return tuple(scores)

    def feedback(self, number: int, rounds: int) -> dict[str, Any]:
        last = self.rounds[-1]
        scored = last if last.scores else (self.versions[-1].round if self.versions else last)
        mean = scored.standing.mean if scored.standing is not None else None
        return feedback_of(
            round=number,
            rounds=rounds,
            rework=to_rework(scored.scores, self.runbook.criteria, self.runbook.bar),
            scores=scored.scores,
            bar=self.runbook.bar,
            mean=None if mean is None else float(mean),
            problem=last.problem,
        )

    async def end(self) -> Outcome:
        """Puts the best version back where another lies there now."""
        best = _best(self.versions)
        if best is None:
            return Outcome(
                rounds=tuple(self.rounds), best=None, report=None, files=(), notes=tuple(self.notes)
            )
        if best.round.number != self.lying or self.rounds[-1].problem:
            await _in_thread(lambda: put_back(self.agent.results, best.tree))
        left = [f"{one.path} was not kept with its version: {one.why}" for one in best.tree.left_out]
        return Outcome(
            rounds=tuple(self.rounds),
            best=best.round,
            report=best.report,
            files=tuple(found.path for found in best.tree.files if found.path != REPORT),
            notes=(*self.notes, *left),
        )


def _best(versions: Sequence[_Version]) -> _Version | None:
    def rank(version: _Version) -> tuple[bool, int, Fraction, int]:
        standing = version.round.standing
        assert standing is not None and standing.mean is not None, "only scored versions are kept"
        return (
            standing.passed,
            -len(standing.unscored),
            standing.mean,
            -len(standing.below_floor),
        )

    # max gives the first of equals.
    return max(versions, key=rank, default=None)


def _problem(ended: Ended) -> str:
    if ended.timed_out:
        return "the agent did not end in time and was killed with its children"
    if ended.code is None:
        return "the agent was stopped"
    if ended.code == 0:
        return ""
    tail = ended.errors.decode("utf-8", "replace").strip()[-_TAIL:]
    how = f"ended with code {ended.code}" if ended.code > 0 else f"was ended by signal {-ended.code}"
    return f"the agent {how}" + (f": {tail}" if tail else "")


def _report_stamp(tree: Tree) -> tuple[int, int] | None:
    return next((found.stamp for found in tree.files if found.path == REPORT), None)


async def _in_thread(work: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(work)

"""One run of the agent's command in the rubric loop: what it gets, and how it is held (`docs/rubrics.md`)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from sandbox_judge.errors import UsageError
from sandbox_judge.rubric.contained import Ended, NotStarted, run_contained
from sandbox_judge.rubric.criteria import Bar, Criterion, number
from sandbox_judge.rubric.scores import Score

_OURS: Final = ("SANDBOX_JUDGE_", "JUDGE_", "RUBRIC_")
_SHOWN: Final = 2_000


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A command and its surroundings. `environ` is already without the judge's keys."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path
    results: Path
    runbook: Path
    handover: Path
    most_s: float | None = None

    async def run(
        self, *, round: int, rounds: int, feedback: Mapping[str, Any] | None, deadline: float
    ) -> Ended:
        """Runs it once. Raises UsageError where it cannot be started."""
        variables = {
            "RESULTS_DIR": str(self.results),
            "RUBRIC_RUNBOOK": str(self.runbook),
            "RUBRIC_ROUND": str(round),
            "RUBRIC_ROUNDS": str(rounds),
        }
        if feedback is not None:
            place = self.handover / f"feedback-{round}.json"
            place.write_text(json.dumps(feedback, ensure_ascii=False, indent=2), "utf-8")
            variables["RUBRIC_FEEDBACK"] = str(place)
        try:
            return await run_contained(
                self.argv,
                env={**self.environ, **variables},
                cwd=self.cwd,
                deadline=deadline,
                most_output=_SHOWN,
                kill_on_overflow=False,
            )
        except NotStarted as error:
            raise UsageError(
                f"the agent cannot be started ({error}).", where="--agent", remedy="Give its whole command."
            ) from error


def agent_environ(
    environ: Mapping[str, str],
    *,
    key_names: Sequence[str],
    keys: Sequence[str],
    granted: Sequence[str],
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment without the judge's keys, by name and by value, and the names that were withheld.
    `granted` are names that the user passes on all the same."""
    withheld = []
    kept = {}
    for name, value in environ.items():
        secret = name in key_names or name.startswith(_OURS) or (bool(value) and value in keys)
        if secret and name not in granted:
            withheld.append(name)
        else:
            kept[name] = value
    return kept, tuple(sorted(withheld))


def feedback_of(
    *,
    round: int,
    rounds: int,
    rework: Sequence[Criterion],
    scores: Sequence[Score],
    bar: Bar,
    mean: float | None,
    problem: str,
) -> dict[str, Any]:
    """What the agent is handed for another round: the weak criteria first, and what went wrong."""
    by_id = {score.id: score for score in scores}
    return {
        "round": round,
        "rounds": rounds,
        "problem": problem,
        "overall_score": mean,
        "pass_threshold": bar.average,
        "rework": [_weak(criterion, by_id.get(criterion.id), bar) for criterion in rework],
    }


def _weak(criterion: Criterion, score: Score | None, bar: Bar) -> dict[str, Any]:
    told = "" if score is None else score.message or (score.error.message if score.error else "")
    return {
        "id": criterion.id,
        "name": criterion.name,
        "score": None if score is None else score.score,
        "threshold": number(bar.floor_of(criterion.id)),
        "message": told,
        "anchors": {str(level): text for level, text in criterion.anchors.items()},
        "evidence": [] if score is None else msgspec.to_builtins(score.evidence),
    }

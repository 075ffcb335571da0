"""`grade.json` and its labels, and the rule that a model does not grade its own work. Pure."""

import re
from typing import Any, Final

import msgspec

from sandbox_judge.grader.agent import Result
from sandbox_judge.rubric.runbook import Runbook
from sandbox_judge.rubric.scores import standing_of

_DATE: Final = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|latest|preview|\d{2}-20\d\d)$")


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: routes, dates and the spelling of versions do not tell them apart."""
    return _plain(one) == _plain(other)


def _plain(name: str) -> str:
    last = name.strip().lower().rpartition("/")[2].partition(":")[0]
    plain = re.sub(r"[^a-z0-9]+", "-", last).strip("-")
    return _DATE.sub("", plain)


def grade_of(
    runbook: Runbook,
    result: Result,
    *,
    judge: str,
    agent_model: str | None,
    same_model_allowed: bool,
) -> dict[str, Any]:
    """What `grade.json` holds. `total` is the unrounded mean; `criteria` is what `rubric report` merges."""
    standing = standing_of(result.scores, runbook.criteria, runbook.bar)
    scores = {one.id: one.score for one in result.scores if one.score is not None}
    total = None if standing.mean is None else float(standing.mean)
    labels = {"eval.pass": "true" if standing.passed else "false"}
    if standing.mean is not None:
        # Cut, not rounded: 3.999 is not 4.00.
        labels["eval.grade"] = f"{int(standing.mean * 100) / 100:.2f}"
    labels |= {f"eval.dim.{id}": str(score) for id, score in scores.items()}
    return {
        "scores": scores,
        "total": total,
        "pass": standing.passed,
        "evidence": [
            {"criterion": one.id, **msgspec.to_builtins(quote)}
            for one in result.scores
            for quote in one.evidence
        ],
        "unscored": list(standing.unscored),
        "below_floor": list(standing.below_floor),
        "criteria": [_criterion(one) for one in result.scores],
        "labels": labels,
        "judge": judge,
        "agent_model": agent_model,
        "same_model_allowed": same_model_allowed,
        "limit": result.limit,
        "tokens": result.trajectory.tokens,
        "trajectory": result.trajectory.as_json(),
    }


def _criterion(score: Any) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(score)
    return {key: value for key, value in shown.items() if value not in (None, [], ())}

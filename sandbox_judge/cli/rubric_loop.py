"""`rubric loop`: run an agent, score what it made, hand back the weakest criteria; the best is kept."""

import argparse
import functools
import json
import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from sandbox_judge.access import key_variables
from sandbox_judge.cli.interrupts import Interrupts
from sandbox_judge.cli.judge_options import MODEL_VARIABLE, Chosen, add_judge_options, chosen, judge_model
from sandbox_judge.cli.rubric_common import add_runbook, now_text, runbook_of, score_lines, write_json
from sandbox_judge.cli.surface import Surface
from sandbox_judge.durations import parse_duration, shown
from sandbox_judge.errors import UsageError
from sandbox_judge.nulls import Invalid
from sandbox_judge.rubric.agent_run import Agent, agent_environ
from sandbox_judge.rubric.judge_model import JudgeModel
from sandbox_judge.rubric.loop import REPORT, ROUNDS, Outcome, Round, run_loop
from sandbox_judge.rubric.report import merged
from sandbox_judge.rubric.runbook import Runbook
from sandbox_judge.rubric.scores import Score, shown_mean, to_rework
from sandbox_judge.rubric.scoring import read_outputs, score_rubric
from sandbox_judge.terminal import escaped

_SCORED_ITEM = {"kind": "checklist", "id": "every-criterion-is-scored", "name": "Every criterion is scored"}


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "loop",
        help="drive an agent: score, rework the weakest criteria, keep the best of three versions",
        description="Runs the agent's command, which leaves its outputs and validation_report.json in "
        "$RESULTS_DIR. Its own scores count; with --judge those of a model do. Exit code 1 where the best "
        "version does not pass.",
    )
    add_runbook(parser)
    parser.add_argument(
        "--agent", required=True, metavar="CMD", help="the agent's command, run without a shell"
    )
    parser.add_argument("--outputs", required=True, metavar="DIR", help="where the agent leaves its outputs")
    parser.add_argument("--context", action="append", default=[], metavar="FILE", help="for --judge")
    parser.add_argument(
        "--agent-env", action="append", default=[], metavar="NAME", help="pass this variable on all the same"
    )
    parser.add_argument(
        "--agent-timeout", metavar="TIME", help="of one run of the agent (default: the budget)"
    )
    parser.add_argument("--one-call", action="store_true", help="for --judge: all criteria in one call")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="1 to 3 (default 3)")
    add_judge_options(parser, budget="30m", flag="--judge")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run_rubric=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, InputError, SettingsError, TrustError, MissingExtra."""
    runbook = runbook_of(args, surface).usable()
    if not 1 <= args.rounds <= ROUNDS:
        raise UsageError(f"{args.rounds} rounds cannot be (1 to {ROUNDS}).", where="--rounds")
    try:
        argv = shlex.split(args.agent)
    except ValueError as error:
        raise UsageError(f"is no command: {error}.", where="--agent") from error
    if not argv:
        raise UsageError("is empty.", where="--agent")
    interrupts = Interrupts()
    with interrupts.caught():
        return anyio.run(functools.partial(_run, args, surface, runbook, argv, interrupts))


async def _run(
    args: argparse.Namespace, surface: Surface, runbook: Runbook, argv: list[str], interrupts: Interrupts
) -> int:
    stop = anyio.Event()
    outcome: Outcome | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(interrupts.watch, stop)
        with anyio.CancelScope() as scope:
            tasks.start_soon(_cancel_at, stop, scope)
            outcome = await _looped(args, surface, runbook, argv)
        tasks.cancel_scope.cancel()
    if outcome is None:
        surface.err("sandbox-judge: stopped; the agent and what it started were killed.")
        return interrupts.exit_code or 130
    return 0 if outcome.passed else 1


async def _cancel_at(stop: anyio.Event, scope: anyio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()


async def _looped(args: argparse.Namespace, surface: Surface, runbook: Runbook, argv: list[str]) -> Outcome:
    judged = args.model is not None or args.local is not None
    if not judged and surface.environ.get(MODEL_VARIABLE):
        surface.err(f"sandbox-judge: {MODEL_VARIABLE} is set, but only --judge makes a model score.")
    choice = chosen(args, surface) if judged else None
    budget_s = max(0.0, parse_duration(args.budget, name="--budget"))
    deadline = anyio.current_time() + budget_s
    results = surface.cwd / args.outputs
    _check_folder(args, surface, results)
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be made ({error.strerror}).", where=str(results)) from error
    with tempfile.TemporaryDirectory(prefix="rubric-loop-") as handover:
        agent = _agent(args, surface, argv, choice, results, Path(handover))
        if choice is None:
            outcome = await run_loop(
                runbook,
                agent,
                deadline=deadline,
                scoring_s=0.0,
                scorer=None,
                rounds=args.rounds,
                told=functools.partial(_told, surface, runbook),
            )
        else:
            async with judge_model(choice, surface) as model:
                outcome = await run_loop(
                    runbook,
                    agent,
                    deadline=deadline,
                    scoring_s=min(60.0, budget_s / 5),
                    scorer=functools.partial(
                        _judge, args, surface, runbook, choice, model, results, deadline
                    ),
                    told=functools.partial(_told, surface, runbook),
                    rounds=args.rounds,
                )
    document = _document(runbook, outcome)
    if outcome.best is not None:
        write_json(results / REPORT, _report(runbook, outcome, document))
    _show(args, surface, runbook, outcome, document)
    return outcome


def _check_folder(args: argparse.Namespace, surface: Surface, results: Path) -> None:
    for inside in (surface.cwd, surface.cwd / args.runbook):
        # Another version is put back by taking away what it does not have: that must not be one's own work.
        if Path(os.path.realpath(inside)).is_relative_to(os.path.realpath(results)):
            raise UsageError(
                f"{args.outputs} holds more than outputs: {inside} lies in it.",
                where="--outputs",
                remedy="Name a folder of its own, which the agent fills.",
            )


def _agent(
    args: argparse.Namespace,
    surface: Surface,
    argv: list[str],
    choice: Chosen | None,
    results: Path,
    handover: Path,
) -> Agent:
    names: list[str] = []
    if choice is not None and choice.local is None:
        provider = choice.settings.provider(choice.llm.provider)
        names = [*key_variables(choice.llm.provider)]
        names += [provider.api_key_env] if provider.api_key_env else []
        names += [choice.llm.local.api_key_env] if choice.llm.local else []
    keys = [surface.environ[name] for name in names if surface.environ.get(name)]
    environ, withheld = agent_environ(
        surface.environ, key_names=names, keys=keys, granted=tuple(args.agent_env)
    )
    if withheld:
        surface.err(f"sandbox-judge: the agent does not get {', '.join(withheld)} (--agent-env NAME does).")
    most_s = parse_duration(args.agent_timeout, name="--agent-timeout") if args.agent_timeout else None
    return Agent(
        argv=tuple(argv),
        environ=environ,
        cwd=surface.cwd,
        results=Path(os.path.abspath(results)),
        runbook=Path(os.path.abspath(surface.cwd / args.runbook)),
        handover=handover,
        most_s=most_s,
    )


async def _judge(
    args: argparse.Namespace,
    surface: Surface,
    runbook: Runbook,
    choice: Chosen,
    model: JudgeModel,
    results: Path,
    deadline: float,
) -> tuple[Score, ...]:
    outputs = await read_outputs(
        results,
        context=[surface.cwd / path for path in args.context],
        runbook=runbook,
        deadline=deadline,
    )
    return await score_rubric(
        runbook, outputs, model, deadline=deadline, pictures=choice.pictures, one_call=args.one_call
    )


def _told(surface: Surface, runbook: Runbook, round: Round) -> None:
    surface.err(f"round {round.number} ({shown(round.seconds)})")
    if round.problem:
        surface.err(f"  {escaped(round.problem)}")
    for line in score_lines(round.scores, runbook):
        surface.err(f"  {line}")


def _document(runbook: Runbook, outcome: Outcome) -> dict[str, Any]:
    best = outcome.best
    weak = to_rework(best.scores, runbook.criteria, runbook.bar) if best is not None else ()
    by_id = {one.id: one for one in best.scores} if best is not None else {}
    return {
        "passed": outcome.passed,
        "kept": None if best is None else best.number,
        "scorings": sum(1 for one in outcome.rounds if one.scores),
        "rounds": [_round(one) for one in outcome.rounds],
        "weak_points": [
            {"id": one.id, "score": by_id[one.id].score, "message": _said(by_id[one.id])} for one in weak
        ],
        "notes": list(outcome.notes),
    }


def _round(round: Round) -> dict[str, Any]:
    mean = round.standing.mean if round.standing is not None else None
    return {
        "round": round.number,
        "overall_score": None if mean is None else float(mean),
        "passed": round.standing is not None and round.standing.passed,
        "scores": {one.id: one.score for one in round.scores},
        "problem": round.problem,
    }


def _said(score: Score) -> str:
    null: Invalid | None = score.error
    return score.message if null is None else f"{null.type}: {null.message}"


def _report(runbook: Runbook, outcome: Outcome, document: dict[str, Any]) -> dict[str, Any]:
    assert outcome.best is not None
    # A criterion for which the agent reported nothing gets no entry; that not all are scored is an item.
    scores = [one for one in outcome.best.scores if one.source != "self"]
    fill = {"run_date": now_text(), "output_files": list(outcome.files)}
    whole = merged(outcome.report, scores, bar=runbook.bar, criteria=runbook.criteria, fill=fill)
    standing = outcome.best.standing
    if standing is not None and standing.unscored:
        said = f"without a score: {', '.join(standing.unscored)}"
        checks = [check for check in whole["checks"] if check.get("id") != _SCORED_ITEM["id"]]
        whole["checks"] = [*checks, {**_SCORED_ITEM, "status": "fail", "message": said}]
        whole |= {"verdict": "fail", "overall_passed": False}
    whole["iterations"] = document["scorings"]
    return {**whole, "rounds": document["rounds"], "weak_points": document["weak_points"]}


def _show(
    args: argparse.Namespace,
    surface: Surface,
    runbook: Runbook,
    outcome: Outcome,
    document: dict[str, Any],
) -> None:
    if args.output == "json":
        surface.out(json.dumps(document, allow_nan=False))
        return
    best = outcome.best
    for note in outcome.notes:
        surface.out(escaped(note))
    if best is None:
        surface.out("nothing was scored: fail")
        return
    mean = best.standing.mean if best.standing is not None else None
    for weak in document["weak_points"]:
        score = "not scored" if weak["score"] is None else f"{weak['score']}/5"
        surface.out(f"still weak: {escaped(weak['id'])} {score}  {escaped(weak['message'])[:160]}")
    verdict = "pass" if outcome.passed else "fail"
    surface.out(f"kept round {best.number} with an average of {shown_mean(mean)}: {verdict}")

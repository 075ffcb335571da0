"""`rubric score`: a model scores the outputs of a run by its runbook's rubric."""

import argparse
import functools
import json
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec

from sandbox_judge.calibration.progress import Bar as Progress
from sandbox_judge.cli.judge_options import add_judge_options, chosen, judge_model
from sandbox_judge.cli.rubric_common import (
    add_fail_on,
    add_runbook,
    exit_code,
    now_text,
    report_at,
    runbook_of,
    score_lines,
    write_json,
)
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError
from sandbox_judge.rubric.report import MOST_BYTES, merged
from sandbox_judge.rubric.runbook import Runbook
from sandbox_judge.rubric.scores import Score, shown_mean, standing_of
from sandbox_judge.rubric.scoring import read_outputs, score_rubric
from sandbox_judge.terminal import escaped

MOST_REPEATS = 50


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        help="a model scores outputs, a call a criterion",
        description="One model call a criterion, with only the outputs and that criterion, all at once. Exit "
        "code 0 whatever the scores, unless --fail-on asks; missing outputs are an error (2), not a score.",
    )
    add_runbook(parser)
    parser.add_argument("--outputs", required=True, metavar="DIR", help="what the run made")
    parser.add_argument(
        "--context", action="append", default=[], metavar="FILE", help="to check the outputs against"
    )
    parser.add_argument("--one-call", action="store_true", help="all criteria in one call: cheaper, coarser")
    parser.add_argument(
        "--repeats", type=int, default=1, metavar="N", help="score so often; the median counts"
    )
    parser.add_argument("--report", metavar="FILE", help="merge the scores into this validation_report.json")
    add_fail_on(parser)
    add_judge_options(parser, budget="2m")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run_rubric=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, InputError, SettingsError, TrustError, MissingExtra."""
    if not 1 <= args.repeats <= MOST_REPEATS:
        raise UsageError(f"{args.repeats} repeats cannot be (1 to {MOST_REPEATS}).", where="--repeats")
    runbook = runbook_of(args, surface).usable()
    return anyio.run(functools.partial(_run, args, surface, runbook))


async def _run(args: argparse.Namespace, surface: Surface, runbook: Runbook) -> int:
    choice = chosen(args, surface)
    deadline = anyio.current_time() + choice.budget_s
    place = surface.cwd / args.report if args.report else None
    before = report_at(place, most=MOST_BYTES) if place is not None else None
    outputs = await read_outputs(
        surface.cwd / args.outputs,
        context=[surface.cwd / path for path in args.context],
        runbook=runbook,
        deadline=deadline,
    )
    for line in outputs.unseen(pictures=choice.pictures):
        surface.err(f"sandbox-judge: not seen by the judge: {line}")
    progress = Progress(surface.stderr, total=len(runbook.criteria), terminal=surface.stderr_is_terminal)
    async with judge_model(choice, surface) as model:
        scores = await score_rubric(
            runbook,
            outputs,
            model,
            deadline=deadline,
            pictures=choice.pictures,
            one_call=args.one_call,
            repeats=args.repeats,
            ended=lambda score: progress.step(),
        )
        progress.end()
        document = scoring_json(runbook, scores, judge=model.name, calls=model.calls)
    document["unseen"] = list(outputs.unseen(pictures=choice.pictures))
    if place is not None:
        fill = {"run_date": now_text(), "output_files": list(outputs.files)}
        write_json(place, merged(before, scores, bar=runbook.bar, criteria=runbook.criteria, fill=fill))
    _show(args, surface, runbook, scores, document)
    standing = standing_of(scores, runbook.criteria, runbook.bar)
    return exit_code(args, standing)


def scoring_json(runbook: Runbook, scores: Sequence[Score], *, judge: str, calls: int) -> dict[str, Any]:
    """What `rubric score -o json` prints and `rubric report --scores` takes."""
    standing = standing_of(scores, runbook.criteria, runbook.bar)
    return {
        "scores": {one.id: one.score for one in scores},
        "overall_score": None if standing.mean is None else float(standing.mean),
        "pass": standing.passed,
        "pass_threshold": runbook.bar.average,
        "below_floor": list(standing.below_floor),
        "unscored": list(standing.unscored),
        "criteria": [_shown(one) for one in scores],
        "judge": judge,
        "calls": calls,
    }


def _shown(score: Score) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(score)
    return {key: value for key, value in shown.items() if value not in (None, [], ())}


def _show(
    args: argparse.Namespace,
    surface: Surface,
    runbook: Runbook,
    scores: Sequence[Score],
    document: dict[str, Any],
) -> None:
    if args.output == "json":
        surface.out(json.dumps(document, allow_nan=False))
        return
    for line in score_lines(scores, runbook):
        surface.out(line)
    for one in scores:
        for quote in one.evidence:
            where = f"{quote.file}:{quote.line}" if quote.verified else "not found in the outputs"
            surface.out(f"  {escaped(one.id)}: {escaped(where)}: “{escaped(quote.quote)[:100]}”")
    standing = standing_of(scores, runbook.criteria, runbook.bar)
    verdict = "pass" if standing.passed else "fail"
    unscored = f", {len(standing.unscored)} not scored" if standing.unscored else ""
    bar = f"{'above' if runbook.bar.strictly_above else 'at least'} {runbook.bar.average}"
    surface.out(f"average {shown_mean(standing.mean)} ({bar} is asked){unscored}: {verdict}")

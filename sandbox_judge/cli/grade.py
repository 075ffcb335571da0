"""`grade`: an agent judge opens the outputs, checks them against the sources and works through the rubric."""

import argparse
import functools
import json
import os
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from sandbox_judge.calibration.edit import write_whole
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
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.grader.agent import Limits, Result, run_grader
from sandbox_judge.grader.grade_file import grade_of, same_model
from sandbox_judge.grader.tools import Copy, Toolbox
from sandbox_judge.grader.trajectory import Turn
from sandbox_judge.rubric.report import MOST_BYTES, merged
from sandbox_judge.rubric.runbook import Runbook
from sandbox_judge.rubric.scores import shown_mean, standing_of
from sandbox_judge.rubric.scoring import OWN_FILES, missing_outputs
from sandbox_judge.rubric.tree import Tree, read_tree
from sandbox_judge.terminal import escaped

_REPORT = "validation_report.json"


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "grade",
        help="an agent judge works through a rubric with read-only tools",
        description="A run of its own that the agent under test never sees: the model lists, reads, searches "
        "and views tables of a private copy, then scores. Writes grade.json, whose place must be outside the "
        "outputs and sources. Exit code 0 whatever the scores, unless --fail-on asks.",
    )
    add_runbook(parser)
    parser.add_argument("--outputs", required=True, metavar="DIR", help="what the run made")
    parser.add_argument("--sources", metavar="DIR", help="what it was made from")
    parser.add_argument("--to", default="grade.json", metavar="FILE", help="the result (default grade.json)")
    parser.add_argument(
        "--merge", metavar="REPORT", help=f"merge the scores into this report, as {_REPORT} beside --to"
    )
    parser.add_argument(
        "--agent-model", metavar="MODEL", help="who did the work (default: the runbook's model)"
    )
    parser.add_argument("--allow-same-model", action="store_true", help="let a model grade its own work")
    parser.add_argument("--max-turns", type=int, default=Limits().turns, metavar="N")
    parser.add_argument(
        "--max-tokens", type=int, default=Limits().tokens, metavar="N", help="in and out, in all"
    )
    parser.add_argument("--max-files", type=int, default=Limits().files, metavar="N", help="opened in all")
    add_fail_on(parser)
    add_judge_options(parser, budget="10m")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, InputError, SettingsError, TrustError, MissingExtra."""
    runbook = runbook_of(args, surface).usable()
    limits = Limits(turns=args.max_turns, tokens=args.max_tokens, files=args.max_files)
    if min(limits.turns, limits.tokens, limits.files) < 1:
        raise UsageError("a cap of less than 1 lets nothing be looked at.", where="--max-…")
    _check_place(args, surface)
    return anyio.run(functools.partial(_run, args, surface, runbook, limits))


async def _run(args: argparse.Namespace, surface: Surface, runbook: Runbook, limits: Limits) -> int:
    choice = chosen(args, surface)
    agent_model = args.agent_model or runbook.frontmatter.model
    if agent_model and same_model(agent_model, choice.llm.model) and not args.allow_same_model:
        raise UsageError(
            f"{choice.llm.model} did the work that it would grade.",
            where="--model",
            remedy="Name another, or give --allow-same-model; the result then says so.",
        )
    deadline = anyio.current_time() + choice.budget_s
    before = report_at(surface.cwd / args.merge, most=MOST_BYTES) if args.merge else None
    copy, outputs = await anyio.to_thread.run_sync(lambda: _copy(args, surface, runbook))
    toolbox = Toolbox(copy, most_files=limits.files)
    async with judge_model(choice, surface) as model:
        result = await run_grader(
            runbook,
            toolbox,
            model,
            limits=limits,
            deadline=deadline,
            told=functools.partial(_told, args, surface),
        )
        grade = grade_of(
            runbook,
            result,
            judge=model.name,
            agent_model=agent_model,
            same_model_allowed=args.allow_same_model,
        )
    place = surface.cwd / args.to
    # Only for whoever grades: the agent under test is not to read it.
    data = json.dumps(grade, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    write_whole(place, data.encode("utf-8", "replace"), mode=0o600)
    if args.merge:
        fill = {"run_date": now_text(), "output_files": [found.path for found in outputs.files]}
        whole = merged(before, result.scores, bar=runbook.bar, criteria=runbook.criteria, fill=fill)
        write_json(place.parent / _REPORT, whole)
    _show(args, surface, runbook, result, grade)
    return exit_code(args, standing_of(result.scores, runbook.criteria, runbook.bar))


def _check_place(args: argparse.Namespace, surface: Surface) -> None:
    place = Path(os.path.realpath(surface.cwd / args.to))
    for name in (args.outputs, args.sources):
        if name is not None and place.is_relative_to(os.path.realpath(surface.cwd / name)):
            raise UsageError(
                f"{args.to} lies in {name}, which the agent under test can read.",
                where="--to",
                remedy="Name a place outside the outputs and the sources.",
            )


def _copy(args: argparse.Namespace, surface: Surface, runbook: Runbook) -> tuple[Copy, Tree]:
    outputs = read_tree(surface.cwd / args.outputs, skip=OWN_FILES)
    missing = missing_outputs(runbook, outputs.files)
    if not outputs.files or missing:
        said = (
            f"primary outputs are missing or empty: {', '.join(missing)}" if missing else "holds no outputs"
        )
        raise InputError(
            f"{said}.",
            where=args.outputs,
            remedy="Missing outputs are an error, not a low score; nothing was graded.",
        )
    sources = read_tree(surface.cwd / args.sources) if args.sources else Tree(files=(), left_out=())
    copy = Copy(outputs.files, sources.files, (*outputs.left_out, *sources.left_out))
    return copy, outputs


def _told(args: argparse.Namespace, surface: Surface, turn: Turn) -> None:
    if not args.quiet:
        calls = ", ".join(f"{step.name} {step.arguments}"[:80] for step in turn.tools) or "answers"
        surface.err(f"turn {turn.number}: {escaped(calls)}")


def _show(
    args: argparse.Namespace, surface: Surface, runbook: Runbook, result: Result, grade: dict[str, Any]
) -> None:
    if args.output == "json":
        surface.out(json.dumps(grade, allow_nan=False))
        return
    for line in score_lines(result.scores, runbook):
        surface.out(line)
    for quote in grade["evidence"]:
        where = f"{quote.get('file')}:{quote.get('line')}" if quote["verified"] else "not found"
        surface.out(f"  {escaped(quote['criterion'])}: {escaped(where)}: “{escaped(quote['quote'])[:100]}”")
    if result.limit:
        surface.out(f"stopped at a cap: {result.limit}")
    standing = standing_of(result.scores, runbook.criteria, runbook.bar)
    verdict = "pass" if standing.passed else "fail"
    surface.out(f"average {shown_mean(standing.mean)}: {verdict}; written to {args.to}")

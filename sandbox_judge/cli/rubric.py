"""`rubric check|score|loop|report`: runbooks, their rubrics, and the reports of their runs."""

import argparse
import json
from typing import Any

import msgspec

from sandbox_judge.cli import rubric_loop, rubric_report, rubric_score
from sandbox_judge.cli.rubric_common import add_runbook, runbook_of
from sandbox_judge.cli.surface import Surface
from sandbox_judge.rubric.criteria import number
from sandbox_judge.rubric.runbook import Runbook
from sandbox_judge.terminal import escaped


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "rubric",
        help="check a runbook's rubric, score outputs by it, drive an agent with it, merge its report",
        description="Runbooks in Markdown whose rubric has criteria with anchors for 5, 3 and 1.",
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="check|score|loop|report")
    _add_check(commands)
    rubric_score.add(commands)
    rubric_loop.add(commands)
    rubric_report.add(commands)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, InputError, SettingsError, TrustError, MissingExtra."""
    return int(args.run_rubric(args, surface))


def _add_check(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="how a runbook's rubric is read, and every doubt about it",
        description="Prints criteria, anchors, thresholds and doubts with their lines; calls no model. Exit "
        "code 1 where the rubric cannot be used.",
    )
    add_runbook(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run_rubric=_check)


def _check(args: argparse.Namespace, surface: Surface) -> int:
    runbook = runbook_of(args, surface)
    if args.output == "json":
        surface.out(json.dumps(_as_json(runbook), ensure_ascii=False))
    else:
        for line in _as_text(runbook):
            surface.out(line)
    return 1 if runbook.errors else 0


def _as_json(runbook: Runbook) -> dict[str, Any]:
    bar = runbook.bar
    return {
        "valid": not runbook.errors,
        "evaluation": runbook.frontmatter.evaluation,
        "criteria": [
            {
                "id": one.id,
                "name": one.name,
                "line": one.line,
                "anchors": {str(level): text for level, text in one.anchors.items()},
                "threshold": number(bar.floor_of(one.id)),
            }
            for one in runbook.criteria
        ],
        "pass_threshold": bar.average,
        "strictly_above": bar.strictly_above,
        "threshold": number(bar.floor),
        "unchecked_clauses": list(bar.free),
        "remark": bar.remark,
        "parameters": dict(runbook.parameters),
        "declared_checks": msgspec.to_builtins(runbook.declared),
        "doubts": msgspec.to_builtins(runbook.doubts),
    }


def _as_text(runbook: Runbook) -> list[str]:
    lines = []
    bar = runbook.bar
    for one in runbook.criteria:
        lines.append(
            f"{escaped(one.id)}  (line {one.line}, fails below {number(bar.floor_of(one.id))})  "
            f"{escaped(one.name)}"
        )
        lines += [f"    {level}: {escaped(text)}" for level, text in one.anchors.items()]
    if runbook.criteria:
        word = "above" if bar.strictly_above else "at least"
        source = f"line {bar.line}" if bar.line else "the default"
        lines.append(f"passes with an average of {word} {bar.average} ({source})")
    for doubt in runbook.doubts:
        where = f"line {doubt.line}: " if doubt.line else ""
        lines.append(f"{doubt.severity}: {where}{escaped(doubt.message)} [{doubt.code}]")
    return lines

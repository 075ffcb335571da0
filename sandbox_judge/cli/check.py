"""`check [DIR]`: validate the judges of a recipe on disk, and the rest of it where that can be done."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from sandbox_judge.calibration.shelf import states_on_disk
from sandbox_judge.canonical import sanitised
from sandbox_judge.cli.surface import Surface
from sandbox_judge.gate.probe import probe_cost
from sandbox_judge.recipe.check import CheckReport, check_recipe
from sandbox_judge.recipe.diagnostics import Diagnostic
from sandbox_judge.recipe.git import JUDGE_ENDINGS, MAX_ALL_BYTES, MAX_ENTRIES, MAX_JUDGE_BYTES
from sandbox_judge.recipe.rest import check_rest
from sandbox_judge.recipe.worktree import list_judges, read_files
from sandbox_judge.terminal import escaped


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("check", help="validate the judges of a recipe, and the rest of it")
    parser.add_argument(
        "dir", nargs="?", default=".", metavar="DIR", help="the recipe's folder (default: this one)"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="text (default) or json"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Print the report; 1 where it has an error. Raises RecipeError where the folder cannot be read."""
    report, has_judges, note = _report(env.cwd / args.dir)
    judges = [file.judge for file in report.files if file.judge is not None]
    states, doubts = states_on_disk(env.cwd / args.dir, judges)
    if args.output == "json":
        document = report.as_json() | {"calibration": states}
        env.out(json.dumps(sanitised(document), indent=2, ensure_ascii=True))
    else:
        for diagnostic in report.diagnostics:
            env.out(_told(diagnostic))
        for name, state in sorted(states.items()):
            if state != "uncalibrated":
                env.out(f"{escaped(name)}: {state}")
        env.out(_summary(report))
    for doubt in doubts:
        env.err(doubt)
    if note:
        env.err(note)
    if not has_judges:
        env.err("there is no judges/ here: `sandbox-judge init judge NAME` writes a first one")
    return 0 if report.valid else 1


def _report(folder: Path) -> tuple[CheckReport, bool, str | None]:
    names = list_judges(folder, JUDGE_ENDINGS)
    disk = read_files(
        folder, "judges", (names or ())[:MAX_ENTRIES], each=MAX_JUDGE_BYTES, together=MAX_ALL_BYTES
    )
    others, note = check_rest(folder)
    paths = [(f"judges/{os.fsdecode(file.name)}", file) for file in disk]
    report = check_recipe(
        [(path, file.content) for path, file in paths if file.content is not None],
        unreadable=[
            (path, file.problem or "cannot be read.") for path, file in paths if file.content is None
        ],
        others=others,
        probe=probe_cost,
    )
    if names is not None and len(names) > MAX_ENTRIES:
        note = f"judges/ holds {len(names):,} judge files: only the first {MAX_ENTRIES:,} were checked"
    return report, names is not None, note


def _told(diagnostic: Diagnostic) -> str:
    """`path:line:col: severity code message`, and the help below it; each on one line whatever it quotes."""
    place = escaped(diagnostic.path)
    if diagnostic.line is not None:
        place += f":{diagnostic.line}:{diagnostic.column or 1}"
    line = f"{place}: {diagnostic.severity} {diagnostic.code} {escaped(diagnostic.message)}"
    return f"{line}\n    {escaped(diagnostic.help)}" if diagnostic.help else line


def _summary(report: CheckReport) -> str:
    errors = sum(d.is_error for d in report.diagnostics)
    warnings = len(report.diagnostics) - errors
    counts = (_counted(report.judges, "judge"), _counted(errors, "error"), _counted(warnings, "warning"))
    return f"checked {counts[0]}: {counts[1]}, {counts[2]}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

"""`rubric report`: reads a validation report, merges scores into it, and says the verdict that follows."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from sandbox_judge.canonical import sanitised
from sandbox_judge.cli.rubric_common import (
    add_parameters,
    now_text,
    parameters,
    read_file,
    report_at,
    write_json,
)
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.nulls import ErrorType, Invalid
from sandbox_judge.rubric.report import MOST_BYTES, Report, bar_of, merged
from sandbox_judge.rubric.report_schema import report_schema
from sandbox_judge.rubric.runbook import MOST_BYTES as MOST_RUNBOOK
from sandbox_judge.rubric.runbook import Runbook, read_runbook
from sandbox_judge.rubric.scores import SOURCES, Located, Score, whole_score
from sandbox_judge.terminal import escaped


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="read, merge and write validation_report.json",
        description="Says the verdict that follows from a report's checks. With --scores, merges scores; "
        "with --write, writes version 2 with its mirrors back (or to --to). Entries of others stay as they "
        "are. Exit code 1 where the verdict is fail.",
    )
    parser.add_argument("report", nargs="?", metavar="REPORT", help="a validation_report.json, or its place")
    parser.add_argument("--runbook", metavar="RUNBOOK.md", help="whose criteria and thresholds hold")
    add_parameters(parser)
    parser.add_argument(
        "--scores",
        action="append",
        default=[],
        metavar="FILE",
        help="what `rubric score -o json` printed, or a grade.json",
    )
    parser.add_argument("--write", action="store_true", help="write the report, in its place")
    parser.add_argument("--to", metavar="FILE", help="write it there")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of a report")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run_rubric=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    """Exit 1 where the verdict is fail. Raises UsageError, InputError."""
    if args.schema:
        surface.out(json.dumps(report_schema(), indent=2))
        return 0
    if args.report is None:
        raise UsageError("no report was named.", remedy="Give its file, or --schema.")
    place = surface.cwd / args.report
    before = report_at(place, most=MOST_BYTES)
    if before is None and not args.scores:
        raise InputError("there is no such report.", where=str(place))
    runbook = None
    if args.runbook:
        data = read_file(surface.cwd / args.runbook, most=MOST_RUNBOOK)
        runbook = read_runbook(data, name=args.runbook, given=parameters(args)).usable()
    scores = [one for path in args.scores for one in _scores(surface.cwd / path)]
    if before is not None and before.version == 1 and not (scores or args.write or args.to):
        return _show(args, surface, dict(before.rest), before.passed)
    whole = merged(
        _declared(before, runbook),
        scores,
        bar=runbook.bar if runbook else bar_of(before),
        criteria=runbook.criteria if runbook else None,
        fill={"run_date": now_text(), "parameters": parameters(args)},
    )
    if args.write or args.to:
        write_json(surface.cwd / args.to if args.to else place, whole)
    return _show(args, surface, whole, bool(whole["overall_passed"]))


def _declared(report: Report | None, runbook: Runbook | None) -> Report | None:
    """With the checks that the runbook declares and nobody reported: skipped, or errors where it is strict.
    Rubric criteria are no declared checks."""
    if report is None or runbook is None:
        return report
    there = {(check.get("kind"), str(check.get("id"))) for check in report.checks}
    strict = runbook.frontmatter.strict_evaluation
    missing: list[dict[str, Any]] = []
    for one in runbook.declared:
        if (one.kind, one.id) in there or one.id == runbook.bar.item_id:
            continue
        # Code checks are read here, never run: what nobody ran is no failure of the run's.
        ours = one.kind == "checklist" or one.how == "agent"
        status = "error" if strict and ours else "skipped"
        entry = {"kind": one.kind, "id": one.id, "name": one.name, "status": status}
        missing.append({**entry, "message": "declared in the runbook, not reported"})
    return msgspec.structs.replace(report, checks=(*report.checks, *missing))


def _scores(path: Path) -> list[Score]:
    """Raises InputError for what is neither kind of file."""
    try:
        value = sanitised(json.loads(read_file(path, most=MOST_BYTES), parse_constant=str))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}.", where=str(path)) from error
    criteria = value.get("criteria") if isinstance(value, dict) else None
    if not isinstance(criteria, list) or not criteria:
        raise InputError(
            "holds no scores.",
            where=str(path),
            remedy="It should be what `rubric score -o json` printed, or a grade.json.",
        )
    return [_score(one, path) for one in criteria]


def _score(value: Any, path: Path) -> Score:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise InputError("holds a score without an id.", where=str(path))
    source = value.get("source", "judge")
    if source not in SOURCES:
        raise InputError(f"holds a score of the unknown source {source!r}.", where=str(path))
    score = whole_score(value.get("score"))
    plain = Score(
        id=value["id"],
        name=str(value.get("name") or value["id"]),
        source=source,
        message=str(value.get("message") or ""),
    )
    if score is None:
        return msgspec.structs.replace(plain, error=_null(value))
    evidence = value.get("evidence")
    quotes = msgspec.convert(evidence if isinstance(evidence, list) else [], tuple[Located, ...])
    samples = value.get("samples")
    kept = tuple(one for one in samples if isinstance(one, int)) if isinstance(samples, list) else ()
    return msgspec.structs.replace(plain, score=score, evidence=quotes, samples=kept)


def _null(value: Mapping[str, Any]) -> Invalid:
    error = value.get("error")
    given = error.get("type") if isinstance(error, dict) else None
    known: ErrorType = next((one for one in get_args(ErrorType) if one == given), "out_of_vocabulary")
    if isinstance(error, dict):
        return Invalid(type=known, message=str(error.get("message") or ""))
    shown = json.dumps(value.get("score"))[:60]
    return Invalid(type=known, message=f"the score {shown} is not a whole number from 1 to 5")


def _show(args: argparse.Namespace, surface: Surface, whole: Mapping[str, Any], passed: bool) -> int:
    if args.output == "json":
        surface.out(json.dumps(whole, allow_nan=False))
    else:
        checks: Sequence[Any] = whole.get("checks") or ()
        for check in checks:
            score = f" {check['score']}/{check.get('max_score', 5)}" if "score" in check else ""
            words = f"{check.get('kind')} {check.get('id')}: {check.get('status')}{score}"
            surface.out(f"{escaped(words)}  {escaped(str(check.get('message') or ''))[:120]}".rstrip())
        surface.out(f"verdict: {'pass' if passed else 'fail'}")
    return 0 if passed else 1

"""`trend JUDGE`: pass rate over versions or time, in segments of what may be compared."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from sandbox_judge.calibration.files import record_name
from sandbox_judge.calibration.record import Record, read_record
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.recipe.load import load_extras, load_recipe
from sandbox_judge.store.asking import add_confidence, add_filters, add_order, choice, confidence_z, order
from sandbox_judge.store.corrected import correction
from sandbox_judge.store.evidence import JudgeName, cells, find_judge
from sandbox_judge.store.options import reading
from sandbox_judge.store.rendering import FIGURES, drift_text, figures, percent, percents, short, table
from sandbox_judge.store.trend import Line, Point, Segment, as_json, trend


def add(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "trend",
        help="a judge's pass rate over versions or time",
        description="Shows a judge's pass rate per version (in commit order) or time, with intervals, "
        "coverage and nulls. A new segment begins wherever the definition or the contract version changes.",
    )
    parser.add_argument("judge", metavar="JUDGE", help="a judge's name or id")
    add_filters(parser)
    add_order(parser)
    parser.add_argument("--by", choices=("version", "day", "week", "month"), default="version")
    parser.add_argument("--by-service", action="store_true", help="a line for each service")
    parser.add_argument(
        "--join-cosmetic",
        action="store_true",
        help="read segments that differ cosmetically as one, drawn apart",
    )
    parser.add_argument(
        "--correct",
        metavar="DIR",
        help="also the pass rate corrected for the judge's errors, by its calibration record in this recipe; "
        "only where definition, contract and model are those that were measured",
    )
    parser.add_argument(
        "--correct-at", metavar="REV", help="the commit of that record (default: the recipe's HEAD)"
    )
    add_confidence(parser)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Raises UsageError, InputError, RecipeError."""
    z = confidence_z(args)
    if args.correct_at and not args.correct:
        raise UsageError("it says where the record of --correct stands.", where="--correct-at")
    with reading(args.store, env.environ) as database:
        judge = find_judge(database, args.judge, recipe_id=args.recipe)
        found = cells(database, choice(args, database, judge=args.judge), by_day=args.by != "version")
    places = order(args, {cell.series.commit for cell in found}, env.cwd, env.environ)
    lines = trend(found, places, by=args.by, split_services=args.by_service, join_cosmetic=args.join_cosmetic)
    record = anyio.run(_record, args, judge, env) if args.correct else None
    if args.output == "json":
        named = {"judge_id": judge.judge_id, "name": judge.name, "recipe_id": judge.recipe_id}

        def more(segment: Segment, point: Point) -> dict[str, Any]:
            found = correction(point, segment.set, record, z=z) if record else None
            return {"corrected": found.shown() if found else None} if record else {}

        env.out(json.dumps({"judge": named, "by": args.by, "lines": as_json(lines, z, more=more)}))
        return 0
    for text in shown(lines, z, record):
        env.out(text)
    if not lines:
        env.err("nothing is stored for this choice")
    return 0


async def _record(args: argparse.Namespace, judge: JudgeName, env: Surface) -> Record:
    """The judge's calibration record, as it is committed."""
    where = f"{args.correct} at {args.correct_at or 'HEAD'}"
    if not judge.name:
        raise InputError("a judge without a name has no calibration record.", where=where)
    source = await load_recipe(
        Path(env.cwd / args.correct), args.correct_at or "HEAD", environ=env.environ, pinned=False
    )
    files = await load_extras(source, [record_name(judge.name)], environ=env.environ)
    file = files.get(record_name(judge.name))
    if file is None or file.content is None:
        raise InputError(
            f"there is no calibration record of {judge.name!r}.",
            where=where,
            remedy="`sandbox-judge calibrate --split test` makes one; commit it.",
        )
    return read_record(file.content, where=where, judge=judge.name)


def shown(lines: Sequence[Line], z: float, record: Record | None = None) -> list[str]:
    """The lines as text for a person."""
    out: list[str] = []
    head = ["version or time", *FIGURES, "drift"]
    if record:
        head[3:3] = ["corrected", "its interval"]
    for line in lines:
        for number, segment in enumerate(line.segments):
            out += ["", *table([_heading(line, segment, number)], [], widest=200)]
            rows = []
            for point in segment.points:
                name = short(point.key) + (" (not in the repository)" if point.unknown_commit else "")
                row = [name, *figures(point.tally, z), drift_text(point.drift)]
                if record:
                    row[3:3] = _corrected(segment, point, record, z)
                rows.append(row)
            out += table(head, rows)
    return out[1:]


def _corrected(segment: Segment, point: Point, record: Record, z: float) -> list[str]:
    found = correction(point, segment.set, record, z=z)
    if found is None:
        return ["not measured", "–"]
    if found.corrected.rate is None:
        return ["undefined", found.corrected.why or "–"]
    left_out = f" (without {found.left_out:,} of other models)" if found.left_out else ""
    return [percent(found.corrected.rate), percents(found.corrected.interval) + left_out]


def _heading(line: Line, segment: Segment, number: int) -> str:
    where = ", ".join(word for word in (line.environment, line.service) if word) or "no environment"
    text = (
        f"{where}: definition {short(segment.set.definition_hash)}, contract {segment.set.contract_version}"
    )
    if not segment.set.known:
        text += " (unknown to this version)"
    if segment.joined:
        text += " (cosmetic edit: joined)"
    elif segment.cosmetic:
        text += " (cosmetic edit: --join-cosmetic joins it)"
    elif number:
        text += " (not comparable with what is above)"
    return text

"""`trend JUDGE`: pass rate over versions or time, in segments of what may be compared."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from sandbox_judge.cli.surface import Surface
from sandbox_judge.store.asking import add_confidence, add_filters, add_order, choice, confidence_z, order
from sandbox_judge.store.evidence import cells, find_judge
from sandbox_judge.store.options import reading
from sandbox_judge.store.rendering import FIGURES, drift_text, figures, short, table
from sandbox_judge.store.trend import Line, Segment, as_json, trend


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
    add_confidence(parser)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Raises UsageError, InputError, RecipeError."""
    z = confidence_z(args)
    with reading(args.store, env.environ) as database:
        judge = find_judge(database, args.judge, recipe_id=args.recipe)
        found = cells(database, choice(args, database, judge=args.judge), by_day=args.by != "version")
    places = order(args, {cell.series.commit for cell in found}, env.cwd, env.environ)
    lines = trend(found, places, by=args.by, split_services=args.by_service, join_cosmetic=args.join_cosmetic)
    if args.output == "json":
        named = {"judge_id": judge.judge_id, "name": judge.name, "recipe_id": judge.recipe_id}
        env.out(json.dumps({"judge": named, "by": args.by, "lines": as_json(lines, z)}))
        return 0
    for text in shown(lines, z):
        env.out(text)
    if not lines:
        env.err("nothing is stored for this choice")
    return 0


def shown(lines: Sequence[Line], z: float) -> list[str]:
    """The lines as text for a person."""
    out: list[str] = []
    for line in lines:
        for number, segment in enumerate(line.segments):
            out += ["", *table([_heading(line, segment, number)], [], widest=200)]
            rows = [
                [
                    short(point.key) + (" (not in the repository)" if point.unknown_commit else ""),
                    *figures(point.tally, z),
                    drift_text(point.drift),
                ]
                for point in segment.points
            ]
            out += table(["version or time", *FIGURES, "drift"], rows)
    return out[1:]


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

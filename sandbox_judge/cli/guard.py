"""`guard JUDGE`: a standing check for CI that the newest version is not credibly worse."""

import argparse
import json
from typing import Any

from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.store.asking import add_confidence, add_filters, add_order, choice, confidence_z, order
from sandbox_judge.store.compare import Guarded, guard, one_environment
from sandbox_judge.store.evidence import cells, full_commits
from sandbox_judge.store.options import reading
from sandbox_judge.store.rendering import FIGURES, figures, percent, points, short, table


def add(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "guard",
        help="exit 1 when the newest version is credibly worse",
        description="Compares the newest version's pass rate with a baseline of the same comparable set: all "
        "earlier versions, one version, or a floor. Exit 1 when the whole interval lies below.",
    )
    parser.add_argument("judge", metavar="JUDGE", help="a judge's name or id")
    add_filters(parser)
    add_order(parser)
    baseline = parser.add_mutually_exclusive_group()
    baseline.add_argument("--baseline", metavar="COMMIT", help="compare with this version")
    baseline.add_argument("--floor", type=float, metavar="RATE", help="compare with a rate, 0 to 1")
    parser.add_argument("--at", metavar="COMMIT", help="look at this version, not the newest")
    parser.add_argument("--strict", action="store_true", help="exit 1 too where the evidence gives no answer")
    add_confidence(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Exit 1 when the guard does not hold. Raises UsageError, InputError, RecipeError."""
    z = confidence_z(args)
    if args.floor is not None and not 0 <= args.floor <= 1:
        raise UsageError(f"{args.floor} is no rate.", where="--floor", remedy="Give a number from 0 to 1.")
    with reading(args.store, env.environ) as database:
        found = cells(database, choice(args, database, judge=args.judge))
        named = [full_commits(database, [one])[0] if one else None for one in (args.baseline, args.at)]
    found, note = one_environment(found)
    if note:
        env.err(note)
    if not found or (named[1] and not any(cell.series.commit == named[1] for cell in found)):
        raise InputError("nothing is stored for this choice.", remedy="See `sandbox-judge judgements`.")
    places = order(args, {cell.series.commit for cell in found}, env.cwd, env.environ)
    result = guard(found, places, z=z, floor=args.floor, baseline=named[0], version=named[1])
    if args.output == "json":
        env.out(json.dumps(result.shown(z)))
    else:
        for line in _text(result, z):
            env.out(line)
    return int(result.below is True or (result.below is None and args.strict))


def _text(result: Guarded, z: float) -> list[str]:
    rows = [[short(result.version), *figures(result.newest, z)]]
    if result.against is not None:
        name = "earlier versions" if result.baseline == "earlier" else "baseline"
        rows.append([name, *figures(result.against, z)])
    lines = table(["version", *FIGURES], rows)
    if result.difference is not None:
        lines.append(f"newest less baseline: {points(result.difference)}")
    if result.floor is not None:
        lines.append(f"floor: {percent(result.floor)}")
    verdict = {True: "FAILS: credibly below", False: "holds: not credibly below", None: "no answer"}
    return [*lines, verdict[result.below] + (f": {result.reason}" if result.reason else "")]

"""`experiment ID`: arms compared under one pinned judge."""

import argparse
import json
from typing import Any

import msgspec

from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError
from sandbox_judge.store.asking import add_confidence, add_filters, choice, confidence_z
from sandbox_judge.store.compare import Refusal, one_environment
from sandbox_judge.store.evidence import cells, find_judge, in_many_arms
from sandbox_judge.store.experiment import Experiment, arm_name, bound, experiment
from sandbox_judge.store.options import reading
from sandbox_judge.store.rendering import (
    FIGURES,
    drift_text,
    figures,
    percent,
    percents,
    points,
    short,
    table,
)


def add(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "experiment",
        help="compare the arms of an experiment",
        description="Compares an experiment's arms under one judge, pinned by id and definition. Refuses "
        "(exit 2) where an arm has no matching evidence, or the evidence is of two contract versions.",
    )
    parser.add_argument("experiment", metavar="EXPERIMENT", help="its id, or what the host calls it")
    parser.add_argument("--judge", required=True, metavar="JUDGE", help="the judge that decides")
    add_filters(parser)
    parser.add_argument("--control", metavar="ARM", help="differences are against this arm")
    parser.add_argument("--arm", action="append", default=[], metavar="ARM", help="an arm that must be there")
    parser.add_argument(
        "--guard", action="append", default=[], metavar="JUDGE>=RATE", help="what an arm must keep besides"
    )
    add_confidence(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Exit 2 where the arms are not comparable. Raises UsageError, InputError."""
    z = confidence_z(args)
    bounds = [bound(text) for text in args.guard]
    with reading(args.store, env.environ) as database:
        base = msgspec.structs.replace(
            choice(args, database), experiment=args.experiment, definition_hash=None, one_arm=True
        )
        everything, note = one_environment(cells(database, base))
        if not everything:
            raise InputError(f"nothing is stored of experiment {args.experiment!r}.")
        judge = find_judge(database, args.judge, recipe_id=args.recipe)
        both = in_many_arms(database, msgspec.structs.replace(base, judge_id=judge.judge_id))
        watched = {one: find_judge(database, one.judge, recipe_id=args.recipe).judge_id for one in bounds}
    if note:
        env.err(note)
    if both:
        env.err(f"{both:,} conversations were judged in more than one arm, and are left out")
    result = experiment(
        [cell for cell in everything if cell.series.judge_id == judge.judge_id],
        arms=[*args.arm, *{arm_name(cell) for cell in everything}],
        z=z,
        control=args.control,
        definition_hash=args.definition,
        guards={
            one: [cell for cell in everything if cell.series.judge_id == judge_id]
            for one, judge_id in watched.items()
        },
    )
    if args.output == "json":
        shown = result.shown() if isinstance(result, Refusal) else result.shown(z)
        env.out(json.dumps({"experiment": args.experiment, "in_many_arms": both, **shown}))
    elif isinstance(result, Refusal):
        for reason in result.reasons:
            env.err(f"not comparable: {reason}")
    else:
        for line in _text(result, z):
            env.out(line)
    return 2 if isinstance(result, Refusal) else 0


def _text(result: Experiment, z: float) -> list[str]:
    heading = f"definition {short(result.set.definition_hash)}, contract {result.set.contract_version}"
    rows = [
        [arm.name, *figures(arm.tally, z), percents(arm.credible), percent(arm.best)] for arm in result.arms
    ]
    lines = [*table([heading], [], widest=200), *table(["arm", *FIGURES, "credible", "best"], rows)]
    notes: list[str] = []
    for arm in result.arms:
        if arm.difference:
            notes.append(f"{arm.name} less {result.control}: {points(arm.difference)}")
        if arm.drift:
            notes.append(f"{arm.name}, other than {result.control}: {drift_text(arm.drift)}")
        for kept in arm.guards:
            limit = f">= {kept.bound.least}" if kept.bound.least is not None else f"<= {kept.bound.most}"
            state = {True: "holds", False: "BROKEN", None: "no evidence"}[kept.holds]
            why = kept.reason or percent(kept.tally.rate)
            notes.append(f"{arm.name}: {kept.bound.judge} {limit} {state} ({why})")
    return [*lines, *(table([note], [], widest=400)[0] for note in notes)]

"""`budget`: which time budget a recipe needs for a wished coverage, from what its judges took so far."""

import argparse
import importlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from sandbox_judge.canonical import canonical_json
from sandbox_judge.cli.surface import Surface
from sandbox_judge.coverage.advice import Advice, advise
from sandbox_judge.coverage.observed import Observation, read_lines
from sandbox_judge.coverage.plot import svg_plot
from sandbox_judge.coverage.report import json_of, settings_of_advice, text_of
from sandbox_judge.errors import CheckFailed, InputError, MissingExtra, UsageError
from sandbox_judge.paths import config_dir
from sandbox_judge.settings_edit import edit_settings
from sandbox_judge.settings_files import settings_path

_KEYS: Final = ("budget_ms", "per_judge_ms", "concurrency")


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "budget",
        help="coverage against time from past judgements; recommend a budget",
        description="Reads past judgements and says what share of verdicts arrives within which time. A "
        "judge that was cut off counts as one that takes longer, not as one that was not there.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--events", nargs="+", metavar="FILE", help="judgement events, a line each (-: stdin)"
    )
    source.add_argument("--store", metavar="URL", help="a store of collected judgements")
    parser.add_argument("--recipe", metavar="ID", help="only this recipe's; needed for --apply among several")
    parser.add_argument("--coverage", type=float, default=0.99, metavar="SHARE", help="wished (default 0.99)")
    parser.add_argument("--apply", action="store_true", help="write the recommendation to the live settings")
    parser.add_argument("--try", dest="try_", action="store_true", help="with --apply: also one to try")
    parser.add_argument("--why", metavar="TEXT", help="for the settings' history")
    parser.add_argument("--settings", metavar="FILE", help="the settings to write (docs/settings.md)")
    parser.add_argument(
        "--insecure", action="store_true", help="settings that others can write (development)"
    )
    parser.add_argument("--svg", metavar="FILE", help="draw the curves (one recipe)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, InputError, SettingsError, MissingExtra, CheckFailed."""
    if not 0 < args.coverage < 1:
        raise UsageError(f"{args.coverage} is not between 0 and 1.", where="--coverage")
    found = _observations(args, surface)
    advices = [
        advise(observations, recipe_id=recipe_id, wished=args.coverage)
        for recipe_id, observations in sorted(found.items())
    ]
    if len(advices) > 1 and (args.apply or args.svg):
        ids = ", ".join(advice.recipe_id or "(none)" for advice in advices)
        raise UsageError(
            f"these are judgements of several recipes: {ids}.", remedy="Choose one: --recipe ID."
        )
    if args.svg:
        _write(surface.cwd / args.svg, svg_plot(advices[0]))
    if args.output == "json":
        value = json_of(advices[0]) if len(advices) == 1 else [json_of(advice) for advice in advices]
        surface.out(canonical_json(value).decode("ascii"))
    else:
        for number, advice in enumerate(advices):
            for line in ["", *text_of(advice)] if number else text_of(advice):
                surface.out(line)
    if args.apply:
        _apply(advices[0], args, surface)
    return 0


def _observations(args: argparse.Namespace, surface: Surface) -> dict[str, list[Observation]]:
    """By recipe. Raises InputError where there is nothing to learn from."""
    lines = _stored(args, surface) if args.store else _from_files(args.events, surface)
    read = read_lines(lines, recipe_id=args.recipe)
    if read.unreadable:
        surface.err(f"sandbox-judge: {read.unreadable} lines cannot be read and were left out.")
    found: dict[str, list[Observation]] = {}
    for one in read.observations:
        found.setdefault(one.recipe_id, []).append(one)
    if not found:
        also = f" ({read.left_out} of other recipes, dry runs, re-grades or double)" if read.left_out else ""
        raise InputError(
            f"there are no judgements to learn from{also}.",
            remedy="Give events of `run`, or another --recipe.",
        )
    return found


def _stored(args: argparse.Namespace, surface: Surface) -> Iterable[str]:
    try:
        module = importlib.import_module("sandbox_judge.coverage.stored")
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"reading a store needs {error.name}.",
            where="--store",
            remedy="Install it: pip install 'sandbox-judge[store]'.",
        ) from error
    lines: Iterable[str] = module.stored_lines(args.store, surface.environ, recipe_id=args.recipe)
    return lines


def _from_files(names: Iterable[str], surface: Surface) -> Iterator[bytes]:
    for name in names:
        if name == "-":
            yield from surface.stdin
            continue
        try:
            with open(surface.cwd / name, "rb") as file:
                yield from file
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise InputError(f"cannot be read ({reason}).", where=name) from error


def _apply(advice: Advice, args: argparse.Namespace, surface: Surface) -> None:
    if advice.total_s is None and not args.try_:
        raise CheckFailed(
            f"a coverage of {advice.wished:g} is not known from these runs, so nothing was written.",
            remedy="Ask for less coverage, or write the budget to try with --apply --try.",
        )
    recipe_id = args.recipe or advice.recipe_id
    if not recipe_id:
        raise UsageError("these judgements name no recipe.", remedy="Name the one to set: --recipe ID.")
    wanted = settings_of_advice(advice)
    before: dict[str, Any] = {}

    def change(value: dict[str, Any]) -> None:
        recipe = value.setdefault("recipes", {}).setdefault(recipe_id, {})
        for key in _KEYS:
            if key in recipe:
                before[key] = recipe.pop(key)
        recipe.update(wanted)

    path = settings_path(
        surface.cwd / args.settings if args.settings else None,
        surface.environ,
        config_dir(surface.environ).path,
    )
    edit_settings(
        surface.cwd / path,
        change,
        what={"command": "budget", "recipe": recipe_id, "before": before, "after": wanted},
        who=surface.environ.get("USER") or f"uid {os.getuid()}",
        why=args.why or f"coverage {advice.wished:g}",
        insecure=args.insecure,
    )
    told = ", ".join(f"{key} {value}" for key, value in wanted.items())
    surface.err(f"sandbox-judge: wrote {told} for {recipe_id} to {path}.")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"cannot be written ({reason}).", where=str(path)) from error

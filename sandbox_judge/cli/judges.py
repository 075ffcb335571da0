"""`judges list|enable|disable|sample-rate`: live settings of a recipe's judges (`spec/settings.md`).

They switch and sample; they can never alter a definition: what a judge is stands in its file, at a commit.
"""

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.assembly import open_recipe
from sandbox_judge.calibration.of_recipe import calibration_states
from sandbox_judge.cli.surface import Surface
from sandbox_judge.envelope import RecipeRef, envelope_of_variables
from sandbox_judge.errors import CheckFailed, UsageError
from sandbox_judge.ids import judge_id_of
from sandbox_judge.judgement import Calibration
from sandbox_judge.paths import config_dir
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.settings import JudgeSettings, LiveSettings, Settings
from sandbox_judge.settings_edit import edit_settings, judge_entry
from sandbox_judge.settings_files import read_settings_files, settings_path

_DEFINITION: Final = "A judge's definition stands in its file, at a commit: edit judges/*.yaml and commit."


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "judges",
        help="list a recipe's judges; switch them on and off, set their sampling rate",
        description="Shows and changes live settings. Changes are atomic, read back, and kept in "
        "settings.history.jsonl with who, when and why. " + _DEFINITION,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _action(actions, "list", "each judge with id, hash, whether it is on, its rate and calibration")
    for name, does in (("enable", "switch a judge on"), ("disable", "switch a judge off")):
        _action(actions, name, does).add_argument("judge", metavar="JUDGE")
    rate = _action(actions, "sample-rate", "share of production conversations that a judge grades")
    rate.add_argument("judge", metavar="JUDGE")
    rate.add_argument("rate", metavar="RATE", help="from 0 to 1")
    parser.set_defaults(run=run)


def _action(actions: Any, name: str, does: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=does, description=does)
    parser.add_argument("--recipe", metavar="DIR", help="default: SANDBOX_JUDGE_RECIPE")
    parser.add_argument("--commit", metavar="ID", help="any revision (default HEAD)")
    parser.add_argument("--recipe-id", metavar="ID", help="default: package.json's name at the commit")
    parser.add_argument("--settings", metavar="FILE", help="the settings file that is changed")
    parser.add_argument("--insecure", action="store_true", help="allow settings that others can write")
    if name == "list":
        parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    else:
        parser.add_argument("--why", metavar="REASON", help="kept in the history")
    if name in ("enable", "sample-rate"):
        parser.add_argument(
            "--uncalibrated", metavar="REASON", help="switch on a judge that is not calibrated all the same"
        )
    return parser


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One judge as `list` shows it."""

    name: str
    judge_id: str
    definition_hash: str
    enabled: bool
    sample_rate: float
    calibration: Calibration


def run(args: argparse.Namespace, surface: Surface) -> int:
    recipe, states = anyio.run(_loaded, args, surface)
    if args.action == "list":
        _list(args, surface, recipe, states)
        return 0
    flag, environ = _flag(args, surface), surface.environ
    names = sorted(loaded.file.name for loaded in recipe.judges if loaded.file.name)
    if args.judge not in names:
        raise UsageError(
            f"the recipe {recipe.recipe_id} has no judge named {args.judge!r} at {recipe.commit}.",
            remedy=f"It has {', '.join(names) or 'none'}.",
        )
    before = _live(args, surface).judge(recipe.recipe_id, args.judge)
    change = _change(args)
    _hold_calibrated(args, before, states.get(args.judge, "uncalibrated"))
    path = settings_path(flag, environ, config_dir(environ).path)
    written = edit_settings(
        path,
        lambda value: judge_entry(value, recipe.recipe_id, args.judge).update(change),
        what={"recipe": recipe.recipe_id, "judge": args.judge, "change": change, "was": _was(before, change)},
        who=_who(surface),
        why=args.uncalibrated if getattr(args, "uncalibrated", None) else args.why,
        insecure=args.insecure,
    )
    _tell(args, surface, path, recipe.recipe_id, written)
    return 0


async def _loaded(args: argparse.Namespace, surface: Surface) -> tuple[LoadedRecipe, dict[str, Calibration]]:
    ref = envelope_of_variables(surface.environ).recipe
    recipe = await open_recipe(
        RecipeRef(
            path=args.recipe or ref.path,
            commit=args.commit or ref.commit or "HEAD",
            id=args.recipe_id or ref.id,
        ),
        environ=surface.environ,
        cwd=surface.cwd,
        dry_run=True,
    )
    return recipe, await calibration_states(recipe, environ=surface.environ)


def _flag(args: argparse.Namespace, surface: Surface) -> Path | None:
    return surface.cwd / args.settings if args.settings else None


def _live(args: argparse.Namespace, surface: Surface) -> LiveSettings:
    environ = surface.environ
    flag = _flag(args, surface)
    if flag is not None and not flag.exists():
        flag = None  # the command that changes it will make it
    sources = read_settings_files(flag, environ, config_dir(environ).path, insecure=args.insecure)
    return LiveSettings(sources=sources)


def _list(
    args: argparse.Namespace, surface: Surface, recipe: LoadedRecipe, states: dict[str, Calibration]
) -> None:
    live = _live(args, surface)
    rows = []
    for loaded in recipe.judges:
        name = loaded.file.name
        if name is None or loaded.duplicate:
            continue
        settings = live.judge(recipe.recipe_id, name)
        rows.append(
            Row(
                name=name,
                judge_id=judge_id_of(recipe.recipe_id, name, configured=settings.id),
                definition_hash=loaded.file.definition_hash,
                enabled=settings.enabled is not False,
                sample_rate=1.0 if settings.sample_rate is None else settings.sample_rate,
                calibration=states.get(name, "uncalibrated"),
            )
        )
    if args.output == "json":
        record = {"recipe_id": recipe.recipe_id, "commit": recipe.commit, "judges": msgspec.to_builtins(rows)}
        surface.out(json.dumps(record))
        return
    surface.out(f"recipe {recipe.recipe_id} at {recipe.commit}")
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        switch = "on " if row.enabled else "off"
        surface.out(
            f"  {row.name:{width}}  {switch}  rate {row.sample_rate:<6g}  {row.calibration:12}  "
            f"{row.judge_id}  {row.definition_hash[:19]}"
        )


def _change(args: argparse.Namespace) -> dict[str, Any]:
    if args.action in ("enable", "disable"):
        return {"enabled": args.action == "enable"}
    try:
        rate = float(args.rate)
    except ValueError:
        rate = math.nan
    if not 0 <= rate <= 1:
        raise UsageError(
            f"{args.rate!r} is no rate.", where="sample-rate", remedy="Give a number from 0 to 1."
        )
    return {"sample_rate": rate}


def _hold_calibrated(args: argparse.Namespace, before: JudgeSettings, state: Calibration) -> None:
    """Refuses to bring a judge before live traffic that nobody has held against labels."""
    begins = args.action == "enable" or (
        args.action == "sample-rate" and before.sample_rate == 0 and float(args.rate) > 0
    )
    if begins and state != "calibrated" and not args.uncalibrated:
        raise CheckFailed(
            f"the judge {args.judge} is {state}: nobody knows how far it agrees with people's labels.",
            remedy=f"Run `sandbox-judge calibrate {args.judge} --split test` and commit its record, or give "
            '--uncalibrated "reason", which the history keeps. Nothing was changed.',
        )


def _was(before: JudgeSettings, change: dict[str, Any]) -> dict[str, Any]:
    return {key: getattr(before, key) for key in change}


def _who(surface: Surface) -> str:
    name = surface.environ.get("SUDO_USER") or surface.environ.get("USER") or surface.environ.get("LOGNAME")
    return f"{name} (uid {os.getuid()})" if name else f"uid {os.getuid()}"


def _tell(args: argparse.Namespace, surface: Surface, path: Path, recipe_id: str, written: Settings) -> None:
    """What is in force now, which another source may decide otherwise than the file just written."""
    in_file = LiveSettings(sources=(written,)).judge(recipe_id, args.judge)
    in_force = _live(args, surface).judge(recipe_id, args.judge)
    switch = "on" if in_force.enabled else "off"
    surface.out(f"{args.judge}: {switch}, rate {in_force.sample_rate:g} (written to {path})")
    if (in_file.enabled, in_file.sample_rate) != (in_force.enabled, in_force.sample_rate):
        surface.err("sandbox-judge: another source or entry decides otherwise than what was just written.")

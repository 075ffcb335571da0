"""What `calibrate` and `probe` share: whose judge, which model, how long, how many calls at once."""

import argparse
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.admission import with_model
from sandbox_judge.assembly import live_settings, open_recipe
from sandbox_judge.calibration.target import judge_named, recipe_folder
from sandbox_judge.calibration.trials import Grader
from sandbox_judge.calibration.verdict_log import VerdictLog
from sandbox_judge.cli.run_request import LOCAL_ALLOWANCE, LOCAL_CONCURRENCY, model_override
from sandbox_judge.cli.surface import Surface
from sandbox_judge.durations import parse_duration
from sandbox_judge.envelope import Envelope, RecipeRef
from sandbox_judge.errors import UsageError
from sandbox_judge.grading.view import ALLOWANCE
from sandbox_judge.ids import judge_id_of
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.lanes.memory import FileMemory
from sandbox_judge.nulls import Invalid
from sandbox_judge.paths import config_dir, state_dir
from sandbox_judge.recipe.judge import Judge
from sandbox_judge.settings import LiveSettings
from sandbox_judge.settings_files import read_settings_files

_CONCURRENCY: Final = 8
_MOST_AT_ONCE: Final = 1_000


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The judge under test and all that its model is asked with."""

    judge: Judge
    judge_id: str
    recipe: Path
    settings: LiveSettings
    local: str | None
    concurrency: int
    budget_s: float
    fresh: bool

    @property
    def llm(self) -> dict[str, Any]:
        return {"provider": self.judge.llm.provider, "model": self.judge.llm.model}


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("judge", metavar="JUDGE", help="the judge's name")
    parser.add_argument(
        "--recipe", metavar="DIR", help="the recipe's folder, read from disk (default: this one)"
    )
    parser.add_argument("--recipe-id", metavar="ID")
    parser.add_argument("--dataset", metavar="FILE", help="another file than judges/JUDGE.calibration.jsonl")
    parser.add_argument("--settings", metavar="FILE", help="live settings (docs/settings.md)")
    parser.add_argument("--insecure", action="store_true", help="allow settings that others can write")
    parser.add_argument("--model", metavar="[PROVIDER/]MODEL", help="instead of the judge's own")
    parser.add_argument(
        "--local", nargs="?", const="", metavar="PATH.gguf", help="a small model in this process; no judge"
    )
    parser.add_argument("--budget", metavar="TIME", help="for everything (default: no end)")
    parser.add_argument("--concurrency", type=int, metavar="N", help="calls at once (default 8, --local 1)")
    parser.add_argument("--fresh", action="store_true", help="ask again for verdicts that are had already")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


async def setting_of(args: argparse.Namespace, surface: Surface) -> Setting:
    """Raises UsageError, RecipeError, SettingsError, TrustError."""
    environ = surface.environ
    folder = recipe_folder(args.recipe, environ.get("SANDBOX_JUDGE_RECIPE"), surface.cwd)
    recipe = await open_recipe(
        RecipeRef(path=str(folder), id=args.recipe_id, worktree=True),
        environ=environ,
        cwd=surface.cwd,
        dry_run=True,
    )
    judge = judge_named(recipe, args.judge)
    override = model_override(args.model)
    if override is not None:
        judge = with_model(judge, override)
    flag = surface.cwd / args.settings if args.settings else None
    files = read_settings_files(flag, environ, config_dir(environ).path, insecure=args.insecure)
    settings = live_settings(files, envelope=Envelope(), recipe_id=recipe.recipe_id)
    configured = settings.judge(recipe.recipe_id, judge.name).id
    local = args.local is not None
    concurrency = args.concurrency or (LOCAL_CONCURRENCY if local else _CONCURRENCY)
    if not 1 <= concurrency <= _MOST_AT_ONCE:
        raise UsageError(f"{concurrency} calls at once cannot be.", where="--concurrency")
    return Setting(
        judge=judge,
        judge_id=judge_id_of(recipe.recipe_id, judge.name, configured=configured),
        recipe=folder,
        settings=settings,
        local=args.local,
        concurrency=concurrency,
        budget_s=parse_duration(args.budget, name="--budget") if args.budget else math.inf,
        fresh=args.fresh,
    )


@asynccontextmanager
async def grader_of(setting: Setting, surface: Surface) -> AsyncIterator[Grader]:
    """The grader with its lanes and the verdicts that are had already; both are closed in the end."""
    environ, local = surface.environ, setting.local is not None
    state = state_dir(environ).path
    memory = None if local else FileMemory(state, now=time.time)
    weights = surface.cwd / setting.local if setting.local else None
    lanes = Lanes(environ, memory=memory, weights=weights)
    grader = Grader(
        setting.judge,
        settings=setting.settings,
        environ=environ,
        lanes=lanes,
        log=None,
        deadline=anyio.current_time() + setting.budget_s,
        local=local,
        allowance=LOCAL_ALLOWANCE if local else ALLOWANCE,
    )
    grader.log = log = VerdictLog(state / "calibration", _identity(grader, setting), fresh=setting.fresh)
    try:
        yield grader
    finally:
        log.close()
        with anyio.CancelScope(shield=True):
            await lanes.aclose()


def _identity(grader: Grader, setting: Setting) -> dict[str, Any]:
    """What a verdict holds for: the definition, the model and where it is asked, and the view's allowance."""
    endpoint = grader.endpoint
    return {
        "definition_hash": setting.judge.definition_hash,
        "llm": setting.llm,
        "local": setting.local,
        "endpoint": None if isinstance(endpoint, Invalid) else endpoint.base_url,
        "allowance": grader.allowance,
    }


def share(text: str, *, name: str) -> float:
    """`0.9` or `90%` as a share of 1. Raises UsageError."""
    body = text.strip()
    try:
        value = float(body.removesuffix("%")) / (100 if body.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UsageError(f"{text!r} is no share.", where=name, remedy="Write 0.9 or 90%.")
    return value

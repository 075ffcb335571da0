"""What `rubric score` and `loop`, `simple-judge` and `grade` share: which model judges, within what."""

import argparse
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal

import anyio
import msgspec

from sandbox_judge.cli.run_request import LOCAL_BUDGET_S, LOCAL_CONCURRENCY, model_override
from sandbox_judge.cli.surface import Surface
from sandbox_judge.durations import parse_duration
from sandbox_judge.errors import UsageError
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.lanes.memory import FileMemory
from sandbox_judge.paths import config_dir, state_dir
from sandbox_judge.recipe.base_url import fault_of
from sandbox_judge.recipe.judge import DEFAULT_PROVIDER, Llm, LocalEndpoint, ModelRequest, Transport
from sandbox_judge.rubric.judge_model import JudgeModel, takes_pictures
from sandbox_judge.settings import LiveSettings
from sandbox_judge.settings_files import read_settings_files

MODEL_VARIABLE: Final = "SANDBOX_JUDGE_MODEL"
_CONCURRENCY: Final = 16
_MOST_AT_ONCE: Final = 1_000
Pictures = Literal["auto", "send", "skip"]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The model and the bounds of one command. `budget_s` is for the whole of it, in seconds."""

    llm: Llm
    settings: LiveSettings
    budget_s: float
    concurrency: int
    most_calls: int | None
    pictures: bool
    local: str | None = None


def add_judge_options(parser: argparse.ArgumentParser, *, budget: str, flag: str = "--model") -> None:
    """The flags; `flag` names the model."""
    group = parser.add_argument_group("the judge's model")
    group.add_argument(
        flag,
        dest="model",
        metavar="[PROVIDER/]MODEL",
        help=f"who judges (else the variable {MODEL_VARIABLE})",
    )
    group.add_argument("--base-url", metavar="URL", help="an endpoint in OpenAI's wire format")
    group.add_argument("--api-key-env", metavar="NAME", help="the variable that holds the key for --base-url")
    group.add_argument("--local", nargs="?", const="", metavar="PATH.gguf", help="a small model; no judge")
    group.add_argument("--budget", default=budget, metavar="TIME", help=f"for all of it (default {budget})")
    group.add_argument("--timeout", default="60s", metavar="TIME", help="of one call (default 60s)")
    group.add_argument("--retries", type=int, default=2, metavar="N", help="of one call (default 2)")
    group.add_argument("--concurrency", type=int, metavar="N", help=f"calls at once (default {_CONCURRENCY})")
    group.add_argument("--max-calls", type=int, metavar="N", help="calls in all (default: no bound)")
    group.add_argument(
        "--images",
        choices=("auto", "send", "skip"),
        default="auto",
        help="send pictures: to models known to take them (auto), always, never",
    )
    group.add_argument("--settings", metavar="FILE", help="live settings (docs/settings.md)")
    group.add_argument("--insecure", action="store_true", help="allow settings that others can write")


def chosen(args: argparse.Namespace, surface: Surface, *, request: ModelRequest | None = None) -> Chosen:
    """What the flags, the variable and the settings make. Raises UsageError, SettingsError, TrustError."""
    local = args.local is not None
    name = args.model or surface.environ.get(MODEL_VARIABLE) or ("local/bundled" if local else None)
    override = model_override(name)
    if override is None:
        raise UsageError(
            "no model was named to judge.", where="--model", remedy=f"Give it, or set {MODEL_VARIABLE}."
        )
    flag = surface.cwd / args.settings if args.settings else None
    place = config_dir(surface.environ).path
    files = read_settings_files(flag, surface.environ, place, insecure=args.insecure)
    concurrency = args.concurrency or (LOCAL_CONCURRENCY if local else _CONCURRENCY)
    if not 1 <= concurrency <= _MOST_AT_ONCE:
        raise UsageError(f"{concurrency} calls at once cannot be.", where="--concurrency")
    if args.max_calls is not None and args.max_calls < 1:
        raise UsageError(f"{args.max_calls} calls are none.", where="--max-calls")
    timeout_s = parse_duration(args.timeout, name="--timeout")
    if not 0 < timeout_s <= 3_600 or not 0 <= args.retries <= 10:
        raise UsageError("a call may take up to an hour, and be repeated up to 10 times.", where="--timeout")
    llm = Llm(
        model=override.model,
        provider=override.provider or DEFAULT_PROVIDER,
        request=request or ModelRequest(),
        transport=Transport(
            timeout_ms=round((LOCAL_BUDGET_S if local else timeout_s) * 1000), max_retries=args.retries
        ),
        local=_endpoint(args),
    )
    return Chosen(
        llm=llm,
        settings=LiveSettings(sources=files),
        budget_s=max(0.0, parse_duration(args.budget, name="--budget")),
        concurrency=concurrency,
        most_calls=args.max_calls,
        pictures=args.images == "send" or (args.images == "auto" and takes_pictures(llm.model)),
        local=args.local,
    )


def _endpoint(args: argparse.Namespace) -> LocalEndpoint | None:
    if args.base_url is None and args.api_key_env is None:
        return None
    if args.base_url is None or args.api_key_env is None:
        raise UsageError(
            "--base-url and --api-key-env belong together.",
            remedy="The second is the NAME of the variable that holds the key.",
        )
    fault = fault_of(args.base_url)
    if fault:
        raise UsageError(f"{fault}.", where="--base-url")
    return LocalEndpoint(base_url=args.base_url, api_key_env=args.api_key_env)


@asynccontextmanager
async def judge_model(choice: Chosen, surface: Surface) -> AsyncIterator[JudgeModel]:
    """The model with its lanes, which are closed in the end. Raises MissingExtra, UsageError."""
    local = choice.local is not None
    memory = None if local else FileMemory(state_dir(surface.environ).path, now=time.time)
    weights = surface.cwd / choice.local if choice.local else None
    lanes = Lanes(surface.environ, memory=memory, weights=weights)
    if local:
        lanes.get("local")
    try:
        yield JudgeModel(
            choice.llm,
            lanes=lanes,
            settings=choice.settings,
            environ=surface.environ,
            concurrency=choice.concurrency,
            most_calls=choice.most_calls,
            local=local,
        )
    finally:
        with anyio.CancelScope(shield=True):
            await lanes.aclose()

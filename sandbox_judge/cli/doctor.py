"""`doctor`: what is ready, what is not, and the remedy; no model is called and nothing is written."""

import argparse
import importlib.util
import json
import os
import platform
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import msgspec

from sandbox_judge.access import endpoint_for
from sandbox_judge.assembly import live_settings, open_recipe
from sandbox_judge.cli.surface import Surface
from sandbox_judge.envelope import Envelope, RecipeRef, envelope_of_variables
from sandbox_judge.errors import SandboxJudgeError
from sandbox_judge.lanes.address import HttpFailure, origin_and_target, proxy_for
from sandbox_judge.lanes.choose import lane_for
from sandbox_judge.lanes.connect import Connector
from sandbox_judge.nulls import Invalid
from sandbox_judge.paths import config_dir, state_dir
from sandbox_judge.recipe.git_process import find_git
from sandbox_judge.recipe.judge import Judge
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.settings import LiveSettings, Settings
from sandbox_judge.settings_files import read_settings_files
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.trust import require_private
from sandbox_judge.version import __version__

_CONNECT_S: Final = 5.0
_OPENAI: Final = "https://api.openai.com/v1"
_EXTRAS: Final = {
    "local": ("xllamacpp", "the local lane (--local)"),
    "calibration": ("sklearn", "calibrate, probe and budget"),
    "store": ("sqlalchemy", "collect, trend and compare"),
}
State = Literal["ok", "note", "fault"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. A `note` is no fault: something is absent that may not be needed."""

    about: str
    state: State
    told: str
    remedy: str = ""


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="say what is ready, what is not, and the remedy",
        description="Looks at git, the recipe, settings, keys, endpoints (a connection, no request), sinks "
        "and the spool. Exit code 1 where something is at fault.",
    )
    parser.add_argument("--recipe", metavar="DIR")
    parser.add_argument("--commit", metavar="ID", help="any revision (default HEAD)")
    parser.add_argument("--recipe-id", metavar="ID")
    parser.add_argument("--settings", metavar="FILE")
    parser.add_argument("--sink", action="append", default=[], metavar="ADDRESS")
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    findings = anyio.run(_Doctor(args, surface).look)
    if args.output == "json":
        surface.out(json.dumps([msgspec.to_builtins(finding) for finding in findings]))
    else:
        for finding in findings:
            surface.out(f"{finding.state:5}  {finding.about:12}  {finding.told}")
            if finding.remedy:
                surface.out(f"{'':21}{finding.remedy}")
    return 1 if any(finding.state == "fault" for finding in findings) else 0


class _Doctor:
    def __init__(self, args: argparse.Namespace, surface: Surface) -> None:
        self.args, self.surface, self.environ = args, surface, surface.environ
        self.found: list[Finding] = []

    async def look(self) -> list[Finding]:
        self.say("version", "ok", f"sandbox_judge {__version__}, Python {platform.python_version()}")
        self.tried("git", lambda: find_git(self.environ))
        settings = self.settings()
        recipe = await self.recipe()
        if recipe is not None:
            live = live_settings(settings, envelope=Envelope(), recipe_id=recipe.recipe_id)
            await self.models(recipe, live)
        self.sinks()
        self.spool()
        self.extras()
        return self.found

    def say(self, about: str, state: State, told: str, remedy: str = "") -> None:
        self.found.append(Finding(about=about, state=state, told=told, remedy=remedy))

    def fault(self, about: str, error: SandboxJudgeError) -> None:
        where = f"{error.where}: " if error.where else ""
        self.say(about, "fault", f"{where}{error.message}", error.remedy)

    def tried(self, about: str, look: Callable[[], str]) -> None:
        try:
            self.say(about, "ok", look())
        except SandboxJudgeError as error:
            self.fault(about, error)

    def settings(self) -> tuple[Settings, ...]:
        flag = self.surface.cwd / self.args.settings if self.args.settings else None
        place = config_dir(self.environ)
        try:
            files = read_settings_files(flag, self.environ, place.path, insecure=self.args.insecure)
        except SandboxJudgeError as error:
            self.fault("settings", error)
            return ()
        if place.warning:
            self.say("settings", "note", place.warning)
        self.say(
            "settings", "ok", f"{len(files)} source(s)" if files else "none: every judge is on, at rate 1"
        )
        return files

    async def recipe(self) -> LoadedRecipe | None:
        ref = envelope_of_variables(self.environ).recipe
        path = self.args.recipe or ref.path
        if path is None:
            self.say("recipe", "note", "none was named", "Give --recipe DIR to have its judges looked at.")
            return None
        commit = self.args.commit or ref.commit or "HEAD"
        try:
            recipe = await open_recipe(
                RecipeRef(path=path, commit=commit, id=self.args.recipe_id or ref.id),
                environ=self.environ,
                cwd=self.surface.cwd,
                dry_run=True,
                deadline=anyio.current_time() + 30,
            )
        except SandboxJudgeError as error:
            self.fault("recipe", error)
            return None
        valid = [judge for judge in recipe.judges if judge.file.judge is not None]
        self.say("recipe", "ok", f"{recipe.recipe_id} at {recipe.commit}: {len(valid)} judges")
        if recipe.recipe_id_guessed:
            self.say(
                "recipe", "note", "its id is guessed from the folder's name",
                "Give --recipe-id, or a name in package.json at the commit.",
            )  # fmt: skip
        for judge in recipe.judges:
            for diagnostic in judge.faults:
                self.say("judge", "fault", f"{diagnostic.path}: {diagnostic.code}: {diagnostic.message}")
        return recipe

    async def models(self, recipe: LoadedRecipe, live: LiveSettings) -> None:
        """Each endpoint once: the key is there, and something answers a connection."""
        seen = set()
        for judge in (loaded.file.judge for loaded in recipe.judges):
            if judge is None:
                continue
            provider = judge.llm.provider
            lane = lane_for(
                provider,
                local_endpoint=judge.llm.local is not None,
                provider_lane=live.provider(provider).lane,
            )
            about = judge.llm.local.base_url if judge.llm.local else provider
            if (about, lane) in seen:
                continue
            seen.add((about, lane))
            await self.model(judge, lane, about, live)

    async def model(self, judge: Judge, lane: str, about: str, live: LiveSettings) -> None:
        endpoint = endpoint_for(judge.llm, live, self.environ, dry_run=False)
        if isinstance(endpoint, Invalid):
            self.say("model", "fault", f"{about} (judge {judge.name}): {endpoint.message}")
            return
        url = endpoint.base_url or (_OPENAI if lane == "openai_wire" else None)
        if url is None:
            self.say("model", "ok", f"{about}: key present; litellm knows the address")
            return
        try:
            origin, _ = origin_and_target(url)
            with anyio.fail_after(_CONNECT_S):
                stream = await Connector(self.environ).open(origin, proxy_for(origin, self.environ))
                await stream.aclose()
            self.say("model", "ok", f"{about}: key present, {origin} answers ({lane})")
        except (HttpFailure, TimeoutError, OSError) as error:
            why = str(error) or "no connection within 5 s"
            self.say("model", "fault", f"{about}: {url} cannot be reached: {why}")

    def sinks(self) -> None:
        addresses = self.args.sink or self.environ.get("SANDBOX_JUDGE_SINK", "").split() or ["stdout"]
        for address in addresses:
            self.tried("sink", lambda address=address: self.sink(address))  # type: ignore[misc]

    def sink(self, address: str) -> str:
        (sink,) = open_sinks([address], environ=self.environ, cwd=self.surface.cwd)
        scheme, _, path = sink.name.partition(":")
        if scheme not in ("unix", "unix+ack"):
            return sink.name
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_CONNECT_S)
            try:
                probe.connect(path)
            except OSError as error:
                raise SandboxJudgeError(
                    f"nobody listens there ({os.strerror(error.errno or 0)}).",
                    where=sink.name,
                    remedy="Start the collector; until then events wait in the spool.",
                ) from error
        return f"{sink.name} answers"

    def spool(self) -> None:
        place = state_dir(self.environ)
        directory = place.path / "spool"
        if place.warning:
            self.say("spool", "note", place.warning)
        if not directory.exists():
            self.say("spool", "ok", f"{directory} will be made when it is needed")
            return
        self.tried("spool", lambda: self.waiting(directory))

    def waiting(self, directory: Path) -> str:
        require_private(directory, insecure=self.args.insecure)
        count = sum(1 for _ in _files(directory))
        return (
            f"{directory}: {count} file(s) wait, `sandbox-judge flush` delivers"
            if count
            else f"{directory}: empty"
        )

    def extras(self) -> None:
        for extra, (module, what) in _EXTRAS.items():
            if importlib.util.find_spec(module) is not None:
                self.say("extra", "ok", f"{extra}: installed ({what})")
            else:
                self.say(
                    "extra",
                    "note",
                    f"{extra}: not installed",
                    f"For {what}: pip install 'sandbox-judge[{extra}]'",
                )


def _files(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.suffix == ".events" and stat.S_ISREG(path.lstat().st_mode):
            yield path

"""`serve`: the resident runner, from its flags to its end."""

import argparse
import gc
import os
import resource
import signal
import socket
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc

from sandbox_judge.cli.crash import crash_report
from sandbox_judge.cli.run_request import redactable
from sandbox_judge.cli.surface import Surface
from sandbox_judge.durations import parse_duration
from sandbox_judge.errors import DeliveryError, UsageError
from sandbox_judge.hosts.resuming import keep_resuming
from sandbox_judge.log import Log
from sandbox_judge.masking import secrets_of
from sandbox_judge.paths import config_dir, state_dir
from sandbox_judge.resident.listening import listen, remove
from sandbox_judge.resident.notify import memory_bytes, notify, reloading
from sandbox_judge.resident.plan import Outside, Plan
from sandbox_judge.resident.server import Server
from sandbox_judge.settings import Settings
from sandbox_judge.settings_files import read_settings_files
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.trust import own_uid

SUMMARY: Final = "the resident runner: ready before the conversation ends"
_START_S: Final = 30.0
_LET_GO_S: Final = 0.1
_QUIET_S: Final = 1.0
_DESCRIPTORS: Final = 4096
_MIB: Final = 1024 * 1024


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "serve",
        help=SUMMARY,
        description="Keep a recipe, its gates and the connections to its judges' models ready, and grade "
        "what `call` hands over. SIGTERM ends it within --grace, SIGHUP reads the settings again.",
    )
    parser.add_argument("--listen", required=True, metavar="PATH", help="the unix socket, at most 107 bytes")
    parser.add_argument("--recipe", metavar="DIR", help="default: SANDBOX_JUDGE_RECIPE")
    parser.add_argument(
        "--commit", metavar="ID", help="the full id to have ready; a request may name another"
    )
    parser.add_argument("--recipe-id", metavar="ID", help="default: package.json's name at the commit")
    parser.add_argument("--settings", metavar="FILE", help="live settings (docs/settings.md)")
    parser.add_argument(
        "--sink",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="where every event goes as well (repeatable; default: to the client alone)",
    )
    parser.add_argument("--budget", metavar="TIME", help="the most that a request gets (default: settings)")
    parser.add_argument(
        "--calls", type=int, default=20, metavar="N", help="model calls at once, all together (default 20)"
    )
    parser.add_argument("--concurrency", type=int, metavar="N", help="calls at once for one conversation")
    parser.add_argument("--grace", default="5s", metavar="TIME", help="to end well in (default 5s)")
    parser.add_argument(
        "--allow-uid", action="append", type=int, default=[], metavar="UID", help="who may call, besides us"
    )
    parser.add_argument(
        "--max-request", type=int, default=64, metavar="MIB", help="the largest request (default 64)"
    )
    parser.add_argument("--redact", metavar="WHAT", default="", help="leave out reasoning, evidence, or both")
    parser.add_argument(
        "--insecure", action="store_true", help="allow directories that others can write (development)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, SettingsError, TrustError, RecipeError: before it listens, never later."""
    log = Log(surface.stderr, format=args.log_format, verbosity=-1 if args.quiet else args.verbose)
    service = _Service(args, surface, log)
    return anyio.run(service.main)


class _Service:
    def __init__(self, args: argparse.Namespace, surface: Surface, log: Log) -> None:
        self.surface, self.log = surface, log
        self.path = surface.cwd / args.listen
        self.grace_s = parse_duration(args.grace, name="--grace")
        self.flag = surface.cwd / args.settings if args.settings else None
        self.plan = plan_of(args, surface)
        self.drained = True
        self.first: signal.Signals | None = None

    async def main(self) -> int:
        surface, plan = self.surface, self.plan
        # Faults of addresses and directories are told now, not at the first conversation.
        open_sinks(plan.sinks, environ=surface.environ, cwd=surface.cwd, stdout=surface.events_fd)
        spool = Spool(plan.state / "spool", insecure=plan.insecure)
        try:
            spool.prepare()
        except DeliveryError as error:
            self.log.warning(error.paragraph())
        finally:
            spool.close()
        server = Server(plan, self._outside())
        await server.load(deadline=anyio.current_time() + _START_S)
        _raise_descriptors()
        listener = listen(self.path, for_others=bool(plan.allowed_uids - {own_uid()}), insecure=plan.insecure)
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as connections:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(server.door.open, listener, connections)
                    tasks.start_soon(server.keep_warm)
                    tasks.start_soon(_tidy, server)
                    tasks.start_soon(keep_resuming, plan.state, self.path, surface.environ)
                    tasks.start_soon(self._signals, signals, server, tasks.cancel_scope)
                    self._ready()
                await self._end(server, listener)
                surface.exit_soon(self._code(), _LET_GO_S)
                connections.cancel_scope.cancel()
            with anyio.move_on_after(_LET_GO_S, shield=True):
                await server.lanes.aclose()
        return self._code()

    def _outside(self) -> Outside:
        surface = self.surface
        return Outside(
            environ=dict(surface.environ),
            cwd=surface.cwd,
            log=self.log,
            crashed=self._crashed,
            settings=self._settings,
            events_fd=surface.events_fd,
        )

    def _settings(self) -> tuple[Settings, ...]:
        place = config_dir(self.surface.environ)
        return read_settings_files(self.flag, self.surface.environ, place.path, insecure=self.plan.insecure)

    def _ready(self) -> None:
        # What is there now stays: the collector need not look at it again in the middle of a conversation.
        gc.collect()
        gc.freeze()
        mib = memory_bytes() / _MIB
        notify(
            self.surface.environ,
            "READY=1",
            f"STATUS=ready at {self.path}, {mib:.0f} MiB",
            f"MAINPID={os.getpid()}",
        )
        if not self.log.quiet:
            self.surface.err(f"sandbox-judge: ready at {self.path} ({mib:.0f} MiB)")

    async def _signals(self, signals: Any, server: Server, scope: anyio.CancelScope) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                notify(self.surface.environ, reloading())
                server.reload()
                notify(self.surface.environ, "READY=1")
                continue
            self.first = signal.Signals(number)
            scope.cancel()
            return

    async def _end(self, server: Server, listener: socket.socket) -> None:
        """Ends what runs within the grace; a second signal ends the waiting."""
        notify(self.surface.environ, "STOPPING=1")
        remove(self.path, listener)
        async with anyio.create_task_group() as tasks:

            async def hurry() -> None:
                with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as again:
                    async for _ in again:
                        server.stop_now()

            tasks.start_soon(hurry)
            self.drained = await server.drain(self.grace_s)
            tasks.cancel_scope.cancel()
        if not self.drained:
            self.log.warning("stopped before all was graded", conversations=server.cut_short)

    def _code(self) -> int:
        return 0 if self.drained or self.first is None else 128 + self.first

    def _crashed(self, error: BaseException) -> str:
        crash_id, text = crash_report(error, secrets_of(self.surface.environ))
        self.surface.err(text)
        return crash_id


async def _tidy(server: Server) -> None:
    """Collects garbage between conversations, so that it is seldom done within one, and memory stays low."""
    tidied = server.last_asked
    while True:
        await anyio.sleep(_QUIET_S)
        now = anyio.current_time()
        if server.running == 0 and server.last_asked != tidied and now - server.last_asked > _QUIET_S / 2:
            tidied = server.last_asked
            gc.collect()


def plan_of(args: argparse.Namespace, surface: Surface) -> Plan:
    """The plan that flags and variables make. Raises UsageError."""
    environ = surface.environ
    recipe = args.recipe or environ.get("SANDBOX_JUDGE_RECIPE")
    if not recipe:
        raise UsageError("no recipe was named.", remedy="Give --recipe DIR, or SANDBOX_JUDGE_RECIPE.")
    for name, number in (("--calls", args.calls), ("--concurrency", args.concurrency)):
        if number is not None and number < 1:
            raise UsageError(f"{number} calls at once is none.", where=name, remedy="Give 1 or more.")
    if not 1 <= args.max_request <= 1024:
        raise UsageError(f"{args.max_request} MiB is out of range.", where="--max-request")
    budget = args.budget or environ.get("SANDBOX_JUDGE_BUDGET")
    return Plan(
        recipe=recipe,
        recipe_id=args.recipe_id or environ.get("SANDBOX_JUDGE_RECIPE_ID") or None,
        commit=args.commit or environ.get("SANDBOX_JUDGE_COMMIT") or None,
        sinks=tuple(args.sink),
        budget_s=parse_duration(budget, name="--budget") if budget else None,
        calls=args.calls,
        concurrency=args.concurrency,
        most_bytes=args.max_request * _MIB,
        allowed_uids=frozenset({own_uid(), *args.allow_uid}),
        redact=redactable(args.redact),
        state=Path(state_dir(environ).path),
        insecure=args.insecure or environ.get("SANDBOX_JUDGE_INSECURE") == "1",
    )


def _raise_descriptors() -> None:
    """Each conversation needs a connection to its client and some to models."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wished = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wished:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wished, hard))

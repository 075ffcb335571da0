"""`flush`: deliver the events that are still in the spool."""

import argparse
from pathlib import Path
from typing import Any, Final

import anyio

from sandbox_judge.cli.surface import Surface
from sandbox_judge.durations import parse_duration
from sandbox_judge.paths import state_dir
from sandbox_judge.resident.reply import REPLY, KeptReply
from sandbox_judge.sinks.base import Sink
from sandbox_judge.sinks.flush import FlushReport, flush
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.terminal import escaped

_BUDGET: Final = "30s"


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "flush",
        help="deliver the events that are still in the spool",
        description="Deliver the events that earlier runs left in the spool, oldest first. Exit code 0 when "
        "nothing is left, 3 otherwise.",
    )
    parser.add_argument(
        "--sink",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="only what waits for this sink (may be repeated); default: every sink named in the spool",
    )
    parser.add_argument(
        "--budget", default=_BUDGET, metavar="DURATION", help=f"time to take at most (default {_BUDGET})"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="development only: accept a spool that others can write"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """The exit code. Raises UsageError, SettingsError, TrustError, DeliveryError."""
    budget_s = parse_duration(args.budget, name="--budget")
    spool = Spool(spool_directory(env), insecure=args.insecure)
    only = open_sinks(args.sink, environ=env.environ, cwd=env.cwd, stdout=env.events_fd)
    try:
        report = anyio.run(_flushed, spool, only, env, budget_s)
    finally:
        spool.close()
    _show(report, env)
    return report.exit_code


def spool_directory(env: Surface) -> Path:
    """Where every command of this user keeps the spool."""
    return state_dir(env.environ).path / "spool"


async def _flushed(spool: Spool, only: list[Sink], env: Surface, budget_s: float) -> FlushReport:
    def opener(address: str) -> Sink:
        if address == REPLY:
            return KeptReply(env.events_fd)
        return open_sinks([address], environ=env.environ, cwd=env.cwd, stdout=env.events_fd)[0]

    return await flush(spool, opener=opener, only=only, deadline=anyio.current_time() + budget_s)


def _show(report: FlushReport, env: Surface) -> None:
    for message in report.messages:
        env.err(message)
    told = 0
    for what, counts in (
        ("delivered {} to {}", report.delivered),
        ("waiting {} for {}", report.waiting),
        ("not asked for {} for {}", report.other),
    ):
        for name, count in sorted(counts.items()):
            # stdout is for events where some go there.
            say = env.err if {REPLY, "stdout"} & report.delivered.keys() else env.out
            say(what.format(count, escaped(name)))
            told += 1
    if not told:
        env.out("nothing to deliver")

"""`hooks`: put the judge into agents' hosts, take it out, see what is there, and find what ended unseen."""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any, Final

from sandbox_judge.cli import hooks_install
from sandbox_judge.cli.surface import Surface
from sandbox_judge.durations import parse_duration
from sandbox_judge.errors import DeliveryError, InputError, UsageError
from sandbox_judge.hosts.host import NAMES
from sandbox_judge.hosts.jobs import Jobs
from sandbox_judge.hosts.places import log_line
from sandbox_judge.hosts.summary import markdown
from sandbox_judge.hosts.sweep import resume, submit_unseen, tidy
from sandbox_judge.hosts.work import Workshop, work
from sandbox_judge.paths import state_dir

_QUIET: Final = "10m"
_SINCE: Final = "24h"


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "hooks",
        help="put the judge into the agents that people run",
        description="Put the judge into an agent's host, take it out again, see what is installed, and find "
        "sessions that ended without an event.",
    )
    commands = parser.add_subparsers(dest="hooks_command", required=True, parser_class=type(parser))
    hooks_install.add(commands)
    sweep = commands.add_parser(
        "sweep",
        help="do what waits, and judge sessions that ended unseen",
        description="Do the jobs whose worker was killed, then look for sessions of the named hosts that "
        "ended without an event. For a timer, or the end of a sandbox.",
    )
    sweep.add_argument("hosts", nargs="*", metavar="HOST", help=f"of {', '.join(NAMES)}; default: jobs only")
    sweep.add_argument(
        "--idle", default=_QUIET, metavar="TIME", help=f"how long a session must be quiet (default {_QUIET})"
    )
    sweep.add_argument(
        "--since", default=_SINCE, metavar="TIME", help=f"how old a session may be (default {_SINCE})"
    )
    sweep.add_argument(
        "--confined",
        action="store_true",
        help="jobs come from one who is less trusted: they name conversations, the resident runner all else",
    )
    sweep.set_defaults(action=_sweep)
    summary = commands.add_parser(
        "summary",
        help="judgements as Markdown, for a CI job's summary",
        description="Write the judgements in a file of events as a Markdown table to stdout.",
    )
    summary.add_argument("events", metavar="FILE")
    summary.set_defaults(action=_summary)
    one = commands.add_parser("work", help="do one job of the spool (hooks start this)")
    one.add_argument("key", metavar="JOB")
    one.add_argument("--budget", metavar="TIME", help="for everything; without it judging's own")
    one.set_defaults(action=_work)


def run(args: argparse.Namespace, surface: Surface) -> int:
    action: Callable[[argparse.Namespace, Surface], int] = args.action
    return action(args, surface)


def _work(args: argparse.Namespace, surface: Surface) -> int:
    """Always 0: a hook may have become this process, and its host must not hear of a fault."""
    budget_s = parse_duration(args.budget, name="--budget") if args.budget else None
    try:
        if not args.key.isalnum():
            raise UsageError(f"{args.key[:80]!r} is no job.")
        work(_workshop(surface, budget_s), args.key)
    except Exception as error:  # nobody reads this process's stderr
        log_line(dict(surface.environ), f"job {args.key}: {type(error).__name__}: {error}")
    return 0


def _sweep(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, DeliveryError."""
    unknown = [name for name in args.hosts if name not in NAMES]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no host.", remedy=f"Hosts: {', '.join(NAMES)}.")
    idle_s = parse_duration(args.idle, name="--idle")
    since_s = parse_duration(args.since, name="--since")
    shop = _workshop(surface, None, confined=args.confined)
    found = sum(
        submit_unseen(name, shop.jobs, surface.environ, idle_s=idle_s, since_s=since_s) for name in args.hosts
    )
    done = resume(shop)
    shop.jobs.forget(now=time.time())
    tidy(shop.state, now=time.time())
    surface.out(f"{done} jobs done, {found} of them for sessions that ended unseen")
    if failed := len(shop.jobs.failed()):
        surface.out(f"{failed} jobs of the last two weeks could not be done: {shop.state}/hooks.log says why")
    return 0


def _summary(args: argparse.Namespace, surface: Surface) -> int:
    """Raises InputError."""
    path = surface.cwd / args.events
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"cannot be read ({os.strerror(error.errno or 0)}).", where=str(path)) from error
    surface.out(markdown(lines).rstrip("\n"))
    return 0


def _workshop(surface: Surface, budget_s: float | None, *, confined: bool = False) -> Workshop:
    environ = dict(surface.environ)
    state = str(state_dir(environ).path)
    folder = os.path.join(state, "jobs")
    try:
        jobs = Jobs(folder)
    except OSError as error:
        raise DeliveryError(
            f"the job spool cannot be used ({error.strerror}).",
            where=str(error.filename or folder),
            remedy="Name a directory that this user may write by SANDBOX_JUDGE_STATE_DIR.",
        ) from error
    return Workshop(
        jobs=jobs,
        state=state,
        environ=environ,
        log=lambda text: log_line(environ, text),
        budget_s=budget_s,
        confined=confined,
    )

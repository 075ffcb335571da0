"""`hooks install`, `uninstall` and `list`: the arguments, what is shown, what `hosts.install` is asked."""

import argparse
import json
import os
from pathlib import Path
from typing import Any, Final

from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError
from sandbox_judge.hosts.host import IDLE, NAMES, SESSION_END, TURN, WHENS, host_named
from sandbox_judge.hosts.install import (
    PROJECT,
    USER,
    Change,
    Site,
    apply,
    difference,
    planned,
    site_of,
    undo,
    undoing,
)
from sandbox_judge.hosts.receipts import Receipt, as_json, installed, receipts
from sandbox_judge.hosts.selftest import fault_of
from sandbox_judge.paths import config_dir, data_dir, state_dir
from sandbox_judge.terminal import escaped
from sandbox_judge.version import __version__

_ENVIRONMENTS: Final = ("development", "staging", "production")


def add(commands: Any) -> None:
    """The three commands below `hooks`; each sets `action`."""
    install = commands.add_parser(
        "install",
        help="put the judge into a host's configuration",
        description="Put the judge into a host's own configuration: the difference is shown, comments, order "
        "and others' entries stay, and doing it twice changes nothing.",
    )
    _add_site(install)
    install.add_argument("--recipe", metavar="DIR", help="the recipe's clone; judged is the commit it is at")
    install.add_argument("--commit", metavar="ID", help="always this commit of it")
    install.add_argument(
        "--when",
        choices=WHENS,
        help=f"judge at the {SESSION_END}, once {IDLE}, each {TURN} (default: the host's)",
    )
    install.add_argument("--environment", choices=_ENVIRONMENTS, help="only production is sampled")
    install.add_argument("--settings", metavar="FILE", help="live settings, with `api_key_file` for the keys")
    install.add_argument("--socket", metavar="PATH", help="a resident runner (`serve --listen`) to ask first")
    install.add_argument(
        "--sink",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="default: judgements.jsonl, state folder",
    )
    install.add_argument("--dry-run", action="store_true", help="show the difference, write nothing")
    install.set_defaults(action=_install)
    uninstall = commands.add_parser(
        "uninstall",
        help="take it out again",
        description="Take the judge out of a host's configuration. Where nobody has changed the file since, "
        "it gets back the bytes that it had.",
    )
    _add_site(uninstall)
    uninstall.add_argument("--dry-run", action="store_true", help="show the difference, write nothing")
    uninstall.set_defaults(action=_uninstall)
    listed = commands.add_parser("list", help="what is installed, where, and does it work")
    listed.add_argument("-o", "--output", choices=("text", "json"), default="text")
    listed.set_defaults(action=_list)


def _add_site(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="HOST", help=", ".join(NAMES))
    parser.add_argument("--scope", choices=(USER, PROJECT), default=USER, help="default: user")
    parser.add_argument(
        "--project", metavar="DIR", help="with --scope project: default the working directory"
    )


def _site(args: argparse.Namespace, surface: Surface) -> Site:
    project = surface.cwd / (args.project or ".")
    if args.scope == PROJECT and not project.is_dir():
        raise UsageError("there is no such folder.", where=str(project))
    return site_of(
        args.host,
        scope=args.scope,
        project=os.path.abspath(project),
        environ=surface.environ,
        data=str(data_dir(surface.environ).path),
    )


def _install(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, with everything left as it was."""
    site = _site(args, surface)
    when = args.when or site.host.when
    changes = planned(site, when, _variables(args, surface))
    _show(changes, surface)
    if args.dry_run:
        return 0
    apply(site, when, changes)
    if any(change.is_one for change in changes):
        surface.out(f"{site.host.name}: installed in {escaped(site.target)}, judges at {when}")
    else:
        surface.out(f"{site.host.name}: is installed like that already")
    fault = fault_of(site.host, site.command, when, surface.environ)
    if fault:
        surface.err(f"sandbox-judge: the self-test failed: {fault}")
    if site.host.wiring is not None and site.host.wiring.note:
        surface.out(site.host.wiring.note)
    return 1 if fault else 0


def _uninstall(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError."""
    site = _site(args, surface)
    receipt = installed(site.receipt)
    if receipt is None:
        surface.out(f"{site.host.name}: is not installed there")
        return 0
    changes = undoing(site, receipt)
    _show(changes, surface)
    if not args.dry_run:
        undo(site, receipt, changes)
        surface.out(f"{site.host.name}: taken out of {escaped(site.target)}")
    return 0


def _list(args: argparse.Namespace, surface: Surface) -> int:
    """1 where an installation does not work."""
    found = [(receipt, _fault(receipt, surface)) for receipt in receipts(str(data_dir(surface.environ).path))]
    if args.output == "json":
        rows = [{**as_json(receipt), "fault": fault or None} for receipt, fault in found]
        surface.out(json.dumps(rows, indent=2))
    else:
        for receipt, fault in found:
            where = receipt.project or "user"
            age = "" if receipt.version == __version__ else f", installed by {receipt.version}"
            line = f"{receipt.host}  {where}  at {receipt.when}{age}  {fault or 'works'}"
            surface.out(escaped(line))
            for file in receipt.files:
                surface.out(f"  {escaped(file.path)}")
        if not found:
            surface.out(f"nothing is installed; hosts: {', '.join(NAMES)}")
    return 1 if any(fault for _, fault in found) else 0


def _fault(receipt: Receipt, surface: Surface) -> str:
    gone = [file.path for file in receipt.files if not os.path.exists(file.path)]
    if gone:
        return f"{gone[0]} is gone"
    if not any(_mentions(file.path, receipt.command) for file in receipt.files[1:]):
        return "the host's configuration has no such hook any more"
    if receipt.host not in NAMES:
        return "it is no host that this version knows"
    return fault_of(host_named(receipt.host), receipt.command, receipt.when, surface.environ)


def _mentions(path: str, command: str) -> bool:
    try:
        return command in Path(path).read_text("utf-8", "replace")
    except OSError:
        return False


def _variables(args: argparse.Namespace, surface: Surface) -> dict[str, str]:
    """What the shim sets where the host's environment does not: hosts strip it, jobs must be found."""
    environ = surface.environ

    def whole(path: str | None) -> str | None:
        return os.path.abspath(surface.cwd / path) if path else None

    wished = {
        "SANDBOX_JUDGE_STATE_DIR": str(state_dir(environ).path),
        "SANDBOX_JUDGE_CONFIG_DIR": str(config_dir(environ).path),
        "SANDBOX_JUDGE_RECIPE": whole(args.recipe) or environ.get("SANDBOX_JUDGE_RECIPE"),
        "SANDBOX_JUDGE_COMMIT": args.commit,
        "SANDBOX_JUDGE_ENVIRONMENT": args.environment,
        "SANDBOX_JUDGE_SETTINGS": whole(args.settings),
        "SANDBOX_JUDGE_SOCKET": whole(args.socket),
        "SANDBOX_JUDGE_SINK": " ".join(args.sink) or None,
    }
    if not wished["SANDBOX_JUDGE_RECIPE"]:
        raise UsageError("no recipe was named.", remedy="Give --recipe DIR, or set SANDBOX_JUDGE_RECIPE.")
    return {name: value for name, value in wished.items() if value}


def _show(changes: list[Change], surface: Surface) -> None:
    for change in changes:
        if change.is_one:
            for line in difference(change):
                surface.out(line)

"""`report`: the Judgements page, written to one file or served on loopback."""

import argparse
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError
from sandbox_judge.store.asking import add_confidence, add_order, confidence_z
from sandbox_judge.store.commit_order import CommitOrder, order_in
from sandbox_judge.store.conversations import Kept
from sandbox_judge.store.database import Database, told
from sandbox_judge.store.evidence import Choice, cells
from sandbox_judge.store.html import html
from sandbox_judge.store.options import add_store, reading
from sandbox_judge.store.page_server import PageServer
from sandbox_judge.store.report import gather


def add(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report",
        help="the Judgements page",
        description="Writes the Judgements page as one self-contained file, or serves it on 127.0.0.1.",
    )
    add_store(parser)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--html", metavar="FILE", help="write the page there (- is stdout)")
    how.add_argument("--serve", action="store_true", help="serve it on 127.0.0.1 until interrupted")
    parser.add_argument("--port", type=int, default=8787, help="for --serve (default 8787; 0: any free one)")
    parser.add_argument("--recipe", metavar="ID", help="only this recipe's judges")
    parser.add_argument("--conversations", metavar="DIR", help="where collect keeps them, to show views")
    add_order(parser)
    add_confidence(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Raises UsageError, InputError, RecipeError."""
    z = confidence_z(args)
    kept = Kept(directory=env.cwd / args.conversations) if args.conversations else None
    with reading(args.store, env.environ) as database:

        def make() -> bytes:
            with told(database):
                order = _order(args, database, env)
                return html(gather(database, order=order, z=z, recipe_id=args.recipe, kept=kept))

        if args.serve:
            _serve(make, args.port, env)
        elif args.html == "-":
            env.write(make())
            env.stdout.flush()
        else:
            _write(env.cwd / args.html, make())
    return 0


def _order(args: argparse.Namespace, database: Database, env: Surface) -> CommitOrder:
    if not args.repo:
        return CommitOrder()
    commits = {cell.series.commit for cell in cells(database, Choice(recipe_id=args.recipe))}
    return order_in(env.cwd / args.repo, {commit for commit in commits if commit}, env.environ)


def _write(path: Path, page: bytes) -> None:
    """Whole or not at all, and private: reasoning quotes what people said."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(page)
        os.replace(unfinished, path)
    except OSError as err:
        unfinished.unlink(missing_ok=True)
        raise UsageError(f"the page cannot be written: {err.strerror}.", where=str(path)) from err


def _serve(make: Callable[[], bytes], port: int, env: Surface) -> None:
    with PageServer(make, port=port) as server:
        server.page()  # what fails, fails before anything is announced

        def stop(_signal: int, _frame: object) -> None:
            # From another thread: shutdown waits for the loop that this handler interrupts.
            threading.Thread(target=server.shutdown, daemon=True).start()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            env.err(f"serving {server.address} (read-only; Ctrl-C ends it)")
            server.serve_forever(poll_interval=0.1)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

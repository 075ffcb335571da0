"""`collect`: take events into a store, from files, stdin or a socket (`docs/store.md`)."""

import argparse
import json
import signal
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

import anyio
import anyio.to_thread
import msgspec

from sandbox_judge.cli.collect_otlp import add_otlp, forwarding_to, sent_on
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, SandboxJudgeError, UsageError
from sandbox_judge.store.collector import MAX_LINE, Collector, unix_listener
from sandbox_judge.store.conversations import Kept, kept_in
from sandbox_judge.store.database import Database
from sandbox_judge.store.forwarder import Forwarder
from sandbox_judge.store.ingest import Taken
from sandbox_judge.store.lines import LineBuffer, Overlong
from sandbox_judge.store.migrate import writing
from sandbox_judge.store.options import add_store
from sandbox_judge.store.retention import let_go
from sandbox_judge.store.writer import BATCH, Storing, Writer, now_microseconds, read_lines

_DAY: Final = 86_400.0
_SWEEP_SECONDS: Final = 3600.0
_PATIENCE_SECONDS: Final = 10.0
_LAST_WORDS_SECONDS: Final = 3.0
_CHUNK: Final = 1024 * 1024
_CONVERSATION_LINE: Final = 16 * 1024 * 1024


def add(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "collect",
        help="take events into a store",
        description="Takes judgements and ledgers from files (JSON Lines), stdin or a socket into a store.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="JSON Lines; - is stdin")
    add_store(parser)
    parser.add_argument("--listen", metavar="unix:PATH", help="serve a unix socket until SIGTERM")
    parser.add_argument("--conversations", metavar="DIR", help="keep conversations there (default: nowhere)")
    parser.add_argument("--keep-days", type=float, metavar="N", help="let go of whole months older than this")
    parser.add_argument(
        "--keep-conversations-days", type=float, metavar="N", help="let go of conversations older than this"
    )
    add_otlp(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--insecure", action="store_true", help="accept directories that others can write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Exit 3 where events could not be stored. Raises UsageError, InputError, DeliveryError, TrustError."""
    alone = args.keep_days is not None or args.otlp is not None
    if bool(args.listen) == bool(args.files) and not (alone and not args.files):
        raise UsageError(
            "nothing to collect from." if not args.files else "files and --listen exclude each other.",
            remedy="Name files (- is stdin), or --listen unix:PATH.",
        )
    for days in (args.keep_days, args.keep_conversations_days):
        if days is not None and not 0 < days < 100_000:
            raise UsageError(f"{days} is no number of days to keep.")
    kept = kept_in(env.cwd / args.conversations, insecure=args.insecure) if args.conversations else None
    with writing(args.store, env.environ) as database, forwarding_to(args, database, env) as forwarder:
        storing = Storing(database, kept)
        _sweep(args, database, kept, env)
        behind = False
        if args.listen:
            anyio.run(_listen, args, database, storing, kept, forwarder, env)
        else:
            _read_files(args.files, storing, kept, env)
            behind = forwarder is not None and not anyio.run(sent_on, forwarder, _PATIENCE_SECONDS, True)
        _report(storing, forwarder, args.output, env)
        if behind:
            env.err("not all of it was sent on: the next collect with this --otlp goes on from there")
    return 3 if storing.lost or behind else 0


def _sweep(args: argparse.Namespace, database: Database, kept: Kept | None, env: Surface) -> None:
    if args.keep_days is not None:
        gone = let_go(database, keep_s=args.keep_days * _DAY, now=now_microseconds())
        if gone.judgements or gone.ledgers:
            env.err(f"let go: {gone.judgements:,} judgements and {gone.ledgers:,} ledgers of past months")
    if kept and args.keep_conversations_days is not None:
        gone_conversations = kept.let_go(keep_s=args.keep_conversations_days * _DAY)
        if gone_conversations:
            env.err(f"let go: {gone_conversations:,} conversations")


def _read_files(files: list[str], storing: Storing, kept: Kept | None, env: Surface) -> None:
    for name in files:
        if name == "-":
            _take_all(_lines(env.stdin, kept), storing)
            continue
        try:
            with open(env.cwd / name, "rb") as file:
                _take_all(_lines(file, kept), storing)
        except OSError as err:
            raise InputError(f"it cannot be read: {err.strerror or err}.", where=name) from err


def _lines(file: BinaryIO, kept: Kept | None) -> Iterator[bytes | Overlong]:
    buffer = LineBuffer(_longest(kept))
    while chunk := file.read(_CHUNK):
        yield from buffer.feed(chunk)
    if rest := buffer.end():
        yield rest


def _longest(kept: Kept | None) -> int:
    return _CONVERSATION_LINE if kept else MAX_LINE


def _take_all(lines: Iterable[bytes | Overlong], storing: Storing) -> None:
    batch: list[bytes | Overlong] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH:
            storing.store_patiently(read_lines(batch), patience_s=_PATIENCE_SECONDS)
            batch = []
    if batch:
        storing.store_patiently(read_lines(batch), patience_s=_PATIENCE_SECONDS)


async def _listen(
    args: argparse.Namespace,
    database: Database,
    storing: Storing,
    kept: Kept | None,
    forwarder: Forwarder | None,
    env: Surface,
) -> None:
    scheme, _, path = args.listen.partition(":")
    if scheme != "unix" or not path:
        raise UsageError(f"{args.listen!r} is no address to listen on.", remedy="Write unix:PATH.")
    collector = Collector(Writer(storing, env.err), max_line=_longest(kept))
    async with (
        unix_listener(env.cwd / path, insecure=args.insecure) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_stop_on_signal, collector)
        tasks.start_soon(_sweep_hourly, args, database, kept, env)
        if forwarder:
            tasks.start_soon(forwarder.run)
        await collector.serve(
            listener, ready=lambda: env.err(f"collecting on {args.listen} into {database.shown}")
        )
        tasks.cancel_scope.cancel()
    if forwarder:
        await sent_on(forwarder, _LAST_WORDS_SECONDS, False)


async def _stop_on_signal(collector: Collector) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            collector.stop()


async def _sweep_hourly(
    args: argparse.Namespace, database: Database, kept: Kept | None, env: Surface
) -> None:
    while True:
        await anyio.sleep(_SWEEP_SECONDS)
        try:
            await anyio.to_thread.run_sync(_sweep, args, database, kept, env)
        except (SandboxJudgeError, OSError) as err:  # collecting goes on; the next hour tries again
            env.err(f"nothing was let go: {err}")


def _report(storing: Storing, forwarder: Forwarder | None, output: str, env: Surface) -> None:
    sent = {} if forwarder is None else {"sent_on": forwarder.sent, "left_out": forwarder.left_out}
    if output == "json":
        env.out(json.dumps({**msgspec.to_builtins(storing.taken), "lost": storing.lost, **sent}))
    env.err(summary(storing.taken))
    if forwarder is not None:
        env.err(f"sent on: {forwarder.sent:,} judgements")
        if forwarder.held_elsewhere:
            env.err("another collector sends to the same destination; what is left is for that one")
    if storing.lost:
        env.err(f"{storing.lost:,} lines could not be stored; they were not acknowledged")


def summary(taken: Taken) -> str:
    """What became of the lines, in one sentence."""
    parts = [f"{taken.judgements:,} judgements", f"{taken.ledgers:,} ledgers"]
    if taken.duplicates:
        parts.append(f"{taken.duplicates:,} known already")
    if taken.repeats:
        parts.append(f"{taken.repeats:,} graded again alike")
    if taken.unstable:
        parts.append(f"{taken.unstable:,} unstable ({taken.flipped:,} with another result)")
    if taken.conversations:
        parts.append(f"{taken.conversations:,} conversations")
    for reason, n in sorted(taken.quarantined.items()):
        parts.append(f"{n:,} in quarantine ({reason.replace('_', ' ')})")
    return "stored: " + ", ".join(parts)

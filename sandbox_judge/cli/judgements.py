"""`judgements`: those in the store, one by one, newest first."""

import argparse
import sys
from typing import Any, Final

from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError
from sandbox_judge.nulls import ERROR_TYPES
from sandbox_judge.store.asking import add_filters, choice
from sandbox_judge.store.database import Database
from sandbox_judge.store.listing import Listed, Sought, every, quarantined, unstable
from sandbox_judge.store.options import reading
from sandbox_judge.store.rendering import csv_text, short, table
from sandbox_judge.store.trend import moment_text

_COLUMNS: Final = (
    "time", "result", "error", "judge", "service", "environment", "version", "definition", "contract",
    "conversation", "judgement_id", "superseded", "regrade", "duration_ms",
)  # fmt: skip


def add(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "judgements", help="list stored judgements", description="Lists stored judgements, newest first."
    )
    parser.add_argument("judge", nargs="?", metavar="JUDGE", help="a judge's name or id")
    add_filters(parser)
    parser.add_argument("--result", choices=("pass", "fail", "not_applicable", "null"))
    parser.add_argument("--error", metavar="TYPE", help=f"nulls of this type: {', '.join(ERROR_TYPES)}")
    parser.add_argument("--conversation", metavar="ID")
    parser.add_argument("--standing", action="store_true", help="leave out the superseded")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="rows (default 50; 0: all)")
    parser.add_argument("--after", metavar="CURSOR", help="go on where a page ended")
    aside = parser.add_mutually_exclusive_group()
    aside.add_argument("--quarantined", action="store_true", help="lines that were not taken, and why")
    aside.add_argument(
        "--unstable", action="store_true", help="judgements that came again with other findings"
    )
    parser.add_argument("-o", "--output", choices=("table", "jsonl", "csv"), default="table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Raises UsageError, InputError."""
    if args.limit < 0:
        raise UsageError(f"{args.limit} is no number of rows.", where="--limit")
    with reading(args.store, env.environ) as database:
        if args.quarantined or args.unstable:
            return _aside(args, database, env)
        sought = Sought(
            choice=choice(args, database, judge=args.judge),
            result=args.result,
            error_type=args.error,
            conversation_id=args.conversation,
            standing=args.standing,
        )
        return _list(args, sought, database, env)


def _list(args: argparse.Namespace, sought: Sought, database: Database, env: Surface) -> int:
    first, more = True, None
    for page in every(database, sought, limit=args.limit, after=args.after):
        if args.output == "jsonl":
            for row in page.rows:
                env.out(row.body)
        elif args.output == "csv":
            rows = [_whole(row) for row in page.rows]
            text = csv_text([_COLUMNS, *rows] if first else rows)
            env.write(text.encode("utf-8", "replace"))
            env.stdout.flush()
        else:
            for line in table(_COLUMNS[:10], [_brief(row) for row in page.rows]) if page.rows else ():
                env.out(line)
        first, more = False, page.next
    if more is not None:
        env.err(f"there are more: --after {more}")
    return 0


def _whole(row: Listed) -> list[object]:
    return [
        moment_text(row.at), row.result or "null", row.error_type or "", row.judge_name or row.judge_id,
        row.service or "", row.environment or "", row.commit or "", row.definition_hash, row.contract_version,
        row.conversation_id, row.judgement_id, str(row.superseded).lower(), str(row.regrade).lower(),
        "" if row.duration_ms is None else row.duration_ms,
    ]  # fmt: skip


def _brief(row: Listed) -> list[str]:
    result = (row.result or "null") + (" (superseded)" if row.superseded else "")
    return [
        moment_text(row.at), result, row.error_type or "", row.judge_name or row.judge_id, row.service or "",
        row.environment or "", short(row.commit), short(row.definition_hash), row.contract_version,
        row.conversation_id,
    ]  # fmt: skip


def _aside(args: argparse.Namespace, database: Database, env: Surface) -> int:
    find = quarantined if args.quarantined else unstable
    rows = find(database, limit=args.limit or sys.maxsize)
    if args.output == "jsonl":
        for row in rows:
            env.out(row.line.decode("utf-8", "replace"))
        return 0
    cells = [
        [moment_text(row.at), row.reason, row.detail, row.line.decode("utf-8", "replace")[:200]]
        for row in rows
    ]
    head = ["time", "reason", "detail", "line"]
    if args.output == "csv":
        env.write(csv_text([head, *cells]).encode("utf-8", "replace"))
        env.stdout.flush()
        return 0
    for line in table(head, cells):
        env.out(line)
    return 0

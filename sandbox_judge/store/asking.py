"""What the reading commands have in common: their filters, and how those become a choice."""

import argparse
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from sandbox_judge.errors import UsageError
from sandbox_judge.figures import z_of
from sandbox_judge.store.commit_order import CommitOrder, order_in
from sandbox_judge.store.database import Database
from sandbox_judge.store.evidence import Choice, find_judge, full_commits
from sandbox_judge.store.options import add_store, moment


def add_filters(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    parser.add_argument("--recipe", metavar="ID", help="only this recipe's judges")
    parser.add_argument("--service", action="append", default=[], metavar="NAME")
    parser.add_argument("--environment", action="append", default=[], metavar="NAME")
    parser.add_argument(
        "--commit", action="append", default=[], metavar="COMMIT", help="version: an id or its beginning"
    )
    parser.add_argument("--definition", metavar="HASH", help="only this definition_hash")
    parser.add_argument(
        "--since", metavar="TIME", help="2026-11-30, 2026-11-30T21:00:00Z, or 36h, 7d, 2w ago"
    )
    parser.add_argument("--until", metavar="TIME", help="up to, not including")
    parser.add_argument("--regrades", action="store_true", help="count re-grades too")


def add_order(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repo", metavar="DIR", help="the recipe's repository, for the order of versions (else: first seen)"
    )


def add_confidence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--confidence", type=float, default=0.95, metavar="P", help="of the intervals (default 0.95)"
    )


def confidence_z(args: argparse.Namespace) -> float:
    """The normal point of `--confidence`. Raises UsageError."""
    try:
        return z_of(args.confidence)
    except ValueError as err:
        raise UsageError(f"{err}.", where="--confidence") from err


def choice(args: argparse.Namespace, database: Database, *, judge: str | None = None) -> Choice:
    """The filters as a choice, of one judge where one is named. Raises UsageError, InputError."""
    now = datetime.now(UTC)
    return Choice(
        judge_id=find_judge(database, judge, recipe_id=args.recipe).judge_id if judge else None,
        recipe_id=args.recipe,
        services=tuple(args.service),
        environments=tuple(args.environment),
        commits=full_commits(database, args.commit),
        definition_hash=args.definition,
        since=moment(args.since, now=now) if args.since else None,
        until=moment(args.until, now=now) if args.until else None,
        regrades=args.regrades,
    )


def order(
    args: argparse.Namespace, commits: Collection[str | None], cwd: Path, environ: Mapping[str, str]
) -> CommitOrder:
    """The order of versions by `--repo`, or none. Raises RecipeError."""
    if not args.repo:
        return CommitOrder()
    return order_in(cwd / args.repo, {commit for commit in commits if commit}, environ)

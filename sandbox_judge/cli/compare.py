"""`compare A B`: two versions, services, environments or windows of time under one judge."""

import argparse
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, RecipeError, UsageError
from sandbox_judge.store.asking import add_confidence, add_filters, choice, confidence_z
from sandbox_judge.store.compare import Comparison, Refusal, compare, one_environment
from sandbox_judge.store.database import Database
from sandbox_judge.store.edits import Edit, edit_between
from sandbox_judge.store.evidence import Choice, cells, full_commits, judges
from sandbox_judge.store.options import moment, reading
from sandbox_judge.store.rendering import FIGURES, drift_text, figures, points, short, table
from sandbox_judge.store.tally import Cell

_HEX: Final = re.compile(r"[0-9a-f]{7,64}", re.ASCII | re.IGNORECASE)
_KINDS: Final = ("version", "service", "environment", "window")


def add(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "compare",
        help="two versions, services or windows of one judge",
        description="Compares two sides under one judge: the difference of their pass rates (B less A) with "
        "its interval and a test. Refuses what is not comparable, and says why (exit 2).",
        epilog="A side is version=COMMIT, service=NAME, environment=NAME or window=FROM..TO; a bare commit, "
        "FROM..TO or service name will do.",
    )
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B")
    parser.add_argument("--judge", metavar="JUDGE", help="name or id (needed where the store has several)")
    add_filters(parser)
    parser.add_argument(
        "--repo",
        metavar="DIR",
        help="the recipe's folder in its repository: tells a cosmetic edit from a real",
    )
    add_confidence(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Exit 2 where the sides are not comparable. Raises UsageError, InputError."""
    z = confidence_z(args)
    with reading(args.store, env.environ) as database:
        base = choice(args, database, judge=_judge(args, database))
        a, b = (cells(database, side(base, text, database)) for text in (args.a, args.b))
    if not any(text.startswith("environment=") for text in (args.a, args.b)):
        both, note = one_environment([*a, *b])
        kept = {cell.series.environment for cell in both}
        a, b = ([cell for cell in own if cell.series.environment in kept] for own in (a, b))
        if note:
            env.err(note)
    result = compare(a, b, z=z)
    edit = _edit(args, a, b, env) if isinstance(result, Refusal) and args.repo else None
    if args.output == "json":
        shown = (
            {**result.shown(), **({"edit": msgspec.to_builtins(edit)} if edit else {})}
            if isinstance(result, Refusal)
            else {"comparable": True, "comparisons": [one.shown(z) for one in result]}
        )
        env.out(json.dumps({"a": args.a, "b": args.b, **shown}))
    elif isinstance(result, Refusal):
        for reason in result.reasons:
            env.err(f"not comparable: {reason}")
        if edit:
            env.err(f"by the repository, {edit}")
    else:
        for one in result:
            for line in _text(one, z):
                env.out(line)
    return 2 if isinstance(result, Refusal) else 0


def _edit(args: argparse.Namespace, a: Sequence[Cell], b: Sequence[Cell], env: Surface) -> Edit | None:
    """What the repository says of the definitions that each side saw last, where they differ."""
    if not a or not b:
        return None
    last = [max(own, key=lambda cell: cell.last) for own in (a, b)]
    if last[0].series.definition_hash == last[1].series.definition_hash:
        return None
    try:
        return anyio.run(lambda: edit_between(env.cwd / args.repo, *last, environ=env.environ))
    except RecipeError as err:
        env.err(f"the repository does not tell what changed: {err}")
        return None


def _judge(args: argparse.Namespace, database: Database) -> str:
    if args.judge:
        return str(args.judge)
    known = [one for one in judges(database) if args.recipe in (None, one.recipe_id)]
    ids = {one.judge_id for one in known}
    if len(ids) == 1:
        return ids.pop()
    if not ids:
        raise InputError("the store has no judgements yet.")
    names = ", ".join(sorted({one.name or one.judge_id for one in known})[:20])
    raise UsageError("the store has several judges.", remedy=f"Name one with --judge: {names}.")


def side(base: Choice, text: str, database: Database) -> Choice:
    """The base narrowed to what a side names. Raises UsageError, InputError."""
    kind, equals, value = text.partition("=")
    if not equals or kind not in _KINDS:
        kind, value = _guess(text), text
    if kind == "version":
        return msgspec.structs.replace(base, commits=full_commits(database, [value]))
    if kind == "service":
        return msgspec.structs.replace(base, services=(value,))
    if kind == "environment":
        return msgspec.structs.replace(base, environments=(value,))
    start, dots, end = value.partition("..")
    if not dots:
        raise UsageError(f"{text[:80]!r} is no window.", remedy="Write window=2026-11-01..2026-11-08.")
    now = datetime.now(UTC)
    return msgspec.structs.replace(
        base,
        since=moment(start, now=now) if start else base.since,
        until=moment(end, now=now) if end else base.until,
    )


def _guess(text: str) -> str:
    if ".." in text:
        return "window"
    return "version" if _HEX.fullmatch(text) else "service"


def _text(one: Comparison, z: float) -> list[str]:
    known = "" if one.set.known else " (unknown to this version)"
    lines = [
        *table(["", *FIGURES], [["A", *figures(one.a, z)], ["B", *figures(one.b, z)]]),
        f"B less A: {points(one.difference)}",
    ]
    heading = f"definition {short(one.set.definition_hash)}, contract {one.set.contract_version}{known}"
    changes = [f"drift: {drift_text(one.drift)}"] if one.drift else []
    return [
        *table([heading], [], widest=200),
        *lines,
        *(table([text], [], widest=400)[0] for text in changes),
    ]

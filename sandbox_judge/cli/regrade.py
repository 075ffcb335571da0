"""`regrade`: kept or given conversations under another commit's judges; new events, and what moved."""

import argparse
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from sandbox_judge.assembly import budget_in_force, live_settings, open_recipe
from sandbox_judge.canonical import canonical_json
from sandbox_judge.cli.crash import crash_report
from sandbox_judge.cli.surface import Surface
from sandbox_judge.durations import parse_duration
from sandbox_judge.envelope import RecipeRef
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.hook_input import Subject
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.lanes.memory import FileMemory
from sandbox_judge.masking import secrets_of
from sandbox_judge.paths import config_dir, state_dir
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.run import run_conversation
from sandbox_judge.run_ports import OwnSlots, Ports, RunOptions
from sandbox_judge.settings_files import read_settings_files
from sandbox_judge.store.conversations import Kept
from sandbox_judge.store.database import Database, told
from sandbox_judge.store.evidence import Choice, full_commits
from sandbox_judge.store.given import Given, given
from sandbox_judge.store.migrate import writing
from sandbox_judge.store.options import add_store, moment
from sandbox_judge.store.regrading import Moved, Original, moved, originals
from sandbox_judge.store.rendering import table
from sandbox_judge.store.writer import Storing, read_lines

_PATIENCE_SECONDS = 30.0


def add(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "regrade",
        help="grade kept or given conversations again under another commit's judges",
        description="Grades conversations that were judged before under the judges of another commit: those "
        "that `collect` kept, or those in files (any known format, or what the hook was given). The new "
        "judgements are stored beside the old, marked as regrades, with the agent's own commit unchanged; "
        "trends leave them out unless asked. Shows how verdicts moved, paired. Judges whose definition did "
        "not change are not asked again.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="conversations; - is stdin")
    add_store(parser)
    parser.add_argument("--conversations", metavar="DIR", help="where collect keeps them")
    parser.add_argument("--recipe", required=True, metavar="DIR", help="the recipe whose judges grade")
    parser.add_argument("--commit", required=True, metavar="COMMIT", help="the judges' commit, a full id")
    parser.add_argument(
        "--recipe-id", metavar="ID", help="as in the stored events, where it is not the recipe's"
    )
    parser.add_argument("--judge", action="append", default=[], metavar="NAME", help="only this judge")
    parser.add_argument(
        "--agent-commit", action="append", default=[], metavar="COMMIT", help="only this version"
    )
    parser.add_argument("--service", action="append", default=[], metavar="NAME")
    parser.add_argument("--environment", action="append", default=[], metavar="NAME")
    parser.add_argument("--since", metavar="TIME")
    parser.add_argument("--until", metavar="TIME")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="conversations (default 100)")
    parser.add_argument("--budget", metavar="DURATION", help="for each conversation")
    parser.add_argument("--settings", metavar="FILE")
    parser.add_argument("--insecure", action="store_true", help="accept files that others can write")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Raises UsageError, InputError, RecipeError, SettingsError, DeliveryError."""
    if args.limit < 1:
        raise UsageError(f"{args.limit} is no number of conversations.", where="--limit")
    if bool(args.files) == bool(args.conversations):
        raise UsageError(
            "files and --conversations exclude each other."
            if args.files
            else "there are no conversations to grade.",
            remedy="Name files, or --conversations DIR where collect keeps them.",
        )
    chosen = _given(args.files, env) if args.files else None
    kept = chosen or Kept(directory=env.cwd / args.conversations)
    with writing(args.store, env.environ) as database:
        recipe = anyio.run(_recipe, args, env)
        found = _originals(args, database, recipe, chosen)
        if chosen and (strange := len(chosen.by_view) - len({one.sequence_hash for one in found})) > 0:
            env.err(f"{strange:,} of the given conversations were never judged so, and are left out")
        wanted = _changed(recipe, found)
        if not wanted:
            raise InputError(
                "there is nothing to grade again.",
                remedy="No stored verdict is of a judge that this commit has and has changed.",
            )
        env.err(f"grading {len(found):,} conversations again under {', '.join(wanted)}")
        storing = Storing(database)
        results = anyio.run(_regrade, args, env, wanted, found, kept, storing)
    moves = [moved(name, results.get(name, ())) for name in wanted]
    absent = sum(1 for one in found if kept.conversation(one.sequence_hash) is None)
    if absent:
        env.err(f"{absent:,} conversations are not kept (any more) and were left out")
    if args.output == "json":
        shown = {"commit": recipe.commit, "not_kept": absent, "judges": [one.shown() for one in moves]}
        env.out(json.dumps(shown))
    else:
        for one in moves:
            for line in _text(one):
                env.out(line)
    return 0


async def _recipe(args: argparse.Namespace, env: Surface) -> LoadedRecipe:
    ref = RecipeRef(path=args.recipe, commit=args.commit, id=args.recipe_id)
    return await open_recipe(ref, environ=env.environ, cwd=env.cwd, dry_run=False, only=args.judge)


def _given(files: Sequence[str], env: Surface) -> Given:
    inputs: list[tuple[str, bytes]] = []
    for name in files:
        try:
            inputs.append((name, env.stdin.read() if name == "-" else (env.cwd / name).read_bytes()))
        except (OSError, ValueError) as err:
            why = err.strerror if isinstance(err, OSError) else err
            raise InputError(f"it cannot be read: {why}.", where=name) from err
    return given(inputs)


def _originals(
    args: argparse.Namespace, database: Database, recipe: LoadedRecipe, chosen: Given | None
) -> list[Original]:
    now = datetime.now(UTC)
    choice = Choice(
        recipe_id=recipe.recipe_id,
        services=tuple(args.service),
        environments=tuple(args.environment),
        commits=full_commits(database, args.agent_commit),
        since=moment(args.since, now=now) if args.since else None,
        until=moment(args.until, now=now) if args.until else None,
    )
    names = [judge.file.name for judge in recipe.judges if judge.file.name]
    with told(database):
        return originals(database, choice, names, limit=args.limit, given=chosen)


def _changed(recipe: LoadedRecipe, found: Sequence[Original]) -> list[str]:
    """The judges that some original was graded by under another definition."""
    now = {judge.file.name: judge.file.definition_hash for judge in recipe.judges if judge.file.name}
    before: dict[str, set[str]] = {}
    for one in found:
        for name, definition in one.definitions.items():
            before.setdefault(name, set()).add(definition)
    return sorted(name for name, hashes in before.items() if hashes - {now.get(name)})


async def _regrade(
    args: argparse.Namespace,
    env: Surface,
    wanted: Sequence[str],
    found: Sequence[Original],
    kept: Kept | Given,
    storing: Storing,
) -> dict[str, list[tuple[str, str, str | None]]]:
    """Each judge's (conversation, verdict before, result after). Stores as it goes."""
    ref = RecipeRef(path=args.recipe, commit=args.commit, id=args.recipe_id)
    recipe = await open_recipe(ref, environ=env.environ, cwd=env.cwd, dry_run=False, only=wanted)
    given = env.cwd / args.settings if args.settings else None
    files = read_settings_files(given, env.environ, config_dir(env.environ).path, insecure=args.insecure)
    lanes = Lanes(env.environ, memory=FileMemory(state_dir(env.environ).path, now=time.time))
    results: dict[str, list[tuple[str, str, str | None]]] = {}
    budget_s = parse_duration(args.budget, name="--budget") if args.budget else None
    try:
        for one in found:
            subject = _subject(one, kept)
            if subject is None or one.commit == recipe.commit:
                continue
            settings = live_settings(files, envelope=subject.envelope, recipe_id=recipe.recipe_id)
            budget = budget_in_force(settings, recipe.recipe_id, envelope=subject.envelope, budget_s=budget_s)
            async with anyio.create_task_group() as tasks:
                ports = Ports(
                    tasks=tasks,
                    lanes=lanes,
                    slots=OwnSlots(budget.concurrency),
                    environ=env.environ,
                    deliver=_nowhere,
                    crashed=lambda error: _crashed(env, error),
                    stop=anyio.Event(),
                )
                report = await run_conversation(
                    subject,
                    recipe,
                    settings,
                    budget=budget,
                    started=anyio.current_time(),
                    options=RunOptions(agent_commit=one.commit),
                    ports=ports,
                )
                tasks.cancel_scope.cancel()
            lines = read_lines([canonical_json(event) for event in report.events])
            await anyio.to_thread.run_sync(
                partial(storing.store_patiently, lines, patience_s=_PATIENCE_SECONDS)
            )
            for event in report.events:
                name = event["payload"].get("judge_name")
                if name in one.results:
                    after = event["payload"]["result"]
                    results.setdefault(name, []).append((one.conversation_id, one.results[name], after))
    finally:
        with anyio.CancelScope(shield=True):
            await lanes.aclose()
    return results


def _subject(one: Original, kept: Kept | Given) -> Subject | None:
    conversation = kept.conversation(one.sequence_hash)
    if conversation is None:
        return None
    return Subject(
        conversation=conversation,
        conversation_id=one.conversation_id,
        id_source="given",
        envelope=one.envelope,
    )


async def _nowhere(_line: bytes, _event_id: str) -> None:
    """Events go into the store when the conversation has ended, not to a sink."""


def _crashed(env: Surface, error: BaseException) -> str:
    crash_id, text = crash_report(error, secrets_of(env.environ))
    env.err(text)
    return crash_id


def _text(one: Moved) -> list[str]:
    words = ("pass", "fail", "not_applicable")
    rows = [
        [f"was {before}", *(f"{one.pairs.get(before, {}).get(after, 0):,}" for after in words)]
        for before in words
    ]
    changed = f"{len(one.changed):,} of {one.n:,} changed"
    return [
        *table([f"{one.judge}: {changed}, p = {one.p:.3g} (mcnemar), {one.nulls:,} nulls"], [], widest=200),
        *table(["", *(f"now {word}" for word in words)], rows),
        *(
            table([f"  {name}: {before} → {after}"], [], widest=200)[0]
            for name, before, after in one.changed[:20]
        ),
    ]

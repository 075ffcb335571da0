"""The Python call: judge a conversation inside a host's own process, on asyncio or trio (design, section 3).

Nothing global changes: no signal handler, no logging, no environment. Cancellation by the host emits the
nulls first, then goes on its way.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from sandbox_judge.assembly import budget_in_force, live_settings, open_recipe
from sandbox_judge.canonical import canonical_json
from sandbox_judge.clock import uuid7
from sandbox_judge.envelope import Envelope, RecipeRef
from sandbox_judge.hook_input import read_input
from sandbox_judge.lanes.base import ChatModel, LaneName
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.lanes.memory import FileMemory
from sandbox_judge.paths import config_dir, state_dir
from sandbox_judge.run import run_conversation
from sandbox_judge.run_ports import OwnSlots, Ports, RunOptions, RunReport
from sandbox_judge.settings import Settings
from sandbox_judge.settings_files import read_settings_files
from sandbox_judge.sinks.base import Sink
from sandbox_judge.sinks.delivery import DeliveryReport, delivering
from sandbox_judge.sinks.spool import Spool

__all__ = ["Envelope", "RecipeRef", "Report", "Settings", "judge_conversation"]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the judgement events in the order of their ends, the ledger, and the delivery."""

    events: tuple[dict[str, Any], ...]
    ledger: dict[str, Any]
    delivery: DeliveryReport


async def judge_conversation(
    conversation: Mapping[str, Any] | Sequence[Any] | bytes,
    *,
    recipe: RecipeRef,
    envelope: Envelope | None = None,
    settings: Settings | None = None,
    deadline_s: float = 30.0,
    sinks: Sequence[Sink] = (),
    environ: Mapping[str, str] | None = None,
    models: Mapping[LaneName, ChatModel] | None = None,
    on_internal_error: Callable[[BaseException], str] | None = None,
) -> Report:
    """Grades `conversation` with the judges of `recipe` and gives every event to every sink.

    `settings` None: the platform's own files (docs/settings.md), as for the command. `deadline_s` is the
    whole budget, in seconds from the call. `environ` (default: the process's own) holds keys and proxies;
    `models` puts a host's own lanes in. A bug of ours in one judge becomes its `internal` null, after
    `on_internal_error` was told. Raises InputError, RecipeError, SettingsError, TrustError.
    """
    started = anyio.current_time()
    variables = dict(os.environ) if environ is None else environ
    given = envelope or Envelope()
    if recipe != RecipeRef():
        given = msgspec.structs.replace(given, recipe=recipe)
    taken = await anyio.to_thread.run_sync(
        lambda: read_input(conversation, otherwise=[given]), abandon_on_cancel=True
    )
    (subject,) = taken.subjects()
    loaded = await open_recipe(
        given.recipe,
        environ=variables,
        cwd=Path.cwd(),
        dry_run=given.recipe.worktree,
        deadline=started + max(1.0, deadline_s),
    )
    if settings is None:
        files = read_settings_files(None, variables, config_dir(variables).path, insecure=False)
    else:
        files = (settings,)
    live = live_settings(files, envelope=taken.envelope, recipe_id=loaded.recipe_id)
    budget = budget_in_force(live, loaded.recipe_id, envelope=taken.envelope, budget_s=deadline_s)
    dry_run = given.recipe.worktree
    state = state_dir(variables).path
    spool = Spool(state / "spool") if not dry_run and any(sink.spooled for sink in sinks) else None
    memory = None if dry_run else FileMemory(state, now=time.time)
    lanes = Lanes(variables, memory=memory, given=models)
    outcome: tuple[RunReport, DeliveryReport] | None = None
    try:
        deadline = started + max(0.5, budget.total_s)
        async with delivering(sinks, spool=spool, deadline=deadline) as delivery:
            async with anyio.create_task_group() as tasks:
                ports = Ports(
                    tasks=tasks,
                    lanes=lanes,
                    slots=OwnSlots(budget.concurrency),
                    environ=variables,
                    deliver=delivery.deliver,
                    crashed=on_internal_error or _untold,
                    stop=anyio.Event(),
                )
                report = await run_conversation(
                    subject,
                    loaded,
                    live,
                    budget=budget,
                    started=started,
                    options=RunOptions(dry_run=dry_run),
                    ports=ports,
                )
                tasks.cancel_scope.cancel()
            await delivery.deliver(canonical_json(report.ledger), report.ledger["id"], ledger=True)
            outcome = report, await delivery.finish()
    finally:
        with anyio.CancelScope(shield=True):
            await lanes.aclose()
            if spool is not None:
                spool.close()
    report, delivered = outcome
    return Report(events=report.events, ledger=report.ledger, delivery=delivered)


def _untold(error: BaseException) -> str:
    return f"{uuid7()} ({type(error).__name__})"

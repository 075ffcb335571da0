"""What one run is given: how it differs from the plain hook, and the outside as it needs it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import anyio
import anyio.abc
import msgspec

from sandbox_judge.admission import ModelOverride
from sandbox_judge.grading.view import ALLOWANCE
from sandbox_judge.judgement import Calibration, Redactable
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.settlement import Deliver


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run differs from the plain hook. `allowance` is the view's, in characters.

    `unread`: there was no time to read the conversation, so that no gate is asked and each judge gets a null.
    `agent_commit` is given where the rubric comes from another commit than the agent's own (a regrade).
    `calibration` gives states that are known already; the others are read from the recipe.
    """

    dry_run: bool = False
    explain: bool = False
    local: bool = False
    model: ModelOverride | None = None
    allowance: int = ALLOWANCE
    redact: frozenset[Redactable] = frozenset()
    unread: bool = False
    agent_commit: str | None = None
    calibration: dict[str, Calibration] = {}


class Slots(Protocol):
    """Who may call a model now: over one run, or shared fairly by the runs of a server."""

    def slot(self, provider: str) -> AbstractAsyncContextManager[Any]: ...


class OwnSlots:
    """The slots of a single run: at most `concurrency` judges at once."""

    def __init__(self, concurrency: int) -> None:
        self._semaphore = anyio.Semaphore(concurrency)

    def slot(self, provider: str) -> AbstractAsyncContextManager[Any]:
        return self._semaphore


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """The outside, as one run needs it.

    `tasks` outlives the run: a call that does not let go when it is cancelled must not hold what was graded.
    `crashed` is told of a bug and gives the report's id. `stop` ends the run at once (a signal): what is
    unfinished is then `cancelled`.
    """

    tasks: anyio.abc.TaskGroup
    lanes: Lanes
    slots: Slots
    environ: Mapping[str, str]
    deliver: Deliver
    crashed: Callable[[BaseException], str]
    stop: anyio.Event


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one conversation: its events in the order of their ends, and the ledger."""

    events: tuple[dict[str, Any], ...]
    ledger: dict[str, Any]

"""What an operator fixes when a server starts, and the process around it."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from sandbox_judge.judgement import Redactable
from sandbox_judge.lanes.base import ChatModel, LaneName
from sandbox_judge.log import Log
from sandbox_judge.settings import Settings


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator fixed. `budget_s` None: the settings'. `most_bytes` bounds one request, four times
    that all requests together; `calls` the model calls in flight."""

    recipe: str
    recipe_id: str | None = None
    commit: str | None = None
    sinks: tuple[str, ...] = ()
    budget_s: float | None = None
    calls: int = 20
    concurrency: int | None = None
    most_bytes: int = 64 * 1024 * 1024
    allowed_uids: frozenset[int]
    redact: frozenset[Redactable] = frozenset()
    state: Path
    insecure: bool = False


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """The process around the server."""

    environ: dict[str, str]
    cwd: Path
    log: Log
    crashed: Callable[[BaseException], str]
    settings: Callable[[], tuple[Settings, ...]]
    events_fd: int | None = None
    models: dict[LaneName, ChatModel] = {}

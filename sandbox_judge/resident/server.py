"""The resident runner: one process a sandbox, ready before the conversation ends (design, sections 9 and 14).

Each connection is a task of its own; nothing that a client does, sends or leaves undone reaches another's.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import Any, Final

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from sandbox_judge.assembly import budget_in_force
from sandbox_judge.budget import DEFAULT_BUDGET_S, Budget
from sandbox_judge.canonical import canonical_json
from sandbox_judge.envelope import Envelope
from sandbox_judge.errors import DeliveryError, SandboxJudgeError, TrustError
from sandbox_judge.hook_input import Input, Subject, read_input
from sandbox_judge.judgement import Redactable
from sandbox_judge.lanes.base import ChatModel, LaneName
from sandbox_judge.lanes.memory import FileMemory
from sandbox_judge.log import Log
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.resident.listening import require_peer
from sandbox_judge.resident.notify import memory_bytes
from sandbox_judge.resident.pacing import PacedLanes
from sandbox_judge.resident.protocol import (
    ACCEPTED,
    Fixed,
    Request,
    RequestRefused,
    checked,
    crash_line,
    error_line,
    refusal_of,
    request_of,
    within,
)
from sandbox_judge.resident.reading import Arrived, Reading, read_request
from sandbox_judge.resident.recipes import Recipes
from sandbox_judge.resident.reply import REPLY, ReplySink, hang_up
from sandbox_judge.resident.slots import FairSlots
from sandbox_judge.resident.warm import wanted_by, warm_up
from sandbox_judge.run import Ports, RunOptions, RunReport, run_conversation
from sandbox_judge.settings import LiveSettings, Settings
from sandbox_judge.settlement import Deliver
from sandbox_judge.sinks.base import Line, Sink
from sandbox_judge.sinks.delivery import delivering
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.version import __version__

# Below this, reading an input takes less than the hop to a thread.
_SHORT_BYTES: Final = 128 * 1024
_LEAST_DELIVERY_S: Final = 0.5
_ANSWER_S: Final = 1.0
_CROWDED_S: Final = 0.05
# What a stop leaves for emitting the nulls.
_NULLS_S: Final = 0.5
# How often connections to models are renewed, and for how long after the last request.
_WARM_S: Final = 20.0
_ASKED_S: Final = 3600.0
# Connections that have not sent a whole request, conversations at once, and requests of the greatest size
# that may be in memory together.
_READERS: Final = 256
_MOST_RUNNING: Final = 2_000
_HELD_REQUESTS: Final = 4
# Fewer than the readers: who has just come is heard before anybody is dropped for more.
_ACCEPTED_AT_ONCE: Final = 64
_SUPPLIED: Final = tuple(key for key in Envelope.__struct_fields__ if key != "budget_ms")


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


class _Work(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is accepted."""

    subject: Subject
    recipe: LoadedRecipe
    settings: LiveSettings
    budget: Budget


class Server:
    """Made inside an event loop. `serve` runs until it is cancelled; `drain` ends it well."""

    def __init__(self, plan: Plan, outside: Outside) -> None:
        self.plan, self.outside = plan, outside
        self.slots = FairSlots(plan.calls)
        self.recipes = Recipes(plan.recipe, plan.recipe_id, environ=outside.environ, cwd=outside.cwd)
        memory = FileMemory(plan.state, now=time.time)
        self.lanes = PacedLanes(outside.environ, self.slots, memory=memory, given=outside.models)
        self.files = outside.settings()
        self.stop = anyio.Event()
        self.draining = False
        self.served = 0
        self.running = 0
        self.cut_short = 0
        self._idle = anyio.Event()
        self._readings: dict[int, Reading] = {}
        self._held_bytes = 0
        self._last_asked = anyio.current_time()

    async def serve(self, listener: socket, tasks: anyio.abc.TaskGroup) -> None:
        """Takes connections until it is cancelled; each is served in `tasks`."""
        while True:
            await anyio.wait_readable(listener)
            try:
                for _ in range(_ACCEPTED_AT_ONCE):
                    self._take(listener.accept()[0], tasks)
            except BlockingIOError:
                continue
            except OSError:  # no descriptor is left, or the client is gone already
                self._drop_silent()
                await anyio.sleep(_CROWDED_S)

    def _take(self, sock: socket, tasks: anyio.abc.TaskGroup) -> None:
        sock.setblocking(False)
        if len(self._readings) >= _READERS:
            self._drop_silent()
        reading = Reading(sock=sock, scope=anyio.CancelScope(), since=anyio.current_time())
        self._readings[sock.fileno()] = reading
        tasks.start_soon(self._connection, reading)

    def reload(self) -> None:
        """Reads the settings anew; with a fault in them the old ones stay in force."""
        try:
            self.files = self.outside.settings()
        except SandboxJudgeError as error:
            self.outside.log.error("the settings were not reloaded", why=error.paragraph())
        else:
            self.outside.log.info("settings reloaded")

    async def drain(self, grace_s: float) -> bool:
        """Lets what runs end within `grace_s` seconds, then ends it with nulls. Whether all of it ended by
        itself. New requests are refused from now on."""
        self.draining = True
        with anyio.move_on_after(max(0.0, grace_s - _NULLS_S)):
            await self._all_ended()
        self.stop_now()
        with anyio.move_on_after(_NULLS_S):
            await self._all_ended()
        return self.cut_short == 0

    def stop_now(self) -> None:
        """Ends what runs: its unfinished judges become nulls, and those are emitted."""
        if not self.stop.is_set():
            self.cut_short = self.running
            self.stop.set()

    async def _all_ended(self) -> None:
        while self.running:
            self._idle = anyio.Event()
            await self._idle.wait()

    def status(self) -> dict[str, Any]:
        """How the server is: what `call --ping` prints."""
        return {
            "ready": not self.draining,
            "version": __version__,
            "pid": os.getpid(),
            "commit": self.plan.commit,
            "running": self.running,
            "served": self.served,
            "calls_in_flight": self.slots.in_flight,
            "calls_waiting": self.slots.waiting,
            "memory_bytes": memory_bytes(),
        }

    async def load(self, *, deadline: float) -> None:
        """Reads the pinned recipe, if there is one. Raises RecipeError."""
        if self.plan.commit is not None:
            await self.recipes.at(self.plan.commit, deadline=deadline)

    async def keep_warm(self) -> None:
        """Imports what the pinned recipe's judges need, and keeps connections to their models open, until
        nobody has asked for an hour. Runs until it is cancelled."""
        while self.plan.commit is not None:
            now = anyio.current_time()
            recipe = await self.recipes.at(self.plan.commit, deadline=now + _WARM_S)
            settings = LiveSettings(sources=self.files)
            wanted = wanted_by(recipe, settings, self.outside.environ)
            if now - self._last_asked < _ASKED_S:
                most = min(self.plan.calls, self._budget(settings, recipe, Envelope()).concurrency)
                await warm_up(self.lanes, wanted, most=most, deadline=now + _WARM_S)
            await anyio.sleep(_WARM_S)

    async def _connection(self, reading: Reading) -> None:
        sock, held = reading.sock, 0

        def room(size: int) -> bool:
            nonlocal held
            if self._held_bytes + size > _HELD_REQUESTS * self.plan.most_bytes:
                return False
            held += size
            self._held_bytes += size
            return True

        try:
            arrived = None
            try:
                require_peer(sock, self.plan.allowed_uids)
                with reading.scope:
                    arrived = await read_request(reading, most_bytes=self.plan.most_bytes, room=room)
            finally:
                self._readings.pop(sock.fileno(), None)
            if arrived is not None:
                await self._request(sock, arrived)
        except TrustError as error:
            await _answer(sock, error_line(RequestRefused("not_allowed", error.message, remedy=error.remedy)))
        except SandboxJudgeError as error:
            await _answer(sock, error_line(refusal_of(error)))
        except Exception as error:  # one request's fault never touches another
            await _answer(sock, crash_line(self.outside.crashed(error)))
        finally:
            self._held_bytes -= held
            hang_up(sock)

    def _drop_silent(self) -> None:
        """Makes place by dropping the oldest connection that has sent nothing."""
        for number, reading in self._readings.items():
            if reading.received == 0:
                reading.scope.cancel()
                del self._readings[number]
                return

    async def _request(self, sock: socket, arrived: Arrived) -> None:
        """Serves one whole request. Raises what makes it refused."""
        request = request_of(arrived.raw)
        if request.header.ping:
            await _answer(sock, canonical_json(self.status()) + b"\n")
            return
        if self.draining:
            raise RequestRefused("draining", "the server is stopping.")
        if self.running >= _MOST_RUNNING:
            raise RequestRefused("busy", f"{_MOST_RUNNING} conversations are being graded.")
        self.running += 1
        self._last_asked = anyio.current_time()
        try:
            work = await self._prepared(request, arrived.started)
            # Only where the client's side still stands is the request taken: one that has given up waiting
            # grades by itself, and nothing may be paid twice.
            with suppress(OSError):
                if sock.send(ACCEPTED) == len(ACCEPTED):
                    self.served += 1
                    await self._judge(sock, work, started=arrived.started)
        finally:
            self.running -= 1
            self._idle.set()

    async def _prepared(self, request: Request, started: float) -> "_Work":
        header, data = request.header, request.data
        supply = Envelope(**{key: getattr(header, key) for key in _SUPPLIED})

        def read() -> Input:
            return read_input(data, otherwise=[supply], cut_short=header.cut_short)

        # The hop to a thread takes longer than a short input.
        patience_s = DEFAULT_BUDGET_S if self.plan.budget_s is None else max(1.0, self.plan.budget_s)
        if len(data) <= _SHORT_BYTES:
            taken = read()
        else:
            with anyio.move_on_at(started + patience_s) as scope:
                taken = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
            if scope.cancelled_caught:
                raise RequestRefused("too_large", f"it was not read within {patience_s:.0f} s.")
        (subject,) = taken.subjects()
        fixed = Fixed(path=self.plan.recipe, recipe_id=self.plan.recipe_id, commit=self.plan.commit)
        envelope = checked(taken, fixed)
        assert envelope.recipe.commit is not None, "checked() gives one"
        recipe = await self.recipes.at(envelope.recipe.commit, deadline=started + patience_s)
        settings = LiveSettings(sources=self.files)
        most = self._budget(settings, recipe, Envelope())
        envelope = within(envelope, header, most_ms=most.total_s * 1000)
        return _Work(
            subject=msgspec.structs.replace(subject, envelope=envelope),
            recipe=recipe,
            settings=settings,
            budget=self._budget(settings, recipe, envelope),
        )

    def _budget(self, settings: LiveSettings, recipe: LoadedRecipe, envelope: Envelope) -> Budget:
        return budget_in_force(
            settings,
            recipe.recipe_id,
            envelope=envelope,
            budget_s=self.plan.budget_s,
            concurrency=self.plan.concurrency,
        )

    async def _judge(self, sock: socket, work: "_Work", *, started: float) -> None:
        own = open_sinks(
            self.plan.sinks,
            environ=self.outside.environ,
            cwd=self.outside.cwd,
            stdout=self.outside.events_fd,
        )
        reply = ReplySink(sock, confirm=not own)
        lines: list[Line] = []
        deadline = max(started + work.budget.total_s, anyio.current_time() + _LEAST_DELIVERY_S)
        spool = self._spool() if any(sink.spooled for sink in own) else None
        try:
            async with delivering([*own, reply], spool=spool, deadline=deadline) as delivery:

                async def deliver(line: bytes, event_id: str, *, ledger: bool = False) -> None:
                    lines.append(Line(event_id, line))
                    await delivery.deliver(line, event_id, ledger=ledger)

                report = await self._graded(work, deliver, started)
                await deliver(canonical_json(report.ledger), report.ledger["id"], ledger=True)
                delivered = await delivery.finish()
        finally:
            if spool is not None:
                spool.close()
        self._told(own, delivered.messages)
        if not own and not reply.read:
            self._keep(lines)

    async def _graded(self, work: "_Work", deliver: Deliver, started: float) -> RunReport:
        async with anyio.create_task_group() as tasks:
            ports = Ports(
                tasks=tasks,
                lanes=self.lanes,
                slots=self.slots.for_run(work.budget.concurrency),
                environ=self.outside.environ,
                deliver=deliver,
                crashed=self.outside.crashed,
                stop=self.stop,
            )
            report = await run_conversation(
                work.subject,
                work.recipe,
                work.settings,
                budget=work.budget,
                started=started,
                options=RunOptions(redact=self.plan.redact),
                ports=ports,
            )
            tasks.cancel_scope.cancel()
        return report

    def _told(self, own: Sequence[Sink], messages: Sequence[str]) -> None:
        # That a client went away is no fault where the events go elsewhere.
        for message in messages:
            if not (own and message.startswith(REPLY)):
                self.outside.log.warning(message)

    def _keep(self, lines: Sequence[Line]) -> None:
        """Nobody took these events: they wait in the spool, `flush` writes them to stdout."""
        spool = self._spool()
        try:
            file = spool.create()
            try:
                file.append(lines, [REPLY])
            finally:
                file.close()
        except (DeliveryError, TrustError, OSError) as error:
            text = error.paragraph() if isinstance(error, SandboxJudgeError) else str(error)
            self.outside.log.error("events of a client that went away are lost", why=text, events=len(lines))
        finally:
            spool.close()

    def _spool(self) -> Spool:
        return Spool(self.plan.state / "spool", insecure=self.plan.insecure)


async def _answer(sock: socket, line: bytes) -> None:
    """One line to a client, as far as it takes it at once or within a moment."""
    left = memoryview(line)
    with suppress(OSError), anyio.move_on_after(_ANSWER_S):
        while left:
            try:
                left = left[sock.send(left) :]
            except BlockingIOError:
                await anyio.wait_writable(sock)

"""The resident runner: one process a sandbox, ready before the conversation ends (design, sections 9 and 14).

Each connection is a task of its own; nothing that a client does, sends or leaves undone reaches another's.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
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
from sandbox_judge.lanes.memory import FileMemory
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.resident.door import Door, answer
from sandbox_judge.resident.notify import memory_bytes
from sandbox_judge.resident.pacing import PacedLanes
from sandbox_judge.resident.plan import Outside, Plan
from sandbox_judge.resident.protocol import (
    ACCEPTED,
    Fixed,
    Request,
    RequestRefused,
    checked,
    request_of,
    within,
)
from sandbox_judge.resident.reading import Arrived
from sandbox_judge.resident.recipes import Recipes
from sandbox_judge.resident.reply import REPLY, ReplySink
from sandbox_judge.resident.slots import FairSlots
from sandbox_judge.resident.warm import wanted_by, warm_up
from sandbox_judge.run import run_conversation
from sandbox_judge.run_ports import Ports, RunOptions, RunReport
from sandbox_judge.settings import LiveSettings
from sandbox_judge.settlement import Deliver
from sandbox_judge.sinks.base import Line, Sink
from sandbox_judge.sinks.delivery import delivering
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.version import __version__

# Below this, reading an input takes less than the hop to a thread.
_SHORT_BYTES: Final = 128 * 1024
_LEAST_DELIVERY_S: Final = 0.5
# What a stop leaves for emitting the nulls.
_NULLS_S: Final = 0.5
# How often connections to models are renewed, and for how long after the last request.
_WARM_S: Final = 20.0
_ASKED_S: Final = 3600.0
_MOST_RUNNING: Final = 2_000
_SUPPLIED: Final = tuple(key for key in Envelope.__struct_fields__ if key != "budget_ms")


class _Work(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is accepted."""

    subject: Subject
    recipe: LoadedRecipe
    settings: LiveSettings
    budget: Budget


class Server:
    """Made inside an event loop. `door.open` runs until it is cancelled; `drain` ends it well."""

    def __init__(self, plan: Plan, outside: Outside) -> None:
        self.plan, self.outside = plan, outside
        self.slots = FairSlots(plan.calls)
        self.recipes = Recipes(plan.recipe, plan.recipe_id, environ=outside.environ, cwd=outside.cwd)
        memory = FileMemory(plan.state, now=time.time)
        self.lanes = PacedLanes(outside.environ, self.slots, memory=memory, given=outside.models)
        self.files = outside.settings()
        self.door = Door(plan, self._request, outside.crashed)
        self.stop = anyio.Event()
        self.draining = False
        self.served = 0
        self.running = 0
        self.cut_short = 0
        self._idle = anyio.Event()
        self.last_asked = anyio.current_time()
        # Kept apart: whatever commits requests name, this one is never read again.
        self._pinned: LoadedRecipe | None = None

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
            self._pinned = await self.recipes.at(self.plan.commit, deadline=deadline)

    async def keep_warm(self) -> None:
        """Imports what the pinned recipe's judges need, and keeps connections to their models open, until
        nobody has asked for an hour. Runs until it is cancelled."""
        while self._pinned is not None:
            now = anyio.current_time()
            if now - self.last_asked < _ASKED_S:
                settings = LiveSettings(sources=self.files)
                most = min(self.plan.calls, self._budget(settings, self._pinned, Envelope()).concurrency)
                try:
                    wanted = wanted_by(self._pinned, settings, self.outside.environ)
                    await warm_up(self.lanes, wanted, most=most, deadline=now + _WARM_S)
                except Exception as error:  # being warm is a convenience: nothing may end the server over it
                    self.outside.crashed(error)
                    return
            await anyio.sleep(_WARM_S)

    async def _request(self, sock: socket, arrived: Arrived) -> None:
        """Serves one whole request. Raises what makes it refused."""
        request = request_of(arrived.raw)
        if request.header.ping:
            await answer(sock, canonical_json(self.status()) + b"\n")
            return
        if self.draining:
            raise RequestRefused("draining", "the server is stopping.")
        if self.running >= _MOST_RUNNING:
            raise RequestRefused("busy", f"{_MOST_RUNNING} conversations are being graded.")
        self.running += 1
        self.last_asked = anyio.current_time()
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
        recipe = self._pinned
        if recipe is None or envelope.recipe.commit != self.plan.commit:
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

"""`run`: the hook as a process. Reads the input, judges each conversation in it, delivers, says what came.

stdout carries events alone; everything for a person goes to stderr.
"""

import argparse
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import anyio.to_thread

from sandbox_judge.assembly import budget_in_force, live_settings, open_recipe
from sandbox_judge.budget import DEFAULT_BUDGET_S, reserve_for
from sandbox_judge.canonical import canonical_json
from sandbox_judge.cli import present
from sandbox_judge.cli.crash import crash_report
from sandbox_judge.cli.interrupts import Interrupts
from sandbox_judge.cli.run_arguments import SUMMARY, add_arguments
from sandbox_judge.cli.run_request import LOCAL_ALLOWANCE, RunRequest, request_of
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import DeliveryError, InputError, SandboxJudgeError, UsageError
from sandbox_judge.grading.view import ALLOWANCE
from sandbox_judge.hook_input import Input, Subject, read_input, unread_input
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.lanes.memory import FileMemory
from sandbox_judge.log import Log
from sandbox_judge.masking import mask, secrets_of
from sandbox_judge.paths import config_dir, state_dir
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.run import run_conversation
from sandbox_judge.run_ports import OwnSlots, Ports, RunOptions, RunReport
from sandbox_judge.settings import Settings
from sandbox_judge.settings_files import read_settings_files
from sandbox_judge.settlement import Deliver
from sandbox_judge.sinks.delivery import Delivery, DeliveryReport, delivering
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.stdin import read_stream

# What a run that is stopped by a signal may still take to find out which judges it owes a null.
_STOPPED_S: Final = 0.25
# How long a call that was cancelled may take to let go before the process ends without it.
_LET_GO_S: Final = 0.1
_LEAST_DELIVERY_S: Final = 0.5
# However small the budget, what is there is read: a null should name the conversation that it is about.
_LEAST_READING_S: Final = 0.25
_DISABLED: Final = "SANDBOX_JUDGE_DISABLED"


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("run", help=SUMMARY)
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    if surface.environ.get(_DISABLED) == "1":
        surface.err(f"sandbox-judge: switched off by {_DISABLED}=1; nothing was graded.")
        return 0
    request = request_of(args, surface)
    log = Log(surface.stderr, format=args.log_format, verbosity=-1 if args.quiet else args.verbose)
    interrupts = Interrupts()
    with interrupts.caught():
        return anyio.run(_Hook(request, surface, log, interrupts).main)


class _Hook:
    def __init__(self, request: RunRequest, surface: Surface, log: Log, interrupts: Interrupts) -> None:
        self.request, self.surface, self.log, self.interrupts = request, surface, log, interrupts
        self.stop = anyio.Event()
        self.reports: list[RunReport] = []
        self.failed = 0
        self.received: bytes | None = None
        self.unread = False

    async def main(self) -> int:
        started = anyio.current_time() - (time.monotonic() - self.surface.started_at)
        code, failure = 70, None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.interrupts.watch, self.stop)
            try:
                code = await self._run(started, tasks)
            except SandboxJudgeError as error:
                failure = error  # raised outside, where no group wraps it
            # A call that does not let go when it is cancelled must not keep the process: all was emitted.
            self.surface.exit_soon(code if failure is None else failure.exit_code, _LET_GO_S)
            tasks.cancel_scope.cancel()
        if failure is not None and self.interrupts.exit_code is not None:
            self.surface.err(f"sandbox-judge: {mask(failure.paragraph(), secrets_of(self.surface.environ))}")
            return self.interrupts.exit_code
        if failure is not None:
            raise failure
        return code

    async def _run(self, started: float, tasks: anyio.abc.TaskGroup) -> int:
        request, surface = self.request, self.surface
        files = self._settings()
        known = await self._known(started, tasks)
        if known is None:
            surface.err("sandbox-judge: stopped before the recipe was read; no judge was known yet.")
            return self.interrupts.exit_code or 70
        taken, subjects, recipe = known
        settings = live_settings(files, envelope=taken.envelope, recipe_id=recipe.recipe_id)
        budget = budget_in_force(
            settings,
            recipe.recipe_id,
            envelope=taken.envelope,
            budget_s=request.budget_s,
            concurrency=request.concurrency,
        )
        self._doubts(taken, recipe)
        lanes, environ = self._lanes(), surface.environ
        if request.simulate is not None:
            lanes, environ = self._simulated(request.simulate, recipe)
            started = anyio.current_time()  # what the estimate takes is not the budget's
        self._try_report()
        sinks, spool = self._sinks(), self._spool()
        # Each conversation has the budget for itself; a budget of nothing still delivers its nulls.
        deadline = started + max(0.0, budget.total_s) * len(subjects)
        deadline = max(deadline, anyio.current_time() + _LEAST_DELIVERY_S)
        async with delivering(sinks, spool=spool, deadline=deadline) as delivery:
            ports = Ports(
                tasks=tasks,
                lanes=lanes,
                slots=OwnSlots(budget.concurrency),
                environ=environ,
                deliver=self._deliver(delivery),
                crashed=self._crashed,
                stop=self.stop,
            )
            for number, subject in enumerate(subjects):
                begun = started if number == 0 else anyio.current_time()
                report = await run_conversation(
                    subject,
                    recipe,
                    settings,
                    budget=budget,
                    started=begun,
                    options=self._options(),
                    ports=ports,
                )
                await self._ended(subject, recipe, report, delivery)
            if self.stop.is_set():
                deadline = anyio.current_time() + _STOPPED_S
            delivered = await delivery.finish(deadline=deadline)
        with anyio.CancelScope(deadline=anyio.current_time() + _LET_GO_S, shield=True):
            await lanes.aclose()
        return self._code(delivered)

    async def _known(
        self, started: float, tasks: anyio.abc.TaskGroup
    ) -> tuple[Input, tuple[Subject, ...], LoadedRecipe] | None:
        """Input and recipe; None for a run that was stopped before there was enough of them to give nulls."""
        taken: Input | None = None
        subjects: tuple[Subject, ...] = ()
        with anyio.CancelScope() as early:
            tasks.start_soon(self._hurry, early)
            taken = await self._input(started)
            subjects = taken.subjects(id=self.request.id, every=self.request.every)
            return taken, subjects, await self._recipe(taken, started)
        if early.cancelled_caught and self.received is not None:
            with anyio.CancelScope(deadline=anyio.current_time() + _LEAST_DELIVERY_S):
                if taken is None:
                    taken = self._unread(self.received)
                    subjects = taken.subjects()
                return taken, subjects, await self._recipe(taken, started)
        return None

    async def _hurry(self, scope: anyio.CancelScope) -> None:
        await self.stop.wait()
        scope.deadline = anyio.current_time() + _STOPPED_S

    async def _input(self, started: float) -> Input:
        request = self.request
        cut_short = False
        if request.conversation is not None:
            try:
                data = await anyio.to_thread.run_sync(request.conversation.read_bytes, abandon_on_cancel=True)
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                raise InputError(
                    f"cannot be read ({reason}).",
                    where=str(request.conversation),
                    remedy="Give a file, or the conversation on stdin.",
                ) from error
        elif self.surface.stdin_is_terminal:
            raise UsageError("no conversation was given.", remedy="Name a file, or give one on stdin.")
        else:
            deadline = max(started + self._patience_s, anyio.current_time() + _LEAST_READING_S)
            received = await read_stream(self.surface.stdin.fileno(), deadline=deadline)
            data, cut_short = received.data, received.cut_short
        self.received = data
        # A conversation that is too large to be read must not keep its judges from having a null.
        ends = started + self._patience_s - reserve_for(self._patience_s)
        with anyio.CancelScope(deadline=max(ends, anyio.current_time() + _LEAST_READING_S)):
            return await anyio.to_thread.run_sync(
                lambda: read_input(
                    data, otherwise=request.supply, cut_short=cut_short, format=request.format
                ),
                abandon_on_cancel=True,
            )
        return self._unread(data)

    def _unread(self, data: bytes) -> Input:
        self.unread = True
        return unread_input(data, otherwise=self.request.supply)

    @property
    def _patience_s(self) -> float:
        """The time that the input may take, as far as it is known before anything was read."""
        return DEFAULT_BUDGET_S if self.request.budget_s is None else max(0.0, self.request.budget_s)

    def _settings(self) -> tuple[Settings, ...]:
        # A person's dry run has nothing to do with the platform's switches but its endpoints and keys.
        place = config_dir(self.surface.environ)
        return read_settings_files(
            self.request.settings, self.surface.environ, place.path, insecure=self.request.insecure
        )

    async def _recipe(self, taken: Input, started: float) -> LoadedRecipe:
        request = self.request
        ref = taken.envelope.recipe
        if request.worktree:
            ref = type(ref)(path=ref.path, id=ref.id, worktree=True)
        patience = max(1.0, self._patience_s)
        return await open_recipe(
            ref,
            environ=self.surface.environ,
            cwd=self.surface.cwd,
            dry_run=request.dry_run,
            only=request.judges,
            deadline=max(started + patience, anyio.current_time() + 1.0),
        )

    def _doubts(self, taken: Input, recipe: LoadedRecipe) -> None:
        """What the operator should know, a line each."""
        for warning in taken.warnings:
            self.log.warning(warning)
        for conversation in taken.conversations:
            for doubt in conversation.warnings:
                self.log.info(doubt.message, entry=doubt.entry or "-", code=doubt.code)
        if taken.envelope.environment is None and not self.request.dry_run:
            self.log.warning("no environment was given: every judge grades in full, nothing is sampled")
        if recipe.recipe_id_guessed:
            self.log.warning(
                "the recipe's id is guessed from its folder; give --recipe-id or a name in package.json",
                recipe_id=recipe.recipe_id,
            )
        if not recipe.source.has_judges:
            at = recipe.commit or "the work tree"
            self.log.warning("the recipe has no judges/ there: nothing to grade", at=at)
        for judge in recipe.judges:
            for fault in judge.faults:
                line = f":{fault.line}:{fault.column}" if fault.line is not None else ""
                self.log.error(f"{fault.path}{line}: {fault.message}", code=fault.code)

    def _lanes(self) -> Lanes:
        request = self.request
        memory = None
        if not request.dry_run:
            memory = FileMemory(state_dir(self.surface.environ).path, now=time.time)
        weights = self.surface.cwd / request.local if request.local else None
        lanes = Lanes(self.surface.environ, memory=memory, weights=weights)
        if request.local is not None:
            lanes.get("local")  # an engine or weights that are not there end the run here
        return lanes

    def _simulated(self, events: Path, recipe: LoadedRecipe) -> tuple[Lanes, Mapping[str, str]]:
        # What estimates latencies is of no use to a hook.
        from sandbox_judge.coverage.rehearsal import SimulatedKeys, rehearsal  # noqa: PLC0415

        model = rehearsal(events, recipe)
        if model.unknown:
            self.log.warning("judges without a past answer at once", judges=", ".join(model.unknown))
        environ = SimulatedKeys(self.surface.environ)
        return Lanes(environ, given={"openai_wire": model, "litellm": model}), environ

    def _sinks(self) -> list[Any]:
        request, surface = self.request, self.surface
        addresses = list(request.sinks)
        if request.output == "text" or request.explain:
            addresses = [address for address in addresses if address != "stdout"]
        if request.explain:
            addresses = []
        return open_sinks(
            addresses,
            environ=surface.environ,
            cwd=surface.cwd,
            stdout=surface.events_fd,
            dry_run=request.dry_run,
        )

    def _try_report(self) -> None:
        """A report that cannot be written is known before anything is paid for."""
        path = self.request.report_file
        if path is not None:
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666))
            except OSError as error:
                why = os.strerror(error.errno or 0)
                raise UsageError(f"cannot be written ({why}).", where=f"--report-file {path}") from error

    def _spool(self) -> Spool | None:
        if self.request.dry_run:
            return None
        return Spool(state_dir(self.surface.environ).path / "spool", insecure=self.request.insecure)

    def _options(self) -> RunOptions:
        request = self.request
        local = request.local is not None
        return RunOptions(
            dry_run=request.dry_run,
            explain=request.explain,
            local=local,
            model=request.model,
            allowance=LOCAL_ALLOWANCE if local else ALLOWANCE,
            redact=request.redact,
            unread=self.unread,
        )

    async def _ended(
        self, subject: Subject, recipe: LoadedRecipe, report: RunReport, delivery: Delivery
    ) -> None:
        request, surface = self.request, self.surface
        self.reports.append(report)
        line = canonical_json(report.ledger)
        if not request.explain:
            await delivery.deliver(line, report.ledger["id"], ledger=True)
        if request.report_file is not None:
            self._write_report(request.report_file, line)
        if request.output == "text":
            self._show(present.person(subject, recipe, report, local=request.local is not None))
        elif request.explain:
            self._show([line.decode("ascii")])
        elif not self.log.quiet:
            for text in present.summary(report):
                surface.err(text)
        if request.report:
            surface.err(line.decode("ascii"))

    def _deliver(self, delivery: Delivery) -> Deliver:
        """Where events go; a local run, which takes minutes, says on the way what has come so far."""
        if self.request.local is None:
            return delivery.deliver
        self.surface.err(
            "sandbox-judge: grading with the local model, some 10 to 30 s a judge on two free cores"
        )

        async def told(line: bytes, event_id: str) -> None:
            await delivery.deliver(line, event_id)
            self.surface.err(f"sandbox-judge: {present.progress(line)}")

        return told

    def _crashed(self, error: BaseException) -> str:
        crash_id, text = crash_report(error, secrets_of(self.surface.environ))
        self.surface.err(text)
        return crash_id

    def _code(self, delivered: DeliveryReport) -> int:
        for message in delivered.messages:
            self.surface.err(f"sandbox-judge: {message}")
        if self.interrupts.exit_code is not None:
            return self.interrupts.exit_code
        if delivered.exit_code:
            return delivered.exit_code
        if self.failed:
            return self.failed
        results = [event["payload"]["result"] for report in self.reports for event in report.events]
        if self.request.fail_on in ("fail", "any") and "fail" in results:
            return 1
        if self.request.fail_on in ("null", "any") and None in results:
            return 4
        return 0

    def _write_report(self, path: Path, line: bytes) -> None:
        # Several conversations of one run: a line each.
        try:
            with open(path, "ab" if len(self.reports) > 1 else "wb") as file:
                file.write(line + b"\n")
        except OSError as error:
            self._lose(f"the report {path} cannot be written ({os.strerror(error.errno or 0)})", 2)

    def _show(self, lines: Iterable[str]) -> None:
        """What a person reads on stdout: that it cannot be written must not cost other sinks their events."""
        try:
            for text in lines:
                self.surface.out(text)
        except DeliveryError as error:
            self._lose(error.paragraph(), 3)

    def _lose(self, told: str, code: int) -> None:
        if not self.failed:
            self.surface.err(f"sandbox-judge: {told}")
        self.failed = self.failed or code

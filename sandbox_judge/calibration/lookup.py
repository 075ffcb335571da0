"""The calibration state of the judges of one run, read from the pinned commit while their models answer.

Off the critical path: nothing is read before a judge is asked, a judge without a record costs nothing, and
all judges that are asked at one time are read with one git process. Whatever is wrong with a record means
that nothing proves a calibration.
"""

from collections.abc import Mapping
from typing import Final

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import msgspec

from sandbox_judge.calibration.files import dataset_name, record_name
from sandbox_judge.calibration.record import Record, endpoint_word, read_record
from sandbox_judge.calibration.state import quick_dataset_hash, state_of
from sandbox_judge.errors import InputError
from sandbox_judge.judgement import Calibration
from sandbox_judge.lanes.base import Endpoint
from sandbox_judge.recipe.load import RecipeSource, SourceFile, load_extras


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge's state is computed from: its record, and the hash of its set as it lies beside it."""

    record: Record | None = None
    dataset_hash: str | None = None


_NOTHING: Final = Facts()


class Calibrations:
    """The states of one recipe's judges. `deadline` bounds the reading, on anyio's clock."""

    def __init__(
        self,
        source: RecipeSource,
        *,
        environ: Mapping[str, str],
        tasks: anyio.abc.TaskGroup,
        deadline: float,
    ) -> None:
        self._source, self._environ, self._tasks, self._deadline = source, environ, tasks, deadline
        self._facts: dict[str, Facts] = {}
        self._waiting: set[str] = set()
        self._known: dict[str, anyio.Event] = {}
        self._reading = False

    def begin(self, name: str) -> None:
        """Begins to read what is known of a judge; returns at once."""
        if name in self._known:
            return
        self._known[name] = anyio.Event()
        if not self._has_record(name):
            self._know(name, _NOTHING)
            return
        self._waiting.add(name)
        if not self._reading:
            self._reading = True
            self._tasks.start_soon(self._read)

    async def state(
        self, name: str, *, definition_hash: str, endpoint: Endpoint | None, response_model: str | None
    ) -> Calibration | None:
        """The state under the model that answered; None where it could not be read in time."""
        self.begin(name)
        with anyio.CancelScope(deadline=self._deadline):
            await self._known[name].wait()
        facts = self._facts.get(name)
        if facts is None:
            return None
        return state_of(
            facts.record,
            definition_hash=definition_hash,
            dataset_hash=facts.dataset_hash,
            endpoint=endpoint_word(endpoint or Endpoint()),
            response_model=response_model,
        )

    def _has_record(self, name: str) -> bool:
        """Whether a record may be there; from disk nobody knows before looking."""
        blobs, wanted = self._source.blobs, record_name(name).encode()
        if blobs is None:
            return self._source.has_judges and self._source.commit is None
        return any(entry.name == wanted for entry in blobs.entries)

    def _know(self, name: str, facts: Facts) -> None:
        self._facts[name] = facts
        self._known[name].set()

    async def _read(self) -> None:
        with anyio.CancelScope(deadline=self._deadline):
            # Judges that are asked in the same breath are read together.
            await anyio.lowlevel.checkpoint()
            while self._waiting:
                names, self._waiting = sorted(self._waiting), set()
                facts = await self._facts_of(names)
                for name in names:
                    self._know(name, facts.get(name, _NOTHING))
        self._reading = False

    async def _facts_of(self, names: list[str]) -> dict[str, Facts]:
        files = sorted({call(name) for name in names for call in (record_name, dataset_name)})
        try:
            found = await load_extras(self._source, files, environ=self._environ, deadline=self._deadline)
            return await anyio.to_thread.run_sync(
                lambda: {name: facts_of(name, found) for name in names}, abandon_on_cancel=True
            )
        except Exception:
            # A fault here, even one of ours, must cost no verdict: this task belongs to the whole run.
            return {}


def facts_of(name: str, found: Mapping[str, SourceFile]) -> Facts:
    """The facts of one judge among files by name; a record that cannot be read counts as none."""
    record, dataset = found.get(record_name(name)), found.get(dataset_name(name))
    if record is None or record.content is None:
        return _NOTHING
    try:
        read = read_record(record.content, where=record.path, judge=name)
    except InputError:
        return _NOTHING
    content = None if dataset is None else dataset.content
    return Facts(record=read, dataset_hash=None if content is None else quick_dataset_hash(content))

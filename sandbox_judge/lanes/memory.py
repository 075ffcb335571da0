"""What a model has refused before, kept in the state dir, so that the next run does not pay for it again.

Losing it costs one request; so nothing here ever fails a run. A file that is damaged, too big, or not ours
(another could write it) is as none.
"""

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from sandbox_judge.lanes.base import Call
from sandbox_judge.lanes.negotiation import PARAMETERS, Refusal

FILE_NAME: Final = "refused-parameters.json"
_FILE_CAP: Final = 256 * 1024
_MODELS: Final = 200
_EACH: Final = 16
_KEPT_S: Final = 30 * 86_400  # models change: ask again after a month


class Memory(Protocol):
    def known(self, call: Call) -> frozenset[Refusal]: ...

    def learn(self, call: Call, refusals: frozenset[Refusal]) -> None: ...


class NoMemory:
    """For a dry run, which reads and writes nothing."""

    def known(self, call: Call) -> frozenset[Refusal]:
        return frozenset()

    def learn(self, call: Call, refusals: frozenset[Refusal]) -> None:
        return None


class _Model(msgspec.Struct):
    at: float
    refused: list[tuple[str, str | None]] = []


class _File(msgspec.Struct):
    models: dict[str, _Model] = {}


def memory_key(call: Call) -> str:
    """Names the model at its endpoint; the base URL only as a hash, since it may be private."""
    base_url = call.endpoint.base_url or "default"
    digest = hashlib.sha256(base_url.encode("utf-8", "replace")).hexdigest()
    return f"{call.provider}/{call.model}@{digest[:16]}"


class FileMemory:
    """One file in `directory`, made 0700 when there is something to keep. Read once, at the first call; `now`
    is the wall clock. What this run learns holds for the run even where it cannot be written."""

    def __init__(self, directory: Path, *, now: Callable[[], float]) -> None:
        self._path = directory / FILE_NAME
        self._now = now
        self._models: dict[str, _Model] | None = None

    def known(self, call: Call) -> frozenset[Refusal]:
        if self._models is None:
            self._models = self._read()
        entry = self._models.get(memory_key(call))
        return frozenset(Refusal(name, value) for name, value in entry.refused) if entry else frozenset()

    def learn(self, call: Call, refusals: frozenset[Refusal]) -> None:
        """Adds what is lasting of `refusals`. Two processes at once: the file holds both, or the later."""
        lasting = {(r.parameter, r.value) for r in refusals if r.lasting}
        new = lasting - {(r.parameter, r.value) for r in self.known(call)}
        if not new:
            return
        key = memory_key(call)
        models = {**(self._models or {}), **self._read()}
        before = models[key].refused if key in models else []
        together = list(dict.fromkeys([*before, *sorted(new, key=str)]))[-_EACH:]
        models[key] = _Model(at=self._now(), refused=together)
        latest = sorted(models.items(), key=lambda item: item[1].at)[-_MODELS:]
        self._models = dict(latest)
        with contextlib.suppress(OSError):
            self._write(msgspec.json.encode(_File(models=self._models)))

    def _read(self) -> dict[str, _Model]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return {}
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            ours = status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if not stat.S_ISREG(status.st_mode) or not ours or status.st_size > _FILE_CAP:
                return {}
            try:
                models = msgspec.json.decode(file.read(_FILE_CAP), type=_File).models
            except (msgspec.MsgspecError, ValueError, OSError, RecursionError):
                return {}
        now = self._now()
        return {
            key: _Model(at=m.at, refused=[(n, v) for n, v in m.refused if n in PARAMETERS][:_EACH])
            for key, m in models.items()
            if abs(now - m.at) < _KEPT_S
        }

    def _write(self, data: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(prefix=".refused-", dir=self._path.parent)  # made 0600
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

"""Verdicts that a calibration already has, on disk: an interrupted run goes on, and no call is paid twice.

One file a definition, model and contract; one line a verdict, written when it is there. Nulls are not kept.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import canonical_json, sanitised, sha256
from sandbox_judge.contract import CONTRACT_VERSION
from sandbox_judge.grading.evidence import Evidence
from sandbox_judge.trust import make_private_dir, open_own_file

_LINE_BYTES: Final = 4 << 20


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A verdict with its reasons. `key` names view, question and repetition."""

    key: str
    answer: str
    reasoning: str
    evidence: tuple[Evidence, ...] = ()
    response_model: str | None = None


_lines: Final = msgspec.json.Decoder(Kept)


class VerdictLog:
    """The verdicts under one identity. `fresh` begins anew: what was there is not read."""

    def __init__(self, directory: Path, identity: Mapping[str, Any], *, fresh: bool = False) -> None:
        make_private_dir(directory)
        name = sha256(canonical_json({**identity, "contract_version": CONTRACT_VERSION}))
        self.path = directory / f"{name.removeprefix('sha256:')[:32]}.verdicts"
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if fresh else 0)
        self._file = os.fdopen(open_own_file(str(self.path), flags), "r+b")
        self._at: dict[str, int] = {}
        self._load()

    def __contains__(self, key: str) -> bool:
        return key in self._at

    def get(self, key: str) -> Kept | None:
        """The verdict that is kept under `key`."""
        at = self._at.get(key)
        if at is None:
            return None
        self._file.seek(at)
        return _lines.decode(self._file.readline(_LINE_BYTES))

    def put(self, kept: Kept) -> None:
        """Keeps a verdict. The first one under a key stands."""
        if kept.key in self._at:
            return
        at = self._file.seek(0, os.SEEK_END)
        self._file.write(msgspec.json.encode(sanitised(kept)) + b"\n")
        self._file.flush()
        self._at[kept.key] = at

    def close(self) -> None:
        self._file.close()

    def _load(self) -> None:
        at = self._file.seek(0)
        for line in iter(lambda: self._file.readline(_LINE_BYTES), b""):
            # A torn last line is what an interruption leaves; the verdict is asked for again.
            with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                self._at.setdefault(_lines.decode(line).key, at)
            at += len(line)
            whole = line.endswith(b"\n")
            if not whole:
                self._file.seek(0, os.SEEK_END)
                self._file.write(b"\n")
                return


def trial_key(*, sequence_hash: str, question: Mapping[str, Any], repeat: int) -> str:
    """The name of one trial: the view, what is asked about it, and which repetition."""
    return sha256(canonical_json([sequence_hash, question, repeat])).removeprefix("sha256:")[:32]

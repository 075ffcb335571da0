"""Canonical conversations kept beside the store, a file each by `sequence_hash`: for drill-down, re-grading.

Off by default, since a conversation is what its user said. They come as lines of their own
(`sandbox_judge.conversation`), never inside an event, and have a retention of their own.
"""

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from sandbox_judge.conversation.model import Conversation
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.store.records import KeptConversation
from sandbox_judge.trust import make_private_dir

_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)
_MAX_BYTES: Final = 64 * 1024 * 1024


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A directory of conversations."""

    directory: Path

    def path(self, sequence_hash: str) -> Path:
        """Where a conversation is kept: the hash is checked, so that it can name nothing else. Raises
        InputError."""
        match = _HASH.fullmatch(sequence_hash)
        if match is None:
            raise InputError(f"{sequence_hash[:80]!r} is not a sequence hash.")
        return self.directory / match[1][:2] / f"{match[1]}.json"

    def keep(self, conversations: Iterable[KeptConversation]) -> int:
        """Writes those that are not there, each whole or not at all; the first of a hash stands. How many
        were new. Raises OSError."""
        new = 0
        for one in conversations:
            path = self.path(one.sequence_hash)
            if path.exists():
                continue
            path.parent.mkdir(mode=0o700, exist_ok=True)
            unfinished = path.with_suffix(f".{os.getpid()}.part")
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(one.body)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
            new += 1
        return new

    def get(self, sequence_hash: str) -> bytes | None:
        """A kept conversation's bytes, None where it is not kept (any more)."""
        try:
            with open(self.path(sequence_hash), "rb") as file:
                return file.read(_MAX_BYTES)
        except FileNotFoundError:
            return None

    def conversation(self, sequence_hash: str) -> Conversation | None:
        """A kept conversation; None where it is not kept (any more). Raises InputError."""
        raw = self.get(sequence_hash)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw, type=Conversation)
        except (msgspec.DecodeError, RecursionError) as err:
            raise InputError(
                f"a kept conversation cannot be read: {err}.", where=str(self.path(sequence_hash))
            ) from err

    def let_go(self, *, keep_s: float) -> int:
        """Removes what was kept longer ago than `keep_s` seconds; how many."""
        limit = time.time() - keep_s
        gone = 0
        for path in self.directory.glob("[0-9a-f][0-9a-f]/*"):
            try:
                if path.stat().st_mtime < limit:
                    path.unlink()
                    gone += 1
            except FileNotFoundError:
                continue  # another collector was quicker
        return gone


def kept_in(directory: Path, *, insecure: bool = False) -> Kept:
    """The conversations in a directory, made if need be, that only we can read. Raises TrustError,
    UsageError."""
    make_private_dir(directory, insecure=insecure)
    if directory.stat().st_mode & 0o077 and not insecure:
        raise UsageError(
            "others can read it, and conversations are private.",
            where=str(directory),
            remedy=f"chmod 700 {directory}",
        )
    return Kept(directory=directory)

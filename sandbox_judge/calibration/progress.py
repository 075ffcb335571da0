"""How far a long run has come, on one line of a terminal: a bar, a count, the time that is left."""

import time
from collections.abc import Callable
from typing import Final, TextIO

from sandbox_judge.durations import shown

_WIDTH: Final = 24
_EVERY_S: Final = 0.2


class Bar:
    """Draws on a terminal only; elsewhere it says nothing. `total` None: not known."""

    def __init__(
        self,
        stream: TextIO,
        *,
        total: int,
        terminal: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._total, self._terminal, self._now = stream, total, terminal, now
        self._began = now()
        self._drawn = 0.0
        self.done = 0
        self._paid = 0

    def step(self, *, free: bool = False) -> None:
        """One more is done. What was had already (`free`) says nothing about the time that is left."""
        self.done += 1
        self._paid += not free
        now = self._now()
        if self._terminal and (now - self._drawn >= _EVERY_S or self.done == self._total):
            self._drawn = now
            self._write(f"\r{self.line(now - self._began)}\x1b[K")

    def line(self, elapsed_s: float) -> str:
        """The line as it stands after `elapsed_s` seconds."""
        share = self.done / self._total if self._total else 1.0
        filled = round(share * _WIDTH)
        left = self._total - self.done
        eta = f", {shown(elapsed_s / self._paid * left)} left" if self._paid and left else ""
        return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self.done}/{self._total}{eta}"

    def end(self) -> None:
        if self._terminal and self.done:
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._terminal = False

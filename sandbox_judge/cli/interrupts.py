"""Signals that end a run: SIGTERM, SIGINT and SIGHUP mean that the deadline is now (design, section 9)."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

import anyio

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupts:
    """What came. Signals that arrive before an event loop runs are kept until it does."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    @property
    def exit_code(self) -> int | None:
        """128 plus the number of the signal that came first."""
        return None if self.first is None else 128 + self.first

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catches the signals from here on; the handlers that were there before come back at the end."""
        for number in SIGNALS:
            try:
                self._before[number] = signal.signal(number, self._note)
            except (ValueError, OSError):  # not the main thread: the host's own handlers stand
                continue
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # `__main__` held them back until now
        try:
            yield
        finally:
            for caught, handler in self._before.items():
                signal.signal(caught, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.first = self.first or signal.Signals(number)

    async def watch(self, stop: anyio.Event) -> None:
        """Sets `stop` at the first signal; runs until it is cancelled."""
        if self.first is not None:
            stop.set()
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            if self.first is not None:
                stop.set()
            async for number in signals:
                self.first = self.first or signal.Signals(number)
                stop.set()

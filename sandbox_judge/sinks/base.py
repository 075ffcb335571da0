"""What a sink is: a place that takes one line of canonical JSON at a time.

A sink says by raising `DeliveryError` that a line was not taken. Whether that loses anything is the spool's
business (`spool.py`): sinks whose `spooled` is true get a line only after it was fsynced there.
"""

from typing import Protocol


class Sink(Protocol):
    """One destination. `name` is what the user wrote (`unix:/run/judge.sock`), safe to show."""

    @property
    def name(self) -> str: ...

    @property
    def spooled(self) -> bool:
        """Whether lines are written ahead to the spool (sockets, https, OTLP)."""
        ...

    @property
    def takes_ledger(self) -> bool:
        """Whether the run's ledger goes here too (every sink but stdout)."""
        ...

    async def send(self, line: bytes, *, event_id: str, deadline: float) -> None:
        """Hands over one line (without its newline). `deadline` is absolute on anyio's clock.
        Raises `DeliveryError` if it was not taken whole."""
        ...

    async def finish(self, *, deadline: float) -> None:
        """Ends the run's stream: what was sent counts as taken only once this returns, for sinks that can
        tell no sooner. Raises `DeliveryError`."""
        ...

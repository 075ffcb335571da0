"""What a sink is: a place that takes lines of canonical JSON, and says of each when it was taken.

A sink says by raising `DeliveryError` that something was not taken. Whether that loses anything is the
spool's business (`spool.py`): sinks whose `spooled` is true get a line only after it was fsynced there.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from sandbox_judge.errors import DeliveryError

# Called with the event id of a line that is now the destination's responsibility.
Taken = Callable[[str], None]


class Line(msgspec.Struct, frozen=True):
    """One event: its id (the event's own `id`), and its canonical JSON without the newline."""

    event_id: str
    data: bytes


class SinkRefused(DeliveryError):
    """The destination looked at what was not reported as taken and said no: sending the same again at once
    would be refused again."""


class SinkBroken(DeliveryError):
    """The destination cannot take anything any more in this process (a closed pipe)."""


class Sink(Protocol):
    """One destination of one run, used by one task at a time.

    After a `DeliveryError` whatever was sent and not reported to `taken` counts as not taken: the caller
    sends those lines again, whole, and the sink starts on a new connection. Cancellation is as an error.
    """

    @property
    def name(self) -> str:
        """The address, normalised so that `flush` can open it again from anywhere; holds no secret."""
        ...

    @property
    def spooled(self) -> bool:
        """Whether lines are written ahead to the spool (sockets, https, OTLP)."""
        ...

    @property
    def takes_ledger(self) -> bool:
        """Whether the run's ledger goes here too (every sink but stdout)."""
        ...

    async def send(self, lines: Sequence[Line], *, deadline: float, taken: Taken) -> None:
        """Hands over lines in order. `deadline` is absolute on anyio's clock. `taken` may be called for them
        now or in a later `send` or `finish`. Raises `DeliveryError`."""
        ...

    async def finish(self, *, deadline: float, taken: Taken) -> None:
        """Ends the stream; on return every line that was sent has been reported to `taken`. The sink may be
        used again afterwards. Raises `DeliveryError`."""
        ...

    async def aclose(self) -> None:
        """Lets go of descriptors and connections; never raises."""
        ...

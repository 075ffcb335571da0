"""The server's door: connections in, whole requests to whoever serves them, and nothing that one client does
reaching another's.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import socket
from typing import Final

import anyio
import anyio.abc

from sandbox_judge.errors import SandboxJudgeError, TrustError
from sandbox_judge.resident.listening import require_peer
from sandbox_judge.resident.plan import Plan
from sandbox_judge.resident.protocol import RequestRefused, crash_line, error_line, refusal_of
from sandbox_judge.resident.reading import Arrived, Reading, read_request
from sandbox_judge.resident.reply import hang_up

_ANSWER_S: Final = 1.0
_CROWDED_S: Final = 0.05
# Connections that have not sent a whole request, and requests of the greatest size that may be in memory
# together.
_READERS: Final = 256
_HELD_REQUESTS: Final = 4
# Fewer than the readers: who has just come is heard before anybody is dropped for more.
_ACCEPTED_AT_ONCE: Final = 64


class Door:
    """`request` serves one whole request on its connection; what it raises, the client is told."""

    def __init__(
        self,
        plan: Plan,
        request: Callable[[socket, Arrived], Awaitable[None]],
        crashed: Callable[[BaseException], str],
    ) -> None:
        self.plan = plan
        self._request, self._crashed = request, crashed
        self._readings: dict[int, Reading] = {}
        self._held_bytes = 0

    @property
    def waiting(self) -> int:
        """Connections that have not sent a whole request."""
        return len(self._readings)

    async def open(self, listener: socket, tasks: anyio.abc.TaskGroup) -> None:
        """Takes connections until it is cancelled; each is served in `tasks`."""
        while True:
            await anyio.wait_readable(listener)
            try:
                for _ in range(_ACCEPTED_AT_ONCE):
                    self._take(listener.accept()[0], tasks)
            except BlockingIOError:
                continue
            except OSError:  # no descriptor is left, or the client is gone already
                self._drop_silent()
                await anyio.sleep(_CROWDED_S)

    def _take(self, sock: socket, tasks: anyio.abc.TaskGroup) -> None:
        sock.setblocking(False)
        if len(self._readings) >= _READERS:
            self._drop_silent()
        reading = Reading(sock=sock, scope=anyio.CancelScope(), since=anyio.current_time())
        self._readings[sock.fileno()] = reading
        tasks.start_soon(self._connection, reading)

    async def _connection(self, reading: Reading) -> None:
        sock, held = reading.sock, 0

        def room(size: int) -> bool:
            nonlocal held
            if self._held_bytes + size > _HELD_REQUESTS * self.plan.most_bytes:
                return False
            held += size
            self._held_bytes += size
            return True

        try:
            arrived = None
            try:
                require_peer(sock, self.plan.allowed_uids)
                with reading.scope:
                    arrived = await read_request(reading, most_bytes=self.plan.most_bytes, room=room)
            finally:
                self._readings.pop(sock.fileno(), None)
            if arrived is not None:
                await self._request(sock, arrived)
        except TrustError as error:
            await answer(sock, error_line(RequestRefused("not_allowed", error.message, remedy=error.remedy)))
        except SandboxJudgeError as error:
            await answer(sock, error_line(refusal_of(error)))
        except Exception as error:  # one request's fault never touches another
            await answer(sock, crash_line(self._crashed(error)))
        finally:
            self._held_bytes -= held
            hang_up(sock)

    def _drop_silent(self) -> None:
        """Makes place by dropping the oldest connection that has sent nothing."""
        for number, reading in self._readings.items():
            if reading.received == 0:
                reading.scope.cancel()
                del self._readings[number]
                return


async def answer(sock: socket, line: bytes) -> None:
    """One line to a client, as far as it takes it at once or within a moment."""
    left = memoryview(line)
    with suppress(OSError), anyio.move_on_after(_ANSWER_S):
        while left:
            try:
                left = left[sock.send(left) :]
            except BlockingIOError:
                await anyio.wait_writable(sock)

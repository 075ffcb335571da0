"""Runs that are killed: started once, forks a child for each death, so that thirty deaths take seconds.

Arguments: spool directory, socket address, journal, results. Commands on stdin, one a line:
`time SEED` kills after a random time, `call N` before the Nth system call that touches spool or socket (every
second one amid a write). Answers on stdout with the number of calls that the child had made.
"""

import os
import random
import signal
import socket
import sys
import time
from pathlib import Path

import anyio

from sandbox_judge.sinks.delivery import delivering
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.sinks.spool import Spool

EVENTS = 4
SYSTEM_CALLS = ["open", "write", "fsync", "ftruncate", "unlink", "rename", "close"]


async def run(directory: str, address: str, journal: int, prefix: str) -> None:
    """One run: an event is in the journal once `deliver` has returned."""
    sinks = open_sinks([address], environ={}, cwd=Path("/"))
    spool = Spool(Path(directory))
    async with delivering(sinks, spool=spool, deadline=anyio.current_time() + 1.0) as delivery:
        for number in range(EVENTS):
            event_id = f"{prefix}-{number}"
            data = b'{"id":"%s","x":"%s"}' % (event_id.encode(), b"r" * 700 * number)
            await delivery.deliver(data, event_id)
            REAL["write"](journal, event_id.encode() + b"\n")
            await anyio.sleep(0.001)
    spool.close()


REAL = {name: getattr(os, name) for name in SYSTEM_CALLS}


def die_at(fatal: int, calls: list[int]) -> None:
    """Puts a counter before each call; at the fatal one half of a write is done, then the process dies."""

    def counted(name):
        def call(*args, **named):
            calls[0] += 1
            if calls[0] == fatal:
                if name == "write" and fatal % 2:
                    REAL["write"](args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return REAL[name](*args, **named)

        return call

    for name in SYSTEM_CALLS:
        setattr(os, name, counted(name))
    real_send = socket.socket.send

    class Socket(socket.socket):
        def send(self, data, flags=0):
            calls[0] += 1
            if calls[0] == fatal:
                real_send(self, bytes(data)[: len(data) // 2], flags)
                os.kill(os.getpid(), signal.SIGKILL)
            return real_send(self, data, flags)

        def shutdown(self, how):
            calls[0] += 1
            if calls[0] == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            super().shutdown(how)

    socket.socket = Socket


def child(how: str, value: int, arguments: list[str], results: int) -> None:
    directory, address, journal_path = arguments
    journal = os.open(journal_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    calls = [0]
    if how == "call":
        die_at(value, calls)
    anyio.run(run, directory, address, journal, f"{how}{value}")
    REAL["write"](results, b"%d" % calls[0])


def main() -> None:
    anyio.run(anyio.sleep, 0)  # the event loop is imported here once, not in each child
    for command in sys.stdin:
        how, value = command.split()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                child(how, int(value), sys.argv[1:], write)
            finally:
                os._exit(0)
        os.close(write)
        if how == "time":
            time.sleep(random.Random(int(value)).uniform(0.0, 0.03))
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        survived = os.read(read, 20).decode() or "dead"
        os.close(read)
        sys.stdout.write(f"{survived}\n")
        sys.stdout.flush()


main()

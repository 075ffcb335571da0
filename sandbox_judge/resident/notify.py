"""Telling the service manager how the server is (sd_notify), and how much memory it holds."""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"


def notify(environ: Mapping[str, str], *states: str) -> bool:
    """Sends states such as `READY=1` to the socket that the service manager named; False where there is none.

    systemd's protocol (sd_notify(3)): one datagram; a leading @ names an abstract socket. Never raises: a
    manager that went away is no reason to stop.
    """
    address = environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return False
    name = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(states).encode(), name)
    except (OSError, ValueError):
        return False
    return True


def reloading() -> str:
    """The state that begins a reload; systemd 253 asks for the monotonic time with it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def memory_bytes() -> int:
    """The resident memory of this process, 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0

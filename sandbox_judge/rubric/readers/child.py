"""The child's half of reading a file of a foreign format: limits first, then bytes in, text out.

Each reader beside this module is run as `python -I -m`: a parser that crashes, loops or unfolds a bomb ends
there, and what it may open or start there is nothing.
"""

import resource
import signal
import sys
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO, Final

MEMORY_BYTES: Final = 1 << 30
CPU_S: Final = 20
MOST_TEXT: Final = 4_000_000


def serve(text_of: Callable[[BinaryIO], str]) -> None:
    """Reads a file on stdin and writes its text on stdout. Exit 1, with the reason on stderr, for a file that
    cannot be read."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    data = sys.stdin.buffer.read()
    for limit, value in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    try:
        text = text_of(BytesIO(data))
    except MemoryError:
        sys.exit("it unfolds to more than a gigabyte")
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}"[:300])
    sys.stdout.buffer.write(text[:MOST_TEXT].encode("utf-8", "replace"))

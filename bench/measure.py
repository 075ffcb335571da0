"""Wall time, CPU and peak memory of whole processes, measured side by side in one run."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float
    peak_mib: float


def cost_of(argv: Sequence[str], *, environ: Mapping[str, str], stdin: bytes = b"", ok: int = 0) -> Cost:
    """Runs one process to its end and says what it cost. The child's own children count as well."""
    started = time.perf_counter()
    with open(os.devnull, "wb") as null:
        child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=null, stderr=subprocess.PIPE, env=environ
        )
        assert child.stdin and child.stderr
        try:
            child.stdin.write(stdin)
            child.stdin.close()
        except BrokenPipeError:
            pass
        said = child.stderr.read()
        child.stderr.close()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if child.returncode != ok:
        sys.exit(
            f"{' '.join(map(str, argv))} ended with {child.returncode}:\n{said.decode(errors='replace')}"
        )
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def side_by_side(
    runs: Mapping[str, Sequence[str]], *, rounds: int, environ: Mapping[str, str]
) -> dict[str, Cost]:
    """Medians of `rounds` rounds in which the contenders take turns, after one round that is not counted."""
    seen: dict[str, list[Cost]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, argv in runs.items():
            cost = cost_of(argv, environ=environ)
            if number:
                seen[name].append(cost)
    return {
        name: Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))
        for name, costs in seen.items()
    }


def machine() -> str:
    """What the figures were measured on, in one line."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} cores, {model}, Python {sys.version.split()[0]}"

"""`make fuzz`: every target for a while, from the corpora; what fails is kept under out/fuzz/ and told.

    python fuzz/fuzz.py [--minutes N] [--target NAME]... [--seed N] [--replay FILE --target NAME]

A run with the same seed makes the same inputs. An input that takes longer than `SLOW_S` of processor time is
a fault like any other.
"""

import argparse
import hashlib
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from mutation import Mutator
from targets import ROOT, TARGETS, Target, seeds

SLOW_S = 5.0
KEPT = ROOT / "out" / "fuzz"


class Finding(Exception):
    """An input for which a target did not give what is promised."""

    def __init__(self, name: str, data: bytes, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name, self.data, self.why = name, data, why


def attempt(name: str, data: bytes) -> None:
    """One input. Raises Finding."""
    target: Target = TARGETS[name]
    began = time.process_time()
    try:
        target(data)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"
        raise Finding(name, data, why) from error
    took = time.process_time() - began
    if took > SLOW_S:
        raise Finding(name, data, f"took {took:.1f} s of processor time")


def inputs(name: str, *, seed: int) -> Iterator[bytes]:
    """The seeds as they are, then what is near them, without end."""
    starts = seeds(name)
    yield from starts
    mutator = Mutator(starts, seed=seed)
    while True:
        yield mutator.input()


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz what reads bytes from outside.")
    parser.add_argument("--minutes", type=float, default=5.0, help="for all targets together")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), default=[])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--replay", type=Path, help="one kept input again")
    arguments = parser.parse_args()
    names = arguments.target or list(TARGETS)
    if arguments.replay:
        attempt(names[0], arguments.replay.read_bytes())
        return 0
    failed = 0
    for name in names:
        failed += _fuzzed(name, seconds=arguments.minutes * 60 / len(names), seed=arguments.seed)
    return 1 if failed else 0


def _fuzzed(name: str, *, seconds: float, seed: int) -> int:
    """How many different faults a target showed."""
    found: dict[str, bytes] = {}
    end = time.monotonic() + seconds
    tried = 0
    for data in inputs(name, seed=seed):
        if time.monotonic() > end:
            break
        tried += 1
        try:
            attempt(name, data)
        except Finding as finding:
            shape = finding.why.partition(": ")[0]
            if shape not in found or len(data) < len(found[shape]):
                found[shape] = data
                sys.stdout.write(f"  {finding} [{_kept(name, shape, data)}]\n")
    sys.stdout.write(f"{name:18} {tried:8} inputs, {len(found)} faults (seed {seed})\n")
    sys.stdout.flush()
    return len(found)


def _kept(name: str, shape: str, data: bytes) -> Path:
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{name}-{hashlib.sha256(shape.encode()).hexdigest()[:12]}"
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    sys.exit(main())

"""What `probe -o json` prints, read back by those who put it into a report."""

from typing import Any

import msgspec


class MovedRow(msgspec.Struct, kw_only=True):
    id: str
    before: str
    after: str
    changed: str
    diff: tuple[str, ...]
    expected: str | None = None


class ProbeLine(msgspec.Struct, kw_only=True):
    probe: str
    variant: str
    n: int
    flips: int
    to_pass: int
    from_pass: int
    moved: tuple[MovedRow, ...]
    share: float | None = None
    interval: tuple[float, float] | None = None
    mcnemar_p: float | None = None
    undefined: str | None = None


class ProbeDocument(msgspec.Struct, kw_only=True):
    """The parts that reports show; more may stand there."""

    judge: str
    definition_hash: str
    contract_version: str
    probes: tuple[ProbeLine, ...]
    llm: dict[str, Any] = {}


def read_probes(data: bytes) -> dict[str, Any]:
    """The document as JSON built-ins. Raises msgspec.MsgspecError where it is not one."""
    read: dict[str, Any] = msgspec.to_builtins(msgspec.json.decode(data, type=ProbeDocument))
    return read

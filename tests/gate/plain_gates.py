"""A plain event for gate tests, and literals as authors write them."""

from typing import Any

from sandbox_judge.gate.match import CompiledGate, compile_gate
from sandbox_judge.recipe.judge import EventKind, Matcher


class Plain:
    """An event whose fields are given: a list stands for itself and its elements, as the contract says."""

    def __init__(self, kind: EventKind, entry: int, fields: dict[str, Any]) -> None:
        self.kind: EventKind = kind
        self.entry = entry
        self.fields = fields

    def values(self, path: str) -> list[Any]:
        if path not in self.fields:
            return []
        value = self.fields[path]
        return [value, *value] if isinstance(value, list) else [value]

    def __repr__(self) -> str:
        return f"Plain({self.kind}, {self.entry}, {self.fields!r})"


def gate_of(*entries: tuple[EventKind, dict[str, Any] | None]) -> CompiledGate:
    return compile_gate(tuple(Matcher(event=kind, match=match) for kind, match in entries))

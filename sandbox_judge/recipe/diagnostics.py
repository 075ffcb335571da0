"""What is wrong with a recipe's files: values with stable codes (`spec/judge-file.md`, Diagnostics). A leaf.

Warnings carry the code of the field that they are about: the list of codes is closed.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

Severity = Literal["error", "warning"]

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "judge": (
        "unreadable", "yaml_malformed", "invalid", "unknown_field", "name_missing", "name_invalid",
        "name_conflict", "name_duplicate", "description_invalid", "instructions_missing",
        "instructions_invalid", "llm_missing", "llm_invalid", "gate_invalid", "on_invalid", "type_invalid",
    ),
    "judge.llm": (
        "unknown_field", "provider_invalid", "model_missing", "model_invalid", "request_invalid",
        "transport_invalid", "local_invalid",
    ),
    "judge.llm.request": (
        "unknown_field", "temperature_invalid", "max_tokens_invalid", "reasoning_effort_invalid",
    ),
    "judge.llm.transport": (
        "unknown_field", "timeout_ms_invalid", "max_retries_invalid", "max_retry_delay_ms_invalid",
    ),
    "judge.llm.local": ("unknown_field", "base_url_invalid", "api_key_env_invalid"),
    "judge.on": (
        "matcher_invalid", "matcher_unknown_field", "event_invalid", "match_invalid", "match_field_invalid",
        "match_field_prohibited", "regex_invalid",
    ),
}  # fmt: skip
CODES: Final = frozenset(f"{place}.{name}" for place, names in _NAMES.items() for name in names)


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One fault or doubt. `path` is relative to the recipe; `line` and `column` count from 1, where known.

    The texts may quote the file: escape them for a terminal.
    """

    code: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None
    help: str | None = None
    severity: Severity = "error"

    @property
    def is_error(self) -> bool:
        return self.severity == "error"

    def as_json(self) -> dict[str, Any]:
        """The report's shape: `{code, path, message, span?, help?, severity}`."""
        out: dict[str, Any] = {"code": self.code, "path": self.path, "message": self.message}
        if self.line is not None:
            out["span"] = {"line": self.line, "column": self.column or 1}
        if self.help is not None:
            out["help"] = self.help
        return {**out, "severity": self.severity}


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """By path, then position; what has no position stands before the rest of its file."""
    return tuple(sorted(diagnostics, key=lambda d: (d.path, d.line or 0, d.column or 0)))


def clipped(text: str, limit: int = 80) -> str:
    """`text` as a message may quote it: not longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


class Findings:
    """Collects what reading one file finds; every reader of a field adds to the same one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[Diagnostic] = []

    def error(self, code: str, message: str, at: Any, help: str | None = None) -> None:
        """Add an error. `at` has `line` and `column`, or is None."""
        self._add(code, message, at, help, "error")

    def warning(self, code: str, message: str, at: Any, help: str | None = None) -> None:
        self._add(code, message, at, help, "warning")

    def _add(self, code: str, message: str, at: Any, remedy: str | None, severity: Severity) -> None:
        line, column = (None, None) if at is None else (at.line, at.column)
        self.found.append(
            Diagnostic(
                code=f"judge.{code}", path=self.path, message=message, line=line, column=column, help=remedy,
                severity=severity,
            )
        )  # fmt: skip

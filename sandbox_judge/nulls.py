"""Why a judge gave no verdict: the closed list of error types (`spec/events.md`), as values.

A null is an outcome, not an exception: grading returns a graded reply or an `Invalid`. A leaf.
"""

from typing import Final, Literal, get_args

import msgspec

ErrorType = Literal[
    "timeout",
    "budget_exhausted",
    "cancelled",
    "rate_limited",
    "connection",
    "provider_error",
    "auth",
    "model_not_found",
    "bad_request",
    "not_allowed",
    "context_overflow",
    "refused",
    "empty_output",
    "output_truncated",
    "malformed_output",
    "out_of_vocabulary",
    "ambiguous_output",
    "missing_context",
    "definition_invalid",
    "gate_timeout",
    "agent_limit",
    "internal",
]

ERROR_TYPES: Final[tuple[str, ...]] = get_args(ErrorType)
RETRYABLE: Final[frozenset[str]] = frozenset({"timeout", "rate_limited", "connection", "provider_error"})


class Invalid(msgspec.Struct, frozen=True, kw_only=True):
    """A null: no verdict, and why. `retryable` is None where the type decides (a used-up quota is not)."""

    type: ErrorType
    message: str
    retryable: bool | None = None

    @property
    def may_pass_on_retry(self) -> bool:
        return self.type in RETRYABLE if self.retryable is None else self.retryable

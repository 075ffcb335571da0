"""What a request to the resident runner may say, and what the runner says back (design, section 14). Pure.

A request is the hook input as one JSON document. A client may put one line before it, the header
`{"sandbox_judge": {...}}`: what its own flags and variables say, in the envelope's keys, for what the input
does not say itself. Recipe, settings and sinks are the server's; a request that names others is refused.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import canonical_json
from sandbox_judge.caps import cut
from sandbox_judge.envelope import Envelope, RecipeRef, check_environment
from sandbox_judge.errors import InputError, SandboxJudgeError, UsageError
from sandbox_judge.hook_input import Input

HEADER_START: Final = b'{"sandbox_judge":'
MOST_HEADER_BYTES: Final = 1 << 20
_MESSAGE_CHARS: Final = 2_000
ACCEPTED: Final = b'{"accepted": true}\n'
# `error.type` is one of refused, invalid, recipe (what another way would not change), and too_large,
# incomplete, not_allowed, busy, draining, internal (after which a client falls back to the one-shot run).


class RequestRefused(SandboxJudgeError):
    """A request that is not begun; `type` is the word that the client reads."""

    exit_code = 2

    def __init__(self, type: str, message: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(message, where=where, remedy=remedy)
        self.type = type


class Header(Envelope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The line before a request. `ping` asks how the server is; `cut_short` says that the client's own input
    was still open when waiting for it ended."""

    ping: bool = False
    cut_short: bool = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request taken apart: the header's word and the input's bytes."""

    header: Header
    data: bytes


class Fixed(msgspec.Struct, frozen=True, kw_only=True):
    """What the server has fixed, as far as a request may name it."""

    path: str
    recipe_id: str | None
    commit: str | None


def request_of(raw: bytes) -> Request:
    """Takes a request apart. Raises RequestRefused for a header that is none."""
    if not raw.startswith(HEADER_START):
        return Request(header=Header(), data=raw)
    line, _, data = raw.partition(b"\n")
    if len(line) > MOST_HEADER_BYTES:
        raise RequestRefused("too_large", f"the header is larger than {MOST_HEADER_BYTES} bytes.")
    try:
        header = msgspec.json.decode(line, type=_Line).sandbox_judge
        check_environment(header.environment)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused("refused", f"the header cannot be used: {error}.", where="header") from error
    except InputError as error:
        raise RequestRefused("invalid", error.message, where="header", remedy=error.remedy) from error
    return Request(header=header, data=data)


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sandbox_judge: Header


def checked(taken: Input, fixed: Fixed) -> Envelope:
    """The envelope of a request that sets nothing but what it may.

    Raises RequestRefused, and UsageError where no commit is known.
    """
    envelope = taken.envelope
    recipe = envelope.recipe
    given = {
        **dict.fromkeys(taken.unknown_keys, True),
        "settings": envelope.settings is not None,
        "recipe.path": recipe.path not in (None, fixed.path),
        "recipe.id": recipe.id is not None and recipe.id != fixed.recipe_id,
        "recipe.worktree": recipe.worktree,
    }
    refused = sorted(key for key, is_refused in given.items() if is_refused)
    if refused:
        raise RequestRefused(
            "refused",
            f"a request may not set {', '.join(refused)}.",
            remedy="Recipe, settings and sinks are fixed when the server starts; a request gives "
            "the conversation, ids, status, commit, environment, experiment, feedback and a budget.",
        )
    commit = recipe.commit or fixed.commit
    if commit is None:
        raise UsageError(
            "no commit was named, and the server was started without one.",
            remedy="Give recipe.commit in the request, or start the server with --commit.",
        )
    return msgspec.structs.replace(
        envelope, recipe=RecipeRef(path=fixed.path, commit=commit, id=fixed.recipe_id)
    )


def within(envelope: Envelope, header: Header, *, most_ms: float) -> Envelope:
    """The envelope with the budget in force: the request's, at most `most_ms`, the server's own, and at most
    what the client will wait for. Raises RequestRefused for a request that asks for more than the server's.
    """
    if envelope.budget_ms is not None and envelope.budget_ms > most_ms:
        raise RequestRefused(
            "refused",
            f"a budget of {envelope.budget_ms:.0f} ms is above the server's, {most_ms:.0f} ms.",
            where="budget_ms",
            remedy="Give a smaller one, or raise the server's (--budget, or budget_ms of its settings).",
        )
    budgets = [budget for budget in (envelope.budget_ms, header.budget_ms, most_ms) if budget is not None]
    return msgspec.structs.replace(envelope, budget_ms=min(budgets))


def error_line(error: RequestRefused) -> bytes:
    """The reply to a request that is not begun."""
    return _error({"type": error.type, "message": cut(error.paragraph(), _MESSAGE_CHARS)})


def crash_line(crash_id: str) -> bytes:
    return _error({"type": "internal", "message": f"a bug of sandbox_judge; its report is {crash_id}"})


def refusal_of(error: SandboxJudgeError) -> RequestRefused:
    """An expected failure of reading the input or the recipe, as the word for the client."""
    if isinstance(error, RequestRefused):
        return error
    kind = "invalid" if isinstance(error, InputError | UsageError) else "recipe"
    return RequestRefused(kind, error.message, where=error.where, remedy=error.remedy)


def _error(error: Mapping[str, Any]) -> bytes:
    return canonical_json({"error": dict(error)}) + b"\n"

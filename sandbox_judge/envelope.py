"""The hook input as one JSON document: an envelope around a conversation, or a bare one (design, section 3).

Pure: parsed JSON in, values out. What an envelope does not say, flags and variables supply.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from sandbox_judge.errors import InputError

Environment = Literal["development", "staging", "production"]
ENVIRONMENTS: Final = ("development", "staging", "production")


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    id: str | None = None
    arm_id: str | None = None


class RecipeRef(msgspec.Struct, frozen=True, kw_only=True):
    """Which recipe: a folder (may be a subfolder of its repository) and the commit the agent ran from.

    `worktree` reads the files on disk instead (a dry run; the commit is left out of the events).
    """

    path: str | None = None
    commit: str | None = None
    id: str | None = None
    worktree: bool = False


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What the platform says about a conversation. All optional; `settings` is checked where it is used."""

    conversation_id: str | None = None
    status: str | None = None
    environment: str | None = None
    service_name: str | None = None
    runtime_id: str | None = None
    runtime_group_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    experiment: Experiment = Experiment()
    recipe: RecipeRef = RecipeRef()
    feedback: tuple[dict[str, Any], ...] = ()
    budget_ms: Annotated[float, msgspec.Meta(le=86_400_000)] | None = None
    settings: Any = None


_KEYS: Final = frozenset(Envelope.__struct_fields__) | {"conversation"}
# Keys of wire formats that have a `conversation` of their own (a Responses request names one by id).
_OF_A_FORMAT: Final = frozenset({"model", "input", "output", "object", "messages", "schema", "entries"})


class HookInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input taken apart. `conversation` is parsed JSON, or text that still is to be read."""

    conversation: Any
    envelope: Envelope = Envelope()
    warnings: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def is_envelope(value: Any) -> bool:
    """Whether a JSON value is an envelope, by structure."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("conversation"), dict | list | str)
        and not _OF_A_FORMAT & value.keys()
    )


def hook_input_of(value: Any) -> HookInput:
    """Takes a parsed document apart. Raises InputError where a known key has a value of the wrong kind."""
    if not is_envelope(value):
        return HookInput(conversation=value)
    given = {key: item for key, item in value.items() if key in _KEYS and item is not None}
    conversation = given.pop("conversation")
    unknown = tuple(sorted(str(key) for key in value.keys() - _KEYS))
    try:
        envelope = msgspec.convert(given, Envelope)
    except msgspec.ValidationError as error:
        raise InputError(
            f"a key of the envelope has a value of the wrong kind: {error}.",
            where="hook input",
            remedy="Ids are strings, experiment and recipe are objects, feedback is an array.",
        ) from error
    check_environment(envelope.environment)
    warnings = (f"unknown keys of the envelope are ignored: {', '.join(unknown)}",) if unknown else ()
    return HookInput(conversation=conversation, envelope=envelope, warnings=warnings, unknown=unknown)


def check_environment(word: str | None) -> None:
    """Refuses an environment that is not one of the three: sampling would not know what to do with it."""
    if word is not None and word not in ENVIRONMENTS:
        raise InputError(
            f"{word!r} is not an environment.",
            where="environment",
            remedy=f"It is one of {', '.join(ENVIRONMENTS)}; only production is sampled.",
        )


def supplied(first: Envelope, second: Envelope) -> tuple[Envelope, tuple[str, ...]]:
    """`first` with what it lacks taken from `second`, and the keys on which the two disagree (first wins)."""
    disagree: list[str] = []

    def merge(a: Any, b: Any, prefix: str) -> Any:
        changes: dict[str, Any] = {}
        for key in a.__struct_fields__:
            mine, other = getattr(a, key), getattr(b, key)
            if isinstance(mine, msgspec.Struct):
                changes[key] = merge(mine, other, f"{prefix}{key}.")
            elif mine in (None, (), False):
                changes[key] = other
            elif other not in (None, (), False) and other != mine:
                disagree.append(f"{prefix}{key}")
        return msgspec.structs.replace(a, **changes)

    return merge(first, second, ""), tuple(disagree)


_VARIABLES: Final[Mapping[str, str]] = {
    "conversation_id": "CONVERSATION_ID",
    "status": "STATUS",
    "environment": "ENVIRONMENT",
    "service_name": "SERVICE_NAME",
    "runtime_id": "RUNTIME_ID",
    "runtime_group_id": "RUNTIME_GROUP_ID",
    "trace_id": "TRACE_ID",
    "span_id": "SPAN_ID",
}


def envelope_of_variables(environ: Mapping[str, str]) -> Envelope:
    """What the `SANDBOX_JUDGE_*` variables say. Raises InputError for an unknown environment."""

    def given(name: str) -> str | None:
        return environ.get(f"SANDBOX_JUDGE_{name}") or None

    envelope = Envelope(
        **{key: given(name) for key, name in _VARIABLES.items()},  # type: ignore[arg-type]
        experiment=Experiment(id=given("EXPERIMENT_ID"), arm_id=given("EXPERIMENT_ARM_ID")),
        recipe=RecipeRef(path=given("RECIPE"), commit=given("COMMIT"), id=given("RECIPE_ID")),
    )
    check_environment(envelope.environment)
    return envelope

"""What `run` was asked for: flags, variables and defaults as one value. Raises UsageError and InputError."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from sandbox_judge.admission import ModelOverride
from sandbox_judge.cli.surface import Surface
from sandbox_judge.durations import parse_duration
from sandbox_judge.envelope import Envelope, Experiment, RecipeRef, check_environment, envelope_of_variables
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.judgement import Redactable

# The local lane's own (design, section 12): 85 prompt tokens a second on two cores, one call at a time.
LOCAL_BUDGET_S: Final = 300.0
LOCAL_CONCURRENCY: Final = 1
# 1,500 tokens at the usual four characters.
LOCAL_ALLOWANCE: Final = 6_000
_REDACTABLE: Final[tuple[Redactable, ...]] = ("reasoning", "evidence")


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`conversation` None: stdin. `supply`: what flags and variables say, in order of precedence.
    `budget_s` and `concurrency` None: the settings', else the defaults. `local` None: no local lane."""

    conversation: Path | None
    supply: tuple[Envelope, ...]
    id: str | None = None
    every: bool = False
    format: str | None = None
    judges: tuple[str, ...] = ()
    worktree: bool = False
    dry_run: bool = False
    explain: bool = False
    local: str | None = None
    simulate: Path | None = None
    model: ModelOverride | None = None
    settings: Path | None = None
    insecure: bool = False
    budget_s: float | None = None
    concurrency: int | None = None
    sinks: tuple[str, ...] = ()
    output: Literal["json", "text"] = "json"
    redact: frozenset[Redactable] = frozenset()
    report: bool = False
    report_file: Path | None = None
    fail_on: Literal["fail", "null", "any"] | None = None


def request_of(args: argparse.Namespace, surface: Surface) -> RunRequest:
    """The request that the flags and the environment make."""
    conversation, local = args.conversation, args.local
    if local and not local.endswith(".gguf") and conversation is None:
        # `run --local talk.json`: the optional value of --local took the conversation's place.
        conversation, local = local, ""
    environ = surface.environ
    budget = args.budget or environ.get("SANDBOX_JUDGE_BUDGET")
    sinks = tuple(args.sink) or tuple(environ.get("SANDBOX_JUDGE_SINK", "").split())
    simulate = surface.cwd / args.simulate_budget if args.simulate_budget else None
    if simulate is not None and local is not None:
        raise UsageError("--simulate-budget asks no model, --local asks one.", remedy="Choose one of them.")
    dry_run = args.dry_run or args.worktree or args.explain or args.model is not None
    dry_run = dry_run or local is not None or simulate is not None
    if args.output == "text" and not dry_run and set(sinks or ("stdout",)) == {"stdout"}:
        raise UsageError(
            "the judgements would be paid for and go nowhere: text on stdout takes the events' place.",
            where="-o text",
            remedy="Add a --sink for the events, or --dry-run.",
        )
    return RunRequest(
        conversation=None if conversation in (None, "-") else surface.cwd / conversation,
        supply=(_flags(args, surface), envelope_of_variables(environ)),
        id=args.id,
        every=args.all,
        format=args.format,
        judges=tuple(args.judge),
        worktree=args.worktree,
        dry_run=dry_run,
        explain=args.explain,
        local=local,
        simulate=simulate,
        model=model_override(args.model),
        settings=surface.cwd / args.settings if args.settings else None,
        insecure=args.insecure or environ.get("SANDBOX_JUDGE_INSECURE") == "1",
        budget_s=parse_duration(budget, name="--budget") if budget else _local(local, LOCAL_BUDGET_S),
        concurrency=_positive(args.concurrency) or _local(local, LOCAL_CONCURRENCY),
        sinks=sinks or ("stdout",),
        output=args.output,
        redact=redactable(args.redact),
        report=args.report == "json",
        report_file=surface.cwd / args.report_file if args.report_file else None,
        fail_on=args.fail_on,
    )


def _local(local: str | None, value: Any) -> Any:
    return None if local is None else value


def _positive(number: int | None) -> int | None:
    if number is not None and number < 1:
        raise UsageError(f"{number} calls at once is none.", where="--concurrency", remedy="Give 1 or more.")
    return number


def model_override(text: str | None) -> ModelOverride | None:
    """What `--model` says. Raises UsageError."""
    if text is None:
        return None
    provider, slash, model = text.partition("/")
    if not text.strip() or (slash and not (provider and model)):
        raise UsageError(
            f"{text!r} names no model.", where="--model", remedy="Write MODEL or PROVIDER/MODEL."
        )
    return ModelOverride(model=model, provider=provider) if slash else ModelOverride(model=text)


def redactable(text: str) -> frozenset[Redactable]:
    """What `--redact` names. Raises UsageError."""
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    unknown = words - set(_REDACTABLE)
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))} cannot be left out.",
            where="--redact",
            remedy="Write reasoning, evidence, or reasoning,evidence.",
        )
    return frozenset(word for word in _REDACTABLE if word in words)


def _flags(args: argparse.Namespace, surface: Surface) -> Envelope:
    check_environment(args.environment)
    return Envelope(
        conversation_id=args.conversation_id,
        status=args.status,
        environment=args.environment,
        service_name=args.service,
        runtime_id=args.runtime_id,
        runtime_group_id=args.runtime_group_id,
        trace_id=args.trace_id,
        span_id=args.span_id,
        experiment=Experiment(id=args.experiment_id, arm_id=args.experiment_arm_id),
        recipe=RecipeRef(path=args.recipe, commit=args.commit, id=args.recipe_id),
        feedback=tuple(item for text in args.feedback for item in _feedback(text, surface)),
    )


def _feedback(text: str, surface: Surface) -> list[dict[str, Any]]:
    where = "--feedback"
    if text.startswith("@"):
        path = surface.cwd / text[1:]
        try:
            text = path.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read ({error}).", where=where) from error
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is not JSON: {error}.", where=where) from error
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, Mapping) for item in items):
        raise InputError("feedback is an object, or a list of them.", where=where)
    return items

"""What past judgements tell about time: one latency a judge that was started, cut off or not. Pure.

A judge that timed out was not faster than that: its latency is censored. One that was never started has none.
One that failed for another reason would not have given a verdict however long one had waited: it is counted
among the nulls, and its time only as time in which it held a slot.
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

EVENT_NAME: Final = "introspection.judgement"
_CUT_OFF: Final = frozenset({"timeout", "cancelled"})
# More than a day is a fault of a clock.
_MOST_MS: Final = 86_400_000

Kind = Literal["verdict", "cut_off", "not_started", "failed"]


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One judge in one run. `seconds` is its latency, or how long it had run when it was cut off; `started_s`
    counts from the start of its run. `error` is the null's type."""

    recipe_id: str
    judge: str
    conversation_id: str
    kind: Kind
    seconds: float | None = None
    started_s: float | None = None
    error: str | None = None


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """The observations, and how many lines were something else, unreadable, or left out on purpose."""

    observations: tuple[Observation, ...]
    unreadable: int = 0
    left_out: int = 0


class _Error(msgspec.Struct):
    type: str


class _Timing(msgspec.Struct):
    started_ms: float | None = None
    duration_ms: float | None = None
    attempts: int = 0


class _Payload(msgspec.Struct):
    judgement_id: str
    judge_id: str
    result: str | None
    judge_name: str | None = None
    recipe_id: str | None = None
    error: _Error | None = None
    timing: _Timing | None = None
    dry_run: bool = False
    regrade: bool = False


class _Event(msgspec.Struct):
    event_name: str
    conversation_id: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")


def read_lines(lines: Iterable[bytes | str], *, recipe_id: str | None = None) -> Read:
    """The observations in lines of events. Other events (ledgers) are passed over; dry runs, re-grades and
    judgements that came twice are left out. `recipe_id` keeps one recipe's."""
    seen: set[str] = set()
    found: list[Observation] = []
    unreadable = left_out = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            event = msgspec.json.decode(line, type=_Event)
            if event.event_name != EVENT_NAME:
                continue
            payload = msgspec.json.decode(event.payload, type=_Payload)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            unreadable += 1
            continue
        wanted = recipe_id is None or payload.recipe_id == recipe_id
        if not wanted or payload.dry_run or payload.regrade or payload.judgement_id in seen:
            left_out += 1
            continue
        seen.add(payload.judgement_id)
        found.append(_observation(event.conversation_id, payload))
    return Read(observations=tuple(found), unreadable=unreadable, left_out=left_out)


def _observation(conversation_id: str, payload: _Payload) -> Observation:
    timing = payload.timing or _Timing()
    error = payload.error.type if payload.error is not None and payload.result is None else None
    seconds = _seconds(timing.duration_ms) if timing.attempts else None
    kind: Kind = "failed"
    if payload.result is not None:
        # A verdict without a time (made elsewhere) says nothing about time.
        kind = "verdict" if seconds is not None else "failed"
    elif error in _CUT_OFF and seconds is not None:
        kind = "cut_off"
    elif error in ("budget_exhausted", *_CUT_OFF):
        kind, seconds = "not_started", None
    return Observation(
        recipe_id=payload.recipe_id or "",
        judge=payload.judge_name or payload.judge_id,
        conversation_id=conversation_id,
        kind=kind,
        seconds=seconds,
        started_s=_seconds(timing.started_ms),
        error=error,
    )


def _seconds(ms: float | None) -> float | None:
    return ms / 1000 if ms is not None and 0 <= ms <= _MOST_MS else None

"""Feedback in its place among the entries: in time order (design, section 3). Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from sandbox_judge.conversation.document import json_text, too_deep
from sandbox_judge.conversation.model import Conversation, Entry, Feedback, ToolResult, Warning_
from sandbox_judge.conversation.parts import as_text

_TIMES: Final = ("time", "timestamp", "created_at", "createdAt")
# Above these an epoch is in milliseconds, microseconds, nanoseconds (the year 5138 in seconds).
_EPOCH_SCALES: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


def iso_time(value: Any) -> str | None:
    """A time as formats write it (ISO text, an epoch in s, ms, us or ns) as text; None for none."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = float(value) if abs(value) < 1e30 else 0.0
    for bound, scale in _EPOCH_SCALES:
        if seconds > bound:
            seconds /= scale
            break
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def instant(value: Any) -> float | None:
    """A time as seconds since the epoch, for order alone; a time without a zone is read as UTC."""
    text = iso_time(value)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def feedback_of(value: Any, n: int = 0) -> tuple[Feedback, tuple[str, ...]]:
    """Feedback as hosts write it, and the keys that were not known (they are kept among `properties`)."""
    if not isinstance(value, Mapping):
        return Feedback(n=n, comments=as_text(value) or None), ()
    known = {
        "kind",
        "n",
        "name",
        "sentiment",
        "value",
        "comments",
        "comment",
        "properties",
        "user_id",
        "agent_name",
    }
    given = value.get("properties")
    properties = dict(given) if isinstance(given, Mapping) else {}
    if given is not None and not isinstance(given, Mapping):
        properties["properties"] = given
    others = {key: item for key, item in value.items() if key not in known and key not in _TIMES}
    time = next((value[key] for key in _TIMES if value.get(key) is not None), None)
    return Feedback(
        n=n,
        name=_text(value.get("name")),
        sentiment=_text(value.get("sentiment")),
        value=_kept(value.get("value")),
        comments=_text(value.get("comments", value.get("comment"))),
        properties={str(key): _kept(item) for key, item in {**others, **properties}.items()} or None,
        user_id=_text(value.get("user_id")),
        agent_name=_text(value.get("agent_name")),
        time=iso_time(time),
    ), tuple(map(str, others))


def with_feedback(conversation: Conversation, items: Sequence[Any]) -> Conversation:
    """`conversation` with feedback merged by time: before the first later entry, else at the end."""
    if not items:
        return conversation
    made = [feedback_of(item) for item in items]
    warnings = [
        Warning_(
            code="feedback_key", message=f"feedback has unknown keys, kept as properties: {', '.join(keys)}"
        )
        for _, keys in made
        if keys
    ]
    entries, numbers = merged(conversation.entries, [feedback for feedback, _ in made])
    moved = tuple(
        w if w.entry is None else msgspec.structs.replace(w, entry=numbers.get(w.entry, w.entry))
        for w in conversation.warnings
    )
    return msgspec.structs.replace(conversation, entries=entries, warnings=(*moved, *warnings))


def merged(entries: Sequence[Entry], items: Sequence[Feedback]) -> tuple[tuple[Entry, ...], dict[int, int]]:
    """`entries` with `items` put in, numbered anew, and the new number of each old one."""
    timed = sorted(
        ((at, index) for index, item in enumerate(items) if (at := instant(item.time)) is not None),
        reverse=True,
    )
    out: list[Entry] = []
    for entry in entries:
        if timed and entry.time is not None and (here := instant(entry.time)) is not None:
            while timed and timed[-1][0] < here:
                out.append(items[timed.pop()[1]])
        out.append(entry)
    left = {index for _, index in timed}
    out.extend(items[index] for _, index in reversed(timed))
    out.extend(item for i, item in enumerate(items) if i not in left and instant(item.time) is None)
    numbers = {entry.n: n for n, entry in enumerate(out, 1) if entry.n}
    return tuple(_renumbered(entry, n, numbers) for n, entry in enumerate(out, 1)), numbers


def _renumbered(entry: Entry, n: int, numbers: Mapping[int, int]) -> Entry:
    if isinstance(entry, ToolResult) and entry.call is not None:
        return msgspec.structs.replace(entry, n=n, call=numbers.get(entry.call))
    return entry if entry.n == n else msgspec.structs.replace(entry, n=n)


def _kept(value: Any) -> Any:
    return json_text(value) if too_deep(value) else value


def _text(value: Any) -> str | None:
    return None if value is None else as_text(value)

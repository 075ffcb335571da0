"""Judgements as Markdown, for a CI job's summary. Pure.

Everything in an event may come from a conversation: it is data here, whatever Markdown it looks like.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from sandbox_judge.terminal import escaped

_MOST_ROWS: Final = 200
_MOST_CHARS: Final = 600
# What Markdown and the HTML in it obey.
_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]()<>#+!|~&@:-])")
_MARKS: Final = {"pass": "✅ pass", "fail": "❌ fail", "not_applicable": "➖ not applicable"}


def markdown(lines: Iterable[bytes]) -> str:
    """A table of the judgements among `lines` of events; lines that are none are counted."""
    rows, strange = [], 0
    for line in lines:
        if not line.strip():
            continue
        event = _event(line)
        if event is None:
            strange += 1
        elif event.get("event_name") == "introspection.judgement":
            rows.append(_row(event))
    text = "### Judgements\n\n"
    if rows:
        text += "| judge | result | reasoning |\n| --- | --- | --- |\n" + "".join(rows[:_MOST_ROWS])
    else:
        text += "No judge applied.\n"
    if len(rows) > _MOST_ROWS:
        text += f"\n{len(rows) - _MOST_ROWS} more are in the file.\n"
    return text + (f"\n{strange} lines are no events.\n" if strange else "")


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("event_name"), str):
        return None
    return value


def _row(event: dict[str, Any]) -> str:
    payload = event.get("payload")
    payload = payload if isinstance(payload, dict) else {}
    error = payload.get("error")
    why = payload.get("reasoning")
    result = payload.get("result")
    if isinstance(error, dict):
        shown = f"⚠️ null: {_shown(error.get('type'))}"
        why = error.get("message")
    else:
        shown = _MARKS.get(result, "⚠️ null") if isinstance(result, str) else "⚠️ null"
    return f"| {_shown(payload.get('judge_name'))} | {shown} | {_shown(why)} |\n"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    text = text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + " …"
    return _ACTIVE.sub(r"\\\1", escaped(" ".join(text.split())))

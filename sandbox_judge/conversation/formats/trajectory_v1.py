"""trajectory-v1: the records that the platform exports a conversation as, one list or JSON Lines.

Shapes: PyPI `introspection-sdk`, `schemas/trajectory.py`: a leading `meta`, then `user`, `reasoning`,
`assistant` (prose or calls, never both) and `tool`. A `meta` starts a conversation, so several may follow one
another. The format has no id and no system prompt.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document, parse_json
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text
from sandbox_judge.conversation.parts import as_text
from sandbox_judge.errors import InputError

NAME: Final = "trajectory_v1"

# How the export keeps arguments that were no object at their source.
_RAW: Final = "_raw"


def recognise(document: Document) -> bool:
    first = document.values[0]
    if document.many:
        return _is_meta(first) or (isinstance(first, list) and _is_trajectory(first))
    return isinstance(first, list) and (
        _is_trajectory(first) or (bool(first) and isinstance(first[0], list) and _is_trajectory(first[0]))
    )


def read(document: Document) -> Iterator[Conversation]:
    rows = document.values if document.many else document.values[0]
    lists = isinstance(rows[0], list)
    for index, row in enumerate(rows if lists else [rows]):
        where = document.place(index) if lists else ""
        if not isinstance(row, list | tuple) or not _is_trajectory(row):
            raise InputError(f"{where.capitalize()} is no trajectory, as the first is.", where=where)
        yield from _conversations(row, document, where)


def _is_meta(value: Any) -> bool:
    return isinstance(value, dict) and value.get("role") == "meta" and "content" not in value


def _is_trajectory(value: Sequence[Any]) -> bool:
    return bool(value) and _is_meta(value[0])


def _conversations(rows: Iterable[Any], document: Document, where: str) -> Iterator[Conversation]:
    build: ConversationBuilder | None = None
    for index, row in enumerate(rows):
        if build is None or _is_meta(row):
            if build is not None:
                yield build.build()
            build = ConversationBuilder(NAME)
            continue
        _record(build, row, where or document.place(index))
    if build is not None:
        yield build.build()


def _record(build: ConversationBuilder, row: Any, where: str) -> None:
    role = row.get("role") if isinstance(row, dict) else None
    if not isinstance(role, str):
        raise InputError(f"{where.capitalize()} is no record of a trajectory: it has no role.", where=where)
    content, time = row.get("content"), row.get("timestamp")
    if role == "tool":
        build.tool_result(
            as_text(content), id=row.get("tool_call_id"), error=row.get("ok") is False, time=time
        )
        return
    if role == "reasoning":
        build.message("assistant", [Reasoning(text=as_text(content))], time=time)
        return
    calls = row.get("tool_calls")
    calls = calls if isinstance(calls, list) else []
    parts: list[Part] = [] if content is None else [Text(text=as_text(content))]
    if parts or not calls:
        build.message(role, parts, time=time)
    for call in calls:
        held = call if isinstance(call, dict) else {"args": call}
        n = build.tool_call(held.get("name"), _arguments(held.get("args")), id=held.get("id"), time=time)
        if held is not call:
            build.warn("call_unreadable", "a tool call is no object", entry=n)


def _arguments(args: Any) -> Any:
    """Arguments as the source had them: the export wraps in `_raw` what was no object there."""
    if isinstance(args, str) and args.lstrip().startswith(f'{{"{_RAW}"'):
        with contextlib.suppress(ValueError):
            wrapped = parse_json(args)
            if isinstance(wrapped, dict) and list(wrapped) == [_RAW]:
                return wrapped[_RAW]
    return args

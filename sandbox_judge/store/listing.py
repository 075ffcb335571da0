"""Judgements one by one, newest first, page by page."""

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Select, select, tuple_

from sandbox_judge.errors import UsageError
from sandbox_judge.store import schema
from sandbox_judge.store.database import Database
from sandbox_judge.store.evidence import Choice, series_where

_JUDGEMENT, _SERIES, _STANDING = schema.judgement.c, schema.series.c, schema.standing.c
_PAGE: Final = 500


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Which judgements. `result` may be `null`; `standing` leaves out the superseded; `conversations` are
    ids, `views` sequence hashes."""

    choice: Choice = Choice()
    result: str | None = None
    error_type: str | None = None
    conversation_id: str | None = None
    grading_key: str | None = None
    standing: bool = False
    conversations: tuple[str, ...] = ()
    views: tuple[str, ...] = ()


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One judgement. `superseded`: another of its group counts in its place."""

    at: int
    event_id: str
    judgement_id: str
    judge_name: str | None
    judge_id: str
    service: str | None
    environment: str | None
    commit: str | None
    definition_hash: str
    contract_version: str
    result: str | None
    error_type: str | None
    conversation_id: str
    sequence_hash: str | None
    duration_ms: float | None
    regrade: bool
    superseded: bool
    body: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[Listed, ...]
    next: str | None


def cursor_text(row: Listed) -> str:
    return base64.urlsafe_b64encode(f"{row.at} {row.event_id}".encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[int, str]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode(
            "ascii"
        )
        at, event_id = text.split(" ")
        place = int(at)
        if not 0 <= place < 1 << 63:
            raise ValueError(at)
        return place, event_id
    except (ValueError, binascii.Error):
        raise UsageError("that is no cursor.", remedy="Give one as a page printed it, to --after.") from None


def _where(sought: Sought) -> list[ColumnElement[bool]]:
    choice = sought.choice
    where = series_where(choice)
    if not choice.regrades:
        where.append(_JUDGEMENT.regrade == 0)
    if choice.since is not None:
        where.append(_JUDGEMENT.at >= choice.since)
    if choice.until is not None:
        where.append(_JUDGEMENT.at < choice.until)
    if sought.result == "null":
        where.append(_JUDGEMENT.result.is_(None))
    elif sought.result is not None:
        where.append(_JUDGEMENT.result == sought.result)
    for column, value in (
        (_JUDGEMENT.error_type, sought.error_type),
        (_JUDGEMENT.conversation_id, sought.conversation_id),
        (_JUDGEMENT.grading_key, sought.grading_key),
    ):
        if value is not None:
            where.append(column == value)
    for found_in, values in (
        (_JUDGEMENT.conversation_id, sought.conversations),
        (_JUDGEMENT.sequence_hash, sought.views),
    ):
        if values:
            where.append(found_in.in_(values))
    if sought.standing:
        where.append(_STANDING.event_id == _JUDGEMENT.event_id)
    return where


def _query(sought: Sought) -> Select[Any]:
    columns = [_SERIES[n] for n in ("judge_name", "judge_id", "service", "environment", "commit")]
    columns += [_SERIES.definition_hash, _SERIES.contract_version]
    own = ("at", "event_id", "judgement_id", "result", "error_type", "conversation_id", "sequence_hash")
    return (
        select(
            *(_JUDGEMENT[name] for name in own),
            _JUDGEMENT.duration_ms,
            _JUDGEMENT.regrade,
            _JUDGEMENT.body,
            *columns,
            _STANDING.event_id.label("stands"),
        )
        .join(schema.series, _SERIES.id == _JUDGEMENT.series_id)
        .outerjoin(
            schema.standing,
            (_STANDING.grading_key == _JUDGEMENT.grading_key) & (_STANDING.regrade == _JUDGEMENT.regrade),
        )
        .where(*_where(sought))
        .order_by(_JUDGEMENT.at.desc(), _JUDGEMENT.event_id.desc())
    )


def page(database: Database, sought: Sought, *, limit: int, after: str | None = None) -> Page:
    """Up to `limit` judgements, those before the cursor's. Raises UsageError for a cursor that is none."""
    query = _query(sought).limit(limit + 1)
    if after is not None:
        query = query.where(tuple_(_JUDGEMENT.at, _JUDGEMENT.event_id) < tuple_(*_place(after)))
    with database.engine.connect() as connection:
        found = connection.execute(query).mappings().all()
    rows = tuple(_listed(dict(row)) for row in found[:limit])
    return Page(rows=rows, next=cursor_text(rows[-1]) if len(found) > limit else None)


def every(database: Database, sought: Sought, *, limit: int, after: str | None = None) -> Iterator[Page]:
    """Pages until there are no more or `limit` rows were given (0: no limit); memory stays that of a page."""
    left = limit or None
    while True:
        one = page(database, sought, limit=min(_PAGE, left or _PAGE), after=after)
        yield one
        left = None if left is None else left - len(one.rows)
        if one.next is None or left == 0:
            return
        after = one.next


def _listed(row: dict[str, Any]) -> Listed:
    stands = row.pop("stands")
    return Listed(**{**row, "regrade": bool(row["regrade"])}, superseded=stands != row["event_id"])


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """A line in quarantine, or a judgement that came again with other findings: when, why, and the text."""

    at: int
    reason: str
    detail: str
    line: bytes


def quarantined(database: Database, *, limit: int) -> list[SetAside]:
    """The newest lines in quarantine."""
    columns = schema.quarantine.c
    query = select(columns.at, columns.reason, columns.detail, columns.line).order_by(columns.at.desc())
    with database.engine.connect() as connection:
        rows = connection.execute(query.limit(limit)).mappings().all()
    return [SetAside(**{**row, "line": bytes(row["line"])}) for row in rows]


def unstable(database: Database, *, limit: int) -> list[SetAside]:
    """The newest judgements that came again under one id with other findings."""
    columns = schema.aside.c
    query = (
        select(columns.at, columns.judgement_id, columns.flipped, columns.result, columns.body)
        .where(columns.unstable == 1)
        .order_by(columns.at.desc())
        .limit(limit)
    )
    with database.engine.connect() as connection:
        rows = connection.execute(query).all()
    return [
        SetAside(
            at=row.at,
            reason=f"{'another result' if row.flipped else 'other findings'}: {row.result}",
            detail=row.judgement_id,
            line=row.body.encode(),
        )
        for row in rows
    ]

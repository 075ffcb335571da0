"""What the Judgements page shows, gathered from the store as one JSON value."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from sqlalchemy import func, select

from sandbox_judge.conversation.model import Conversation
from sandbox_judge.grading.view import build_view
from sandbox_judge.store import schema
from sandbox_judge.store.commit_order import CommitOrder
from sandbox_judge.store.conversations import Kept
from sandbox_judge.store.database import Database
from sandbox_judge.store.evidence import Choice, JudgeName, cells, judges
from sandbox_judge.store.listing import Listed, Sought, page
from sandbox_judge.store.rendering import drift_text
from sandbox_judge.store.tally import Cell
from sandbox_judge.store.trend import Line, Point, grouped, trend

RECENT: Final = 40
_VIEW_CHARS: Final = 20_000
_DISAGREEMENTS: Final = 200
_DECIMALS: Final = 4


class Detail(msgspec.Struct):
    """What a stored event says besides its columns; lenient, for other contract versions are stored too."""

    payload: dict[str, Any] = {}


def gather(
    database: Database,
    *,
    order: CommitOrder,
    z: float,
    recipe_id: str | None = None,
    kept: Kept | None = None,
) -> dict[str, Any]:
    """The page's data. Raises SQLAlchemyError."""
    known = _one_each(one for one in judges(database) if recipe_id in (None, one.recipe_id))
    counted = grouped(cells(database, Choice(recipe_id=recipe_id)), lambda cell: cell.series.judge_id)
    recent = [row for one in known for row in _recent(database, one)]
    return {
        "generated": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "counts": {
            "judgements": sum(cell.n for own in counted.values() for cell in own),
            "quarantined": _quarantined(database),
        },
        "judges": [_judge(one, counted.get(one.judge_id, []), order, z, database) for one in known],
        "judgements": [_judgement(row, kept) for row in recent],
        "disagreements": [*_flips(database), *_regrades(database)],
        "selection": f"The newest {RECENT} of each judge, and its newest {RECENT} fails and nulls.",
        "no_view": (
            "The conversation is not kept (any more)."
            if kept
            else "Conversations are not kept: events hold no transcript (collect --conversations keeps them)."
        ),
    }


def _one_each(found: Any) -> list[JudgeName]:
    """One name a judge: a judge that was renamed in settings keeps its id."""
    return list({one.judge_id: one for one in found}.values())


def _judge(
    one: JudgeName, own: Sequence[Cell], order: CommitOrder, z: float, database: Database
) -> dict[str, Any]:
    lines = [*trend(own, order), *(line for line in trend(own, order, split_services=True) if line.service)]
    newest = max(own, key=lambda cell: cell.last, default=None)
    return {
        "judge_id": one.judge_id,
        "name": one.name,
        "recipe_id": one.recipe_id,
        "calibration": newest.series.calibration if newest else None,
        "unstable": _unstable(database, one.judge_id),
        "lines": [_line(line, z) for line in lines],
    }


def _line(line: Line, z: float) -> dict[str, Any]:
    return {
        "environment": line.environment,
        "service": line.service,
        "segments": [
            {
                "definition_hash": segment.set.definition_hash,
                "contract_version": segment.set.contract_version,
                "known": segment.set.known,
                "cosmetic": segment.cosmetic,
                "points": [_point(point, z) for point in segment.points],
            }
            for segment in line.segments
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)


def _point(point: Point, z: float) -> dict[str, Any]:
    counted = point.tally
    interval = counted.interval(z)
    return {
        "key": point.key,
        "first": point.first,
        "rate": _rounded(counted.rate),
        "low": _rounded(interval.low) if interval else None,
        "high": _rounded(interval.high) if interval else None,
        "n": counted.decided,
        "na": counted.not_applicable,
        "coverage": _rounded(counted.coverage),
        "nulls": dict(counted.nulls),
        "drift": drift_text(point.drift),
    }


def _recent(database: Database, one: JudgeName) -> list[Listed]:
    choice = Choice(judge_id=one.judge_id, regrades=True)
    found = {}
    for result in (None, "fail", "null"):
        for row in page(database, Sought(choice=choice, result=result), limit=RECENT).rows:
            found[row.event_id] = row
    return sorted(found.values(), key=lambda row: (row.at, row.event_id), reverse=True)


def _judgement(row: Listed, kept: Kept | None) -> dict[str, Any]:
    try:
        payload = msgspec.json.decode(row.body, type=Detail).payload
    except (msgspec.DecodeError, RecursionError):
        payload = {}
    error, llm = payload.get("error"), payload.get("llm")
    evidence = payload.get("evidence")
    reasoning = payload.get("reasoning")
    shown = {
        name: getattr(row, name) for name in row.__struct_fields__ if name not in ("body", "duration_ms")
    }
    return {
        **shown,
        "reasoning": reasoning if isinstance(reasoning, str) else None,
        "evidence": [one for one in evidence if isinstance(one, dict)] if isinstance(evidence, list) else [],
        "error_message": error.get("message") if isinstance(error, dict) else None,
        "model": (llm.get("response_model") or llm.get("model")) if isinstance(llm, dict) else None,
        "view": _view(row.sequence_hash, kept),
    }


def _view(sequence_hash: str | None, kept: Kept | None) -> str | None:
    raw = kept.get(sequence_hash) if kept and sequence_hash else None
    if raw is None:
        return None
    try:
        view = build_view(msgspec.json.decode(raw, type=Conversation))
    except (msgspec.DecodeError, RecursionError):
        return None
    cut = f"\n… ({len(view.text) - _VIEW_CHARS:,} characters more)" if len(view.text) > _VIEW_CHARS else ""
    anew = "" if view.sequence_hash == sequence_hash else "(shown anew: the judge saw another cut of it)\n"
    return anew + view.text[:_VIEW_CHARS] + cut


def _quarantined(database: Database) -> int:
    with database.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(schema.quarantine)).scalar_one()


def _unstable(database: Database, judge_id: str) -> int:
    aside, series = schema.aside.c, schema.series.c
    query = (
        select(func.count())
        .select_from(schema.aside)
        .join(schema.series, series.id == aside.series_id)
        .where(series.judge_id == judge_id, aside.unstable == 1)
    )
    with database.engine.connect() as connection:
        return connection.execute(query).scalar_one()


def _flips(database: Database) -> list[dict[str, Any]]:
    """One judgement id, two results: the same judge on the same view."""
    aside, key, series = schema.aside.c, schema.judgement_key.c, schema.series.c
    query = (
        select(aside.at, series.judge_id, key.result.label("first"), aside.result.label("again"))
        .add_columns(schema.judgement.c.conversation_id)
        .join(schema.judgement_key, key.judgement_id == aside.judgement_id)
        .join(
            schema.judgement,
            (schema.judgement.c.at == key.at) & (schema.judgement.c.event_id == key.event_id),
        )
        .join(schema.series, series.id == aside.series_id)
        .where(aside.flipped == 1)
        .order_by(aside.at.desc())
        .limit(_DISAGREEMENTS)
    )
    with database.engine.connect() as connection:
        return [{**row, "kind": "the same view again"} for row in connection.execute(query).mappings()]


def _regrades(database: Database) -> list[dict[str, Any]]:
    """A conversation graded anew under another rubric, with another result."""
    standing, series = schema.standing.c, schema.series.c
    again, before = schema.judgement.alias("again"), schema.judgement.alias("before")
    theirs = schema.series.alias("theirs")
    query = (
        select(again.c.at, series.judge_id, before.c.result.label("first"), again.c.result.label("again"))
        .add_columns(again.c.conversation_id)
        .select_from(schema.standing)
        .join(schema.series, series.id == standing.series_id)
        .join(again, (again.c.at == standing.at) & (again.c.event_id == standing.event_id))
        .join(before, (before.c.conversation_id == again.c.conversation_id) & (before.c.regrade == 0))
        .join(theirs, (theirs.c.id == before.c.series_id) & (theirs.c.judge_id == series.judge_id))
        .where(standing.regrade == 1, before.c.result.is_distinct_from(again.c.result))
        .order_by(again.c.at.desc())
        .limit(_DISAGREEMENTS)
    )
    with database.engine.connect() as connection:
        return [{**row, "kind": "graded anew (regrade)"} for row in connection.execute(query).mappings()]

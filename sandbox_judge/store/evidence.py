"""Asking the store what stands: filters in, counted groups out. The only queries that figures rest on."""

import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, Subquery, and_, func, literal, or_, select, tuple_

from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.store import schema
from sandbox_judge.store.database import Database
from sandbox_judge.store.records import Series
from sandbox_judge.store.tally import DRIFTING, Cell

DAY: Final = 86_400_000_000
_PREFIX: Final = re.compile(r"[0-9a-f]{4,64}", re.ASCII)
_FIELDS: Final = Series.__struct_fields__
# What a trend by time looks at: what may be compared, where it ran, and what drifts.
_BY_TIME: Final = (
    "judge_id",
    "definition_hash",
    "contract_version",
    "grading_hash",
    "environment",
    "service",
    *DRIFTING,
)
_SERIES, _STANDING = schema.series.c, schema.standing.c


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which judgements are asked about; None is no bound. Times in microseconds since 1970, `until`
    exclusive. Regrades stay out unless asked for. `one_arm`: conversations that were judged in more than one
    arm of the experiment are no evidence for any, and stay out."""

    judge_id: str | None = None
    recipe_id: str | None = None
    services: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    definition_hash: str | None = None
    experiment: str | None = None
    since: int | None = None
    until: int | None = None
    regrades: bool = False
    one_arm: bool = False


class JudgeName(msgspec.Struct, frozen=True, kw_only=True):
    judge_id: str
    name: str | None
    recipe_id: str | None

    def __str__(self) -> str:
        return f"{self.name or '(no name)'} of {self.recipe_id or '(no recipe)'} ({self.judge_id})"


def series_where(choice: Choice) -> list[ColumnElement[bool]]:
    """The choice as conditions on a series."""
    where: list[ColumnElement[bool]] = []
    for column, value in (
        (_SERIES.judge_id, choice.judge_id),
        (_SERIES.recipe_id, choice.recipe_id),
        (_SERIES.definition_hash, choice.definition_hash),
    ):
        if value is not None:
            where.append(column == value)
    for column, values in (
        (_SERIES.service, choice.services),
        (_SERIES.environment, choice.environments),
        (_SERIES.commit, choice.commits),
    ):
        if values:
            where.append(column.in_(values))
    if choice.experiment is not None:
        where.append(
            or_(_SERIES.experiment_id == choice.experiment, _SERIES.experiment_label == choice.experiment)
        )
    return where


def _counts(choice: Choice) -> list[ColumnElement[bool]]:
    """The choice as conditions on what stands."""
    where: list[ColumnElement[bool]] = []
    if not choice.regrades:
        where.append(_STANDING.regrade == 0)
    else:
        # A group that was graded again has two rows: the one of the higher rank counts.
        other = schema.standing.alias()
        higher = or_(
            other.c.verdict > _STANDING.verdict,
            and_(
                other.c.verdict == _STANDING.verdict,
                tuple_(other.c.at, other.c.event_id) > tuple_(_STANDING.at, _STANDING.event_id),
            ),
        )
        where.append(~select(literal(1)).where(other.c.grading_key == _STANDING.grading_key, higher).exists())
    if choice.one_arm:
        where.append(_STANDING.grading_key.not_in(_in_many_arms(choice)))
    if choice.since is not None:
        where.append(_STANDING.at >= choice.since)
    if choice.until is not None:
        where.append(_STANDING.at < choice.until)
    return where


def _in_many_arms(choice: Choice) -> Select[tuple[str]]:
    """Groups with judgements in more than one arm: only the last of them stands, so the rest would be missing
    in their own arm without a word."""
    arm = func.coalesce(_SERIES.arm_label, _SERIES.arm_id, "")
    return (
        select(schema.judgement.c.grading_key)
        .join(schema.series, _SERIES.id == schema.judgement.c.series_id)
        .where(*series_where(choice))
        .group_by(schema.judgement.c.grading_key)
        .having(func.count(arm.distinct()) > 1)
    )


def in_many_arms(database: Database, choice: Choice) -> int:
    """How many conversations `one_arm` leaves out under the choice's judge. Raises SQLAlchemyError."""
    query = select(func.count()).select_from(_in_many_arms(choice).subquery())
    with database.engine.connect() as connection:
        return connection.execute(query).scalar_one()


def _chosen(choice: Choice, *, by_day: bool) -> Subquery:
    """The chosen series, each with the one that stands for it. By day, versions are not told apart, so series
    that differ in nothing that a trend looks at count as one: a thousandth of the groups."""
    representative = (
        func.min(_SERIES.id).over(partition_by=[_SERIES[name] for name in _BY_TIME]) if by_day else _SERIES.id
    )
    return (
        select(_SERIES.id, representative.label("representative"))
        .where(*series_where(choice))
        .subquery("chosen")
    )


def cells(database: Database, choice: Choice, *, by_day: bool = False) -> list[Cell]:
    """The groups that stand, counted per series and outcome (and day, then without their versions). Raises
    SQLAlchemyError."""
    chosen = _chosen(choice, by_day=by_day)
    # The engines' own division, of whole numbers: SQLAlchemy's `/` would make it a true one.
    day: ColumnElement[int] = _STANDING.at.op("/")(DAY) if by_day else literal(0)
    keys: list[ColumnElement[Any]] = [chosen.c.representative, _STANDING.result, _STANDING.error_type]
    grouped = [*keys, day] if by_day else keys
    counted = (
        select(
            *keys,
            day.label("day"),
            func.count().label("n"),
            func.min(_STANDING.at).label("first"),
            func.max(_STANDING.at).label("last"),
        )
        .join(chosen, chosen.c.id == _STANDING.series_id)
        .where(*_counts(choice))
        .group_by(*grouped)
    )
    with database.engine.connect() as connection:
        rows = connection.execute(counted).all()
        series = _series(connection, choice)
    return [
        Cell(
            series_id=row.representative,
            series=series[row.representative],
            result=row.result,
            error_type=row.error_type,
            n=row.n,
            first=row.first,
            last=row.last,
            day=int(row.day),
        )
        for row in rows
    ]


def _series(connection: Connection, choice: Choice) -> dict[int, Series]:
    columns = [_SERIES[name] for name in _FIELDS]
    rows = connection.execute(select(_SERIES.id, *columns).where(*series_where(choice)))
    return {row[0]: Series(**dict(zip(_FIELDS, row[1:], strict=True))) for row in rows}


def judges(database: Database) -> list[JudgeName]:
    """Every judge that the store has judgements of, by name."""
    with database.engine.connect() as connection:
        rows = connection.execute(
            select(_SERIES.judge_id, _SERIES.judge_name, _SERIES.recipe_id).distinct()
        ).all()
    found = {JudgeName(judge_id=row[0], name=row[1], recipe_id=row[2]) for row in rows}
    return sorted(found, key=lambda one: (one.name or "", one.recipe_id or "", one.judge_id))


def find_judge(database: Database, given: str, *, recipe_id: str | None = None) -> JudgeName:
    """The judge of a name or id. Raises InputError where there is none, UsageError where there are more."""
    known = [one for one in judges(database) if recipe_id in (None, one.recipe_id)]
    found = [one for one in known if given in (one.name, one.judge_id)] or [
        one for one in known if _uuid(given) == one.judge_id
    ]
    if not found:
        names = sorted({one.name or one.judge_id for one in known})
        remedy = f"It has: {', '.join(names[:20])}." if names else "It has no judgements yet."
        raise InputError(f"the store has no judgement of a judge {given!r}.", remedy=remedy)
    if len({one.judge_id for one in found}) > 1:
        raise UsageError(
            f"{given!r} is more than one judge: {'; '.join(map(str, found[:10]))}.",
            remedy="Name it by its id, or give --recipe.",
        )
    return found[0]


def _uuid(text: str) -> str | None:
    try:
        return str(UUID(text))
    except ValueError:
        return None


def full_commits(database: Database, given: Sequence[str]) -> tuple[str, ...]:
    """Commit ids in full, each by four or more of its first digits. Raises InputError for one that the store
    does not know, UsageError for one that is several."""
    return tuple(_full_commit(database, one) for one in given)


def _full_commit(database: Database, given: str) -> str:
    if not _PREFIX.fullmatch(given.lower()):
        raise UsageError(f"{given[:80]!r} is no commit.", remedy="Give four or more digits of its id.")
    chosen = select(_SERIES.commit).distinct().where(_SERIES.commit.startswith(given.lower())).limit(11)
    with database.engine.connect() as connection:
        found = sorted(connection.execute(chosen).scalars())
    if not found:
        raise InputError(f"the store has no judgement of version {given}.")
    if len(found) > 1:
        raise UsageError(f"{given} is the beginning of {len(found)} versions.", remedy="Give more digits.")
    return str(found[0])

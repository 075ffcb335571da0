"""How far a destination has been sent the store's judgements, and the next of them: the queries.

There is no second spool: the store is read in order of arrival, from a place that is kept beside it. Many
collectors may have one destination: one of them holds it at a time, for a minute since it last did something.
"""

import uuid
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, func, literal, literal_column, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from sandbox_judge.canonical import sha256
from sandbox_judge.sinks.base import Line
from sandbox_judge.store import schema
from sandbox_judge.store.arrival import settled
from sandbox_judge.store.database import Database
from sandbox_judge.store.writer import now_microseconds

HOLD_MICROSECONDS: Final = 60_000_000
_PAGE_BYTES: Final = 2 * 1024 * 1024
_AT_ONCE: Final = 16
_LAST: Final = (1 << 63) - 1
_CLOCK: Final[ColumnElement[int]] = literal_column(
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
)
_JUDGEMENT, _FORWARDING = schema.judgement.c, schema.forwarding.c
_PLACE: Final = ("arrival", "at", "event_id")


class Place(msgspec.Struct, frozen=True):
    """A judgement's place in the order of arrival."""

    arrival: int = 0
    at: int = 0
    event_id: str = ""


class Waiting(msgspec.Struct, frozen=True):
    """A stored judgement that a destination has not been sent, and its place."""

    place: Place
    line: Line


class Forwarding:
    """One destination of one collector. `writer` and `reader` are the same store: reading must not hold up
    those who write. Every method raises SQLAlchemyError."""

    def __init__(self, writer: Database, reader: Database, destination: str) -> None:
        self._writer, self._reader = writer, reader
        # An address may hold a token in its query: the store keeps none.
        self._destination = sha256(destination.encode())
        self._holder = str(uuid.uuid4())

    def register(self, *, from_now: bool) -> None:
        """Makes the destination known, once: to be sent everything, or what comes from now on."""
        insert = postgresql.insert if self._writer.postgresql else sqlite.insert
        with self._writer.engine.begin() as connection:
            newest = connection.execute(
                select(func.max(_JUDGEMENT.arrival)).where(*settled(postgresql=self._writer.postgresql))
            ).scalar()
            place = Place(newest, _LAST) if from_now and newest is not None else Place()
            row = {
                "destination": self._destination,
                **msgspec.structs.asdict(place),
                "holder": "",
                "held_until": 0,
            }
            connection.execute(insert(schema.forwarding).values(row).on_conflict_do_nothing())

    def claim(self) -> Place | None:
        """Holds the destination; where it stands, or None while another collector holds it."""
        now = self._now()
        free = or_(_FORWARDING.holder == self._holder, _FORWARDING.held_until < now)
        statement = self._own(free).values(holder=self._holder, held_until=now + HOLD_MICROSECONDS)
        with self._writer.engine.begin() as connection:
            row = connection.execute(statement.returning(*(_FORWARDING[name] for name in _PLACE))).first()
        return None if row is None else Place(*row)

    def advance(self, place: Place) -> None:
        """Keeps that the destination took everything up to `place`, if it is still held."""
        values: dict[str, Any] = {
            **msgspec.structs.asdict(place),
            "held_until": self._now() + HOLD_MICROSECONDS,
        }
        with self._writer.engine.begin() as connection:
            connection.execute(self._own(_FORWARDING.holder == self._holder).values(values))

    def release(self) -> None:
        """Lets another collector go on at once."""
        with self._writer.engine.begin() as connection:
            connection.execute(self._own(_FORWARDING.holder == self._holder).values(held_until=0))

    def place(self) -> Place:
        """Where the destination stands."""
        chosen = select(*(_FORWARDING[name] for name in _PLACE))
        with self._reader.engine.connect() as connection:
            return Place(*connection.execute(chosen.where(self._mine())).one())

    def next(self, after: Place, *, limit: int) -> list[Waiting]:
        """The judgements after a place: up to `limit`, and to 2 MB (but one at least)."""
        query = (
            select(*(_JUDGEMENT[name] for name in _PLACE), _JUDGEMENT.body)
            .where(_beyond(after), *settled(postgresql=self._reader.postgresql))
            .order_by(_JUDGEMENT.arrival, _JUDGEMENT.at, _JUDGEMENT.event_id)
            .limit(limit)
            .execution_options(yield_per=_AT_ONCE)
        )
        found: list[Waiting] = []
        size = 0
        with self._reader.engine.connect() as connection, connection.execute(query) as rows:
            for row in rows:
                line = Line(row.event_id, row.body.encode())
                size += len(line.data)
                if found and size > _PAGE_BYTES:
                    break
                found.append(Waiting(Place(row.arrival, row.at, row.event_id), line))
        return found

    def left(self) -> int:
        """How many judgements the destination has not been sent, those of commits under way among them."""
        query = select(func.count()).select_from(schema.judgement).where(_beyond(self.place()))
        with self._reader.engine.connect() as connection:
            return connection.execute(query).scalar_one()

    def _mine(self) -> ColumnElement[bool]:
        return _FORWARDING.destination == self._destination

    def _own(self, condition: ColumnElement[bool]) -> Any:
        return update(schema.forwarding).where(self._mine(), condition)

    def _now(self) -> ColumnElement[int]:
        """The time by the one clock that all collectors of the store have."""
        return _CLOCK if self._writer.postgresql else literal(now_microseconds())


def _beyond(place: Place) -> ColumnElement[bool]:
    return tuple_(_JUDGEMENT.arrival, _JUDGEMENT.at, _JUDGEMENT.event_id) > tuple_(
        literal(place.arrival), literal(place.at), literal(place.event_id)
    )

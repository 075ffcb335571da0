"""The tables, as SQLAlchemy Core sees them. The migrations make them; a test holds the two together.

Times are microseconds since 1970, UTC, in every engine. On PostgreSQL `judgement` and `ledger` are
partitioned by month of `at`. A unique constraint on a partitioned table must hold the partitioning column, so
identity lives in `event_key` and `judgement_key`, which are not partitioned and are written first in the same
transaction. Everything but `standing` and `forwarding` is immutable: triggers
refuse updates, and deletes outside retention.
"""

from typing import Final

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Double,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

metadata: Final = MetaData()

# SQLite has one kind of real number, and calls it so.
_REAL: Final[TypeEngine[float]] = Double().with_variant(REAL(), "sqlite")

# Identity of every judgement and ledger: an event id is taken once.
event_key: Final = Table(
    "event_key",
    metadata,
    Column("event_id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Index("event_key_at", "at"),
)

# Identity of every judgement: the first stored stands.
judgement_key: Final = Table(
    "judgement_key",
    metadata,
    Column("judgement_id", Text, primary_key=True),
    Column("event_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("judged", Text, nullable=False),
    Column("result", Text),
    Index("judgement_key_at", "at"),
)

# The dimensions of `records.Series`; the number is 63 bits of the digest.
series: Final = Table(
    "series",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", Text, nullable=False),
    Column("judge_id", Text, nullable=False),
    Column("definition_hash", Text, nullable=False),
    Column("contract_version", Text, nullable=False),
    Column("judge_name", Text),
    Column("recipe_id", Text),
    Column("grading_hash", Text),
    Column("commit", Text),
    Column("judge_commit", Text),
    Column("service", Text),
    Column("environment", Text),
    Column("experiment_id", Text),
    Column("experiment_label", Text),
    Column("arm_id", Text),
    Column("arm_label", Text),
    Column("provider", Text),
    Column("model", Text),
    Column("response_model", Text),
    Column("lane", Text),
    Column("endpoint", Text),
    Column("output_mode", Text),
    Column("dropped", Text),
    Column("sample_rate", _REAL),
    Column("calibration", Text),
    UniqueConstraint("digest", name="series_digest"),
    Index("series_judge", "judge_id"),
    Index("series_name", "judge_name"),
)

judgement: Final = Table(
    "judgement",
    metadata,
    Column("at", BigInteger, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("judgement_id", Text, nullable=False),
    Column("grading_key", Text, nullable=False),
    Column("series_id", BigInteger, nullable=False),
    Column("result", Text),
    Column("error_type", Text),
    Column("regrade", SmallInteger, nullable=False),
    Column("conversation_id", Text, nullable=False),
    Column("sequence_hash", Text),
    Column("said_at", BigInteger, nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("duration_ms", _REAL),
    Column("body", Text, nullable=False),
    Column("arrival", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("at", "event_id", name="judgement_pk"),
    Index("judgement_series", "series_id", "at", "event_id"),
    Index("judgement_group", "grading_key"),
    Index("judgement_conversation", "conversation_id"),
    Index("judgement_arrival", "arrival", "at", "event_id"),
)

ledger: Final = Table(
    "ledger",
    metadata,
    Column("at", BigInteger, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("conversation_id", Text),
    Column("recipe_id", Text),
    Column("commit", Text),
    Column("environment", Text),
    Column("received_at", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("at", "event_id", name="ledger_pk"),
)

# The judgement that counts in each group (`spec/events.md`). Derived from `judgement`, and the one table that
# changes; regrades stand apart, so that leaving them out needs no second look.
standing: Final = Table(
    "standing",
    metadata,
    Column("grading_key", Text, nullable=False),
    Column("regrade", SmallInteger, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("verdict", SmallInteger, nullable=False),
    Column("result", Text),
    Column("error_type", Text),
    Column("series_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("grading_key", "regrade", name="standing_pk"),
    # Covers what figures are counted from: a trend never touches the table.
    Index("standing_figures", "series_id", "regrade", "result", "error_type", "at"),
    Index("standing_at", "at"),
)

# A judgement id that came again in another event. `unstable`: it found something else; `flipped`: the result.
aside: Final = Table(
    "aside",
    metadata,
    Column("event_id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("judgement_id", Text, nullable=False),
    Column("series_id", BigInteger, nullable=False),
    Column("result", Text),
    Column("unstable", SmallInteger, nullable=False),
    Column("flipped", SmallInteger, nullable=False),
    Column("body", Text, nullable=False),
    Index("aside_series", "series_id"),
    Index("aside_judgement", "judgement_id"),
)

quarantine: Final = Table(
    "quarantine",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("line", LargeBinary, nullable=False),
    Index("quarantine_at", "at"),
)

# What retention has let go: everything before `before`. Only the largest counts.
retention: Final = Table(
    "retention",
    metadata,
    Column("before", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
)

# How far each destination was sent the judgements (`arrival`, `at`, `event_id` of the last that it took), and
# which collector is at it until when.
forwarding: Final = Table(
    "forwarding",
    metadata,
    Column("destination", Text, primary_key=True),
    Column("arrival", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("held_until", BigInteger, nullable=False),
)

PARTITIONED: Final = ("judgement", "ledger")

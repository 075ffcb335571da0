"""The first schema."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# {id} is the type of ids and hashes: compared byte by byte on PostgreSQL too, as everywhere else.
TABLES = [
    """CREATE TABLE event_key (event_id {id} NOT NULL PRIMARY KEY, at BIGINT NOT NULL,
        digest {id} NOT NULL)""",
    """CREATE INDEX event_key_at ON event_key (at)""",
    """CREATE TABLE judgement_key (judgement_id {id} NOT NULL PRIMARY KEY, event_id {id} NOT NULL,
        at BIGINT NOT NULL, judged {id} NOT NULL, result TEXT)""",
    """CREATE INDEX judgement_key_at ON judgement_key (at)""",
    """CREATE TABLE series (id BIGINT NOT NULL PRIMARY KEY, digest {id} NOT NULL, judge_id {id} NOT NULL,
        definition_hash {id} NOT NULL, contract_version TEXT NOT NULL, judge_name TEXT, recipe_id TEXT,
        grading_hash {id}, "commit" {id}, judge_commit {id}, service TEXT, environment TEXT,
        experiment_id {id}, experiment_label TEXT, arm_id {id}, arm_label TEXT, provider TEXT, model TEXT,
        response_model TEXT, lane TEXT, endpoint TEXT, output_mode TEXT, dropped TEXT,
        sample_rate DOUBLE PRECISION, calibration TEXT, CONSTRAINT series_digest UNIQUE (digest))""",
    """CREATE INDEX series_judge ON series (judge_id)""",
    """CREATE INDEX series_name ON series (judge_name)""",
    """CREATE TABLE judgement (at BIGINT NOT NULL, event_id {id} NOT NULL, judgement_id {id} NOT NULL,
        grading_key {id} NOT NULL, series_id BIGINT NOT NULL, result TEXT, error_type TEXT,
        regrade SMALLINT NOT NULL, conversation_id TEXT NOT NULL, sequence_hash {id}, said_at BIGINT NOT NULL,
        received_at BIGINT NOT NULL, duration_ms DOUBLE PRECISION, body TEXT NOT NULL,
        CONSTRAINT judgement_pk PRIMARY KEY (at, event_id)){by_month}""",
    """CREATE INDEX judgement_series ON judgement (series_id, at, event_id)""",
    """CREATE INDEX judgement_group ON judgement (grading_key)""",
    """CREATE INDEX judgement_conversation ON judgement (conversation_id)""",
    """CREATE TABLE ledger (at BIGINT NOT NULL, event_id {id} NOT NULL, conversation_id TEXT, recipe_id TEXT,
        "commit" {id}, environment TEXT, received_at BIGINT NOT NULL, body TEXT NOT NULL,
        CONSTRAINT ledger_pk PRIMARY KEY (at, event_id)){by_month}""",
    """CREATE TABLE standing (grading_key {id} NOT NULL, regrade SMALLINT NOT NULL, event_id {id} NOT NULL,
        at BIGINT NOT NULL, verdict SMALLINT NOT NULL, result TEXT, error_type TEXT,
        series_id BIGINT NOT NULL, CONSTRAINT standing_pk PRIMARY KEY (grading_key, regrade))""",
    """CREATE INDEX standing_figures ON standing (series_id, regrade, result, error_type, at)""",
    """CREATE INDEX standing_at ON standing (at)""",
    """CREATE TABLE aside (event_id {id} NOT NULL PRIMARY KEY, at BIGINT NOT NULL, judgement_id {id} NOT NULL,
        series_id BIGINT NOT NULL, result TEXT, unstable SMALLINT NOT NULL, flipped SMALLINT NOT NULL,
        body TEXT NOT NULL)""",
    """CREATE INDEX aside_series ON aside (series_id)""",
    """CREATE INDEX aside_judgement ON aside (judgement_id)""",
    """CREATE TABLE quarantine (digest {id} NOT NULL PRIMARY KEY, at BIGINT NOT NULL, reason TEXT NOT NULL,
        detail TEXT NOT NULL, line {bytes} NOT NULL)""",
    """CREATE INDEX quarantine_at ON quarantine (at)""",
    """CREATE TABLE retention (before BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL)""",
]

# A row may go once retention has said, on the record, that everything before some moment goes.
TIMED = ("event_key", "judgement_key", "judgement", "ledger", "aside", "quarantine")
FIXED = ("series", "retention")

POSTGRESQL_FUNCTION = """
CREATE FUNCTION sandbox_judge_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND TG_ARGV[0] = 'timed' THEN
    IF OLD.at < (SELECT max(before) FROM retention) THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'sandbox_judge: % is immutable', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$"""


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    words = {
        "id": 'TEXT COLLATE "C"' if postgresql else "TEXT",
        "bytes": "BYTEA" if postgresql else "BLOB",
        "by_month": " PARTITION BY RANGE (at)" if postgresql else "",
    }
    for statement in TABLES:
        op.execute(statement.format(**words))
    if postgresql:
        op.execute(POSTGRESQL_FUNCTION)
    for table in TIMED + FIXED:
        for statement in (_postgresql if postgresql else _sqlite)(table):
            op.execute(statement)


def _postgresql(table: str) -> list[str]:
    kind = "timed" if table in TIMED else "fixed"
    call = f"EXECUTE FUNCTION sandbox_judge_immutable('{kind}')"
    return [
        f"CREATE TRIGGER {table}_immutable BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW {call}",
        f"CREATE TRIGGER {table}_whole BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {call}",
    ]


def _sqlite(table: str) -> list[str]:
    refuse = f"BEGIN SELECT RAISE(ABORT, 'sandbox_judge: {table} is immutable'); END"
    kept = ""
    if table in TIMED:
        kept = "WHEN NOT EXISTS (SELECT 1 FROM retention WHERE before > OLD.at)"
    return [
        f"CREATE TRIGGER {table}_update BEFORE UPDATE ON {table} {refuse}",
        f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} {kept} {refuse}",
    ]

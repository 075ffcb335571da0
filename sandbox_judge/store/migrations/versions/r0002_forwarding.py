"""The order in which judgements arrived, and how far each destination has been sent them."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# What was stored before has no order of arrival: 0, and then its time.
STATEMENTS = [
    """ALTER TABLE judgement ADD COLUMN arrival BIGINT NOT NULL DEFAULT 0""",
    """CREATE INDEX judgement_arrival ON judgement (arrival, at, event_id)""",
    """CREATE TABLE forwarding (destination {id} NOT NULL PRIMARY KEY, arrival BIGINT NOT NULL,
        at BIGINT NOT NULL, event_id {id} NOT NULL, holder {id} NOT NULL, held_until BIGINT NOT NULL)""",
]


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in STATEMENTS:
        op.execute(statement.format(id='TEXT COLLATE "C"' if postgresql else "TEXT"))

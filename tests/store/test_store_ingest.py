"""Storing is idempotent, keeps what it was given, and lets nothing be changed."""

import itertools
import random

import pytest
from made_events import DAY, START, event, incoming, ledger, line, sha
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from sandbox_judge.store import schema
from sandbox_judge.store.database import Database
from sandbox_judge.store.ingest import Ingest
from sandbox_judge.store.months import month_of, partitions
from sandbox_judge.store.records import read_line
from sandbox_judge.store.retention import let_go


def count(database: Database, table: str) -> int:
    with database.engine.connect() as connection:
        return connection.execute(
            select(func.count()).select_from(schema.metadata.tables[table])
        ).scalar_one()


def standing(database: Database) -> list[tuple[str | None, str]]:
    with database.engine.connect() as connection:
        rows = connection.execute(select(schema.standing.c.result, schema.standing.c.event_id))
        return [(row.result, row.event_id) for row in rows]


def test_an_event_is_kept_as_it_came(database: Database) -> None:
    given = event(reasoning="naïve \u2028 </script> \x00 ok", unknown_key={"kept": True})
    Ingest(database).store([incoming(given)])
    with database.engine.connect() as connection:
        assert connection.execute(select(schema.judgement.c.body)).scalar_one() == line(given).decode()


def test_the_same_event_twice_is_one(database: Database) -> None:
    given = incoming(event())
    ingest = Ingest(database)
    first = ingest.store([given, given])
    again = Ingest(database).store([given])
    assert (first.judgements, first.duplicates) == (1, 1)
    assert (again.judgements, again.duplicates) == (0, 1)
    assert count(database, "judgement") == 1


def test_the_same_judgement_twice_the_first_stands(database: Database) -> None:
    ingest = Ingest(database)
    first = event("pass")
    same = event("pass", at=START + 5)
    other_words = event("pass", reasoning="Another reason.")
    other_verdict = event("fail")
    assert ingest.store([incoming(first)]).judgements == 1
    assert ingest.store([incoming(same)]).repeats == 1
    assert ingest.store([incoming(other_words)]).unstable == 1
    taken = ingest.store([incoming(other_verdict)])
    assert (taken.unstable, taken.flipped) == (1, 1)
    assert count(database, "judgement") == 1
    assert count(database, "aside") == 3
    assert standing(database) == [("pass", first["id"])]
    # In one batch as well.
    twice = [event("pass", conversation="c2"), event("fail", conversation="c2")]
    taken = ingest.store([incoming(one) for one in twice])
    assert (taken.judgements, taken.flipped) == (1, 1)


def test_an_event_id_used_for_something_else_is_quarantined(database: Database) -> None:
    one, other = event(), event(conversation="c2")
    other["id"] = one["id"]
    taken = Ingest(database).store([incoming(one), incoming(other)])
    assert taken.quarantined == {"event_id_reused": 1}
    assert count(database, "judgement") == 1


def test_what_stands_does_not_depend_on_the_order(database: Database) -> None:
    """The latest verdict counts; a null counts only where no verdict does."""
    late_null = event(None, at=START + 9)
    early = event("fail", at=START + 1, view="short")
    late = event("pass", at=START + 5, view="longer")
    orders = list(itertools.permutations([late_null, early, late]))
    for turn, order in enumerate(orders):
        ingest = Ingest(database)
        renamed = []
        for one in order:
            copy = event(
                one["payload"]["result"],
                conversation=f"turn{turn}",
                view=f"{one['payload']['sequence_hash']}{turn}",
            )
            copy["timestamp"] = one["timestamp"]
            renamed.append(copy)
        for one in renamed if turn % 2 else [renamed]:
            ingest.store([incoming(e) for e in (one if isinstance(one, list) else [one])])
    assert [result for result, _ in standing(database)] == ["pass"] * len(orders)


def test_a_regrade_supersedes_nothing(database: Database) -> None:
    original = event("pass")
    again = event("fail", view="v", at=START + DAY, regrade=True, judgement_id=event()["id"])
    Ingest(database).store([incoming(original), incoming(again)])
    assert sorted(result or "" for result, _ in standing(database)) == ["fail", "pass"]


def test_ledgers_and_quarantine(database: Database) -> None:
    bad = [b"{", b"[]", b'{"event_name":"else"}', b"\xff", b"x" * 10, line(event(dry_run=True))]
    lines = [read_line(raw, received=START) for raw in bad]
    taken = Ingest(database).store([incoming(ledger()), *lines, *lines])
    assert taken.ledgers == 1
    assert sum(taken.quarantined.values()) == 12
    assert count(database, "quarantine") == 6, "the same line is kept once"
    with database.engine.connect() as connection:
        kept = {r.line: r.reason for r in connection.execute(select(schema.quarantine))}
    assert bytes(line(event())) not in kept
    assert kept[b"\xff"] == "not_utf8"
    assert set(kept.values()) == {"not_json", "unknown_event", "not_utf8", "dry_run"}


CHANGES = [
    "UPDATE judgement SET result = 'pass'",
    "DELETE FROM judgement",
    "UPDATE event_key SET digest = ''",
    "DELETE FROM event_key",
    "DELETE FROM judgement_key",
    "UPDATE series SET judge_name = 'x'",
    "DELETE FROM series",
    "UPDATE ledger SET body = ''",
    "DELETE FROM ledger",
    "DELETE FROM quarantine",
    "UPDATE retention SET before = 0",
]


def test_nothing_stored_can_be_changed(database: Database) -> None:
    own = (
        "TRUNCATE judgement"
        if database.postgresql
        else "INSERT OR REPLACE INTO event_key SELECT * FROM event_key"
    )
    Ingest(database).store([incoming(event("fail")), incoming(ledger()), read_line(b"{", received=START)])
    let_go(database, keep_s=400 * 86400, now=START)
    for statement in [*CHANGES, own]:
        with pytest.raises(DBAPIError, match="immutable"), database.engine.begin() as connection:
            connection.execute(text(statement))
    assert count(database, "judgement") == count(database, "ledger") == count(database, "quarantine") == 1


def test_retention_lets_whole_months_go_and_nothing_comes_back(database: Database) -> None:
    months = [event(conversation=f"c{n}", at=START - n * 31 * DAY) for n in range(4)]
    ingest = Ingest(database)
    received = START + DAY
    ingest.store([incoming(one, received=received) for one in months])
    gone = let_go(database, keep_s=40 * 86400, now=received)
    assert gone.before == month_of(received - 40 * DAY)
    kept = [one for one in months if incoming(one).at >= gone.before]
    assert 0 < len(kept) < 4
    assert gone.judgements == 4 - len(kept)
    for table in ("judgement", "event_key", "judgement_key", "standing"):
        assert count(database, table) == len(kept), table
    taken = ingest.store([incoming(one, received=received) for one in months])
    assert (taken.judgements, taken.duplicates) == (0, len(kept))
    assert taken.quarantined == {"past_retention": 4 - len(kept)}
    assert let_go(database, keep_s=40 * 86400, now=received).judgements == 0
    if database.postgresql:
        with database.engine.connect() as connection:
            assert len(partitions(connection, "judgement")) == len(kept)


def test_a_clock_that_is_wrong_is_not_believed(database: Database) -> None:
    ahead = event(conversation="ahead", at=START + 400 * DAY)
    unset = event(conversation="unset", at=1_000_000)
    Ingest(database).store([incoming(ahead), incoming(unset)])
    with database.engine.connect() as connection:
        rows = connection.execute(select(schema.judgement.c.at, schema.judgement.c.said_at)).all()
    assert {row.at for row in rows} == {START + DAY}
    assert {row.said_at for row in rows} == {START + 400 * DAY, 1_000_000}


def test_a_batch_in_any_order_and_split_gives_the_same_figures(database: Database) -> None:
    rng = random.Random(5)
    events = [
        event(
            rng.choice(["pass", "fail", None]),
            conversation=f"c{rng.randrange(12)}",
            view=str(n),
            at=START + rng.randrange(1000),
            definition=rng.choice("ab"),
        )
        for n in range(60)
    ]
    lines = [incoming(one) for one in events] * 2
    rng.shuffle(lines)
    ingest = Ingest(database)
    for start in range(0, len(lines), 17):
        ingest.store(lines[start : start + 17])
    expected: dict[str, tuple[bool, int, str]] = {}
    for one in lines:
        expected[one.grading_key] = max(expected.get(one.grading_key, one.rank), one.rank)
    assert sorted(event_id for _, event_id in standing(database)) == sorted(r[2] for r in expected.values())
    assert count(database, "judgement") == 60


def test_an_unknown_contract_version_is_stored(database: Database) -> None:
    taken = Ingest(database).store([incoming(event(None, contract="7-beta", error="new_kind_of_error"))])
    assert taken.judgements == 1
    refused = Ingest(database).store([incoming(event(None, contract="1", error="new_kind_of_error"))])
    assert refused.quarantined == {"invalid": 1}


def test_hashes_are_words_not_paths() -> None:
    assert (
        incoming({**event(), "payload": {**event()["payload"], "sequence_hash": "sha256:../x"}}).reason
        == "invalid"
    )
    assert sha("x").startswith("sha256:")

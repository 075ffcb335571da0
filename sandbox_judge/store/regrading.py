"""Which stored judgements a regrade looks at again, and how the verdicts moved, paired."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sandbox_judge.envelope import Envelope, Experiment
from sandbox_judge.figures import mcnemar_exact
from sandbox_judge.store.database import Database
from sandbox_judge.store.evidence import Choice
from sandbox_judge.store.given import Given
from sandbox_judge.store.listing import Listed, Sought, every

_AT_ONCE: Final = 500


class Said(msgspec.Struct, frozen=True):
    """What a stored event says of its circumstances: a new event of the conversation says it again."""

    trace_id: str | None = None
    span_id: str | None = None
    runtime_id: str | None = None
    runtime_group_id: str | None = None
    experiment_id: str | None = None
    payload: dict[str, Any] = {}


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation as it was judged: the view it was judged on, and the verdicts that stand by judge."""

    conversation_id: str
    sequence_hash: str
    commit: str
    envelope: Envelope
    results: Mapping[str, str]
    definitions: Mapping[str, str]


def originals(
    database: Database, choice: Choice, names: Sequence[str], *, limit: int, given: Given | None = None
) -> list[Original]:
    """The newest conversations with standing verdicts of judges of these names, at most `limit`; of those
    that are given, if any are. Raises SQLAlchemyError."""
    if given is None:
        return _newest(database, Sought(choice=choice, standing=True), names, limit=limit)
    found: list[Original] = []
    for ids in _chunks(given.ids):
        sought = Sought(choice=choice, standing=True, conversations=ids)
        found += _newest(database, sought, names, limit=limit)
    found = [one for one in found if one.sequence_hash in given.by_view]
    # A conversation whose id the platform gave has another one in its file. Views have no index.
    rest = given.by_view.keys() - {one.sequence_hash for one in found}
    for views in _chunks(sorted(rest)):
        found += _newest(database, Sought(choice=choice, standing=True, views=views), names, limit=limit)
    return found[:limit]


def _chunks(values: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(values), _AT_ONCE):
        yield tuple(values[start : start + _AT_ONCE])


def _newest(database: Database, sought: Sought, names: Sequence[str], *, limit: int) -> list[Original]:
    found: dict[tuple[str, str, str], list[Listed]] = {}
    for page in every(database, sought, limit=0):
        for row in page.rows:
            if row.result is None or row.judge_name not in names or not (row.sequence_hash and row.commit):
                continue
            key = (row.conversation_id, row.sequence_hash, row.commit)
            if key not in found and len(found) == limit:
                return [_original(rows) for rows in found.values()]
            found.setdefault(key, []).append(row)
    return [_original(rows) for rows in found.values()]


def _original(rows: Sequence[Listed]) -> Original:
    first = rows[0]
    return Original(
        conversation_id=first.conversation_id,
        sequence_hash=first.sequence_hash or "",
        commit=first.commit or "",
        envelope=_envelope(first),
        results={row.judge_name or "": row.result or "" for row in rows},
        definitions={row.judge_name or "": row.definition_hash for row in rows},
    )


def _envelope(row: Listed) -> Envelope:
    try:
        said = msgspec.json.decode(row.body, type=Said)
    except (msgspec.DecodeError, RecursionError):
        said = Said()
    labels = said.payload.get("labels")
    labels = labels if isinstance(labels, dict) else {}

    def as_given(key: str, value: object) -> str | None:
        """The host's own word where the event had to put a UUID in its place."""
        given = labels.get(key, value)
        return given if isinstance(given, str) else None

    return Envelope(
        conversation_id=row.conversation_id,
        environment=row.environment,
        service_name=row.service,
        trace_id=said.trace_id,
        span_id=said.span_id,
        runtime_id=as_given("runtime_id", said.runtime_id),
        runtime_group_id=as_given("runtime_group_id", said.runtime_group_id),
        experiment=Experiment(
            id=as_given("experiment_id", said.experiment_id),
            arm_id=as_given("experiment_arm_id", said.payload.get("experiment_arm_id")),
        ),
        # It was selected when it was judged first: sampling it again would only lose some of them.
        settings={"judges": {"*": {"sample_rate": 1.0}}},
    )


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """One judge's verdicts before and after, over conversations that have both. `p` is McNemar's exact, of
    the passes that became fails against the fails that became passes."""

    judge: str
    pairs: Mapping[str, Mapping[str, int]]
    nulls: int
    p: float
    changed: tuple[tuple[str, str, str], ...]

    @property
    def n(self) -> int:
        return sum(sum(row.values()) for row in self.pairs.values())

    def shown(self) -> dict[str, Any]:
        return {
            "judge": self.judge,
            "n": self.n,
            "pairs": {before: dict(row) for before, row in self.pairs.items()},
            "nulls": self.nulls,
            "p": self.p,
            "changed": [
                dict(zip(("conversation_id", "before", "after"), one, strict=True)) for one in self.changed
            ],
        }


def moved(judge: str, pairs: Iterable[tuple[str, str, str | None]]) -> Moved:
    """(conversation id, verdict before, result after) into how they moved; a null after is counted apart."""
    table: dict[str, Counter[str]] = {}
    nulls, changed = 0, []
    for conversation_id, before, after in pairs:
        if after is None:
            nulls += 1
            continue
        table.setdefault(before, Counter())[after] += 1
        if before != after:
            changed.append((conversation_id, before, after))
    worse, better = (table.get(a, Counter())[b] for a, b in (("pass", "fail"), ("fail", "pass")))
    return Moved(
        judge=judge, pairs=table, nulls=nulls, p=mcnemar_exact(worse, better), changed=tuple(changed)
    )

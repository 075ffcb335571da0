"""Labels that exist already, as rows of a calibration set: a table or JSON with a mapping. Pure.

Whatever is imported says so in `source`, with the file and the row that it came from.
"""

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from sandbox_judge.calibration.row import PREFERENCES, SPLITS, VERDICTS, Split, new_pair, new_row
from sandbox_judge.conversation.document import read_document
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.errors import InputError, UsageError

SKIP: Final = "skip"
_CONVERSATION_KEYS: Final = ("conversation", "messages")
_CELL_CHARS: Final = 16 << 20
_FAULTS_TOLD: Final = 10


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How rows are read. A column may be a dotted path into JSON; `A,B` puts two together.

    `shares` are cumulative bounds for a split drawn from the id, so that it is the same each time.
    """

    expected: str
    approved_by: str
    words: Mapping[str, str] = {}
    id: str | None = None
    conversation: str | None = None
    system: str | None = None
    user: str | None = None
    assistant: str | None = None
    pair: tuple[str, str] | None = None
    split: Split | None = None
    split_column: str | None = None
    shares: tuple[float, float] | None = None
    note: str | None = None


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: rows, and how many were left out by the mapping's own `skip`."""

    rows: tuple[dict[str, Any], ...]
    skipped: int


def parse_map(text: str) -> dict[str, str]:
    """`1=pass,-1=fail,0=not_applicable`. Raises UsageError."""
    words = {}
    for item in text.split(","):
        value, equals, word = item.rpartition("=")
        if not equals or word not in (*VERDICTS, *PREFERENCES, SKIP):
            raise UsageError(
                f"{item!r} maps nothing.",
                where="--map",
                remedy=f"Write VALUE=WORD, with {', '.join((*VERDICTS, *PREFERENCES))} or {SKIP}.",
            )
        words[value.strip()] = word
    return words


def parse_shares(text: str) -> tuple[float, float]:
    """`20/40/40`, the shares of train, dev and test. Raises UsageError."""
    try:
        train, dev, test = (float(part) for part in text.split("/"))
    except ValueError:
        train = dev = test = -1.0
    whole = train + dev + test
    if min(train, dev, test) < 0 or not 0 < whole < 1e9:
        raise UsageError(
            f"{text!r} are no shares.", where="--split", remedy="Write 20/40/40 or a split's name."
        )
    return train / whole, (train + dev) / whole


def import_rows(data: bytes, *, name: str, plan: Plan) -> Imported:
    """The rows of a file. Raises InputError, which names every row that cannot be one."""
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    skipped = 0
    ids: Counter[str] = Counter()
    for number, record in enumerate(_records(data, name), 1):
        try:
            row = _row(record, number, name, plan)
        except InputError as error:
            faults.append(f"row {number}: {error.message}")
            continue
        if row is None:
            skipped += 1
            continue
        ids[row["id"]] += 1
        if ids[row["id"]] > 1:
            faults.append(f"row {number}: the id {row['id']!r} stood in an earlier row")
        rows.append(row)
    if faults:
        more = len(faults) - _FAULTS_TOLD
        told = "; ".join(faults[:_FAULTS_TOLD]) + (f"; and {more} more" if more > 0 else "")
        raise InputError(f"{len(faults)} rows cannot be imported: {told}.", where=name, remedy=_remedy(plan))
    return Imported(rows=tuple(rows), skipped=skipped)


def _remedy(plan: Plan) -> str:
    return (
        f"Map every value of {plan.expected} with --map; VALUE={SKIP} leaves rows out. Nothing was written."
    )


def _records(data: bytes, name: str) -> Iterator[Any]:
    lower = name.lower()
    if not lower.endswith((".csv", ".tsv")):
        value = read_document(data).value
        yield from value if isinstance(value, list) else [value]
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 ({error.reason} at byte {error.start}).", where=name) from error
    # Our own limit instead of the module's, which is global.
    if max(map(len, text.split("\n")), default=0) > _CELL_CHARS:
        raise InputError(f"a line has more than {_CELL_CHARS:,} characters.", where=name)
    tab = lower.endswith(".tsv")
    reader = csv.DictReader(
        io.StringIO(text, newline=""),
        delimiter="\t" if tab else ",",
        quoting=csv.QUOTE_NONE if tab and '"' not in text.partition("\n")[0] else csv.QUOTE_MINIMAL,
    )
    try:
        yield from reader
    except csv.Error as error:
        raise InputError(f"line {reader.line_num} is no table's ({error}).", where=name) from error


def _row(record: Any, number: int, name: str, plan: Plan) -> dict[str, Any] | None:
    if not isinstance(record, dict):
        raise InputError("it is no object with columns")
    word = _word(_value(record, plan.expected), plan)
    if word == SKIP:
        return None
    id = _text(_value(record, plan.id)) if plan.id else f"{name.rpartition('.')[0] or name}-{number}"
    if not id.strip():
        raise InputError(f"the id ({plan.id}) is blank")
    personal = {
        "expected": word,
        "split": _split(record, id, plan),
        "approved_by": plan.approved_by,
        "note": plan.note,
    }
    source = f"import:{name} row {number}"
    if plan.pair is not None:
        first, second = (_built(record, plan, answer=column) for column in plan.pair)
        return new_pair(first, second, id=id, source=source, **personal)
    return new_row(_conversation(record, plan), id=id, source=source, **personal)


def _word(value: Any, plan: Plan) -> str:
    allowed: tuple[str, ...] = VERDICTS if plan.pair is None else PREFERENCES
    said = _text(value)
    word = plan.words.get(said, said)
    if word not in (*allowed, SKIP) or (word == SKIP and said not in plan.words):
        raise InputError(f"{plan.expected} is {said[:60]!r}, which maps to none of {', '.join(allowed)}")
    return word


def _split(record: Mapping[str, Any], id: str, plan: Plan) -> str | None:
    if plan.split_column is not None:
        said = _text(_value(record, plan.split_column))
        if said not in SPLITS:
            raise InputError(f"{plan.split_column} is {said[:60]!r}, none of {', '.join(SPLITS)}")
        return said
    if plan.shares is None:
        return plan.split
    drawn = int.from_bytes(hashlib.sha256(id.encode("utf-8", "replace")).digest()[:8]) / (1 << 64)
    return SPLITS[sum(drawn >= bound for bound in plan.shares)]


def _conversation(record: Mapping[str, Any], plan: Plan) -> Conversation:
    if plan.conversation is None and plan.assistant is not None:
        return _built(record, plan, answer=plan.assistant)
    keys = (plan.conversation,) if plan.conversation else _CONVERSATION_KEYS
    for key in keys:
        value = _value(record, key, missing=None)
        if value is not None:
            return read_conversation(value.encode() if isinstance(value, str) else value)
    raise InputError(f"there is no conversation in {' or '.join(keys)}")


def _built(record: Mapping[str, Any], plan: Plan, *, answer: str) -> Conversation:
    """A conversation of columns: what grounds it, what was asked, what was answered."""
    messages = []
    for role, column in (("system", plan.system), ("user", plan.user), ("assistant", answer)):
        if column is not None:
            text = "\n\n".join(filter(None, (_text(_value(record, part)) for part in column.split(","))))
            messages.append({"role": role, "content": text})
    return read_conversation(messages)


_MISSING: Final[Any] = object()


def _value(record: Mapping[str, Any], path: str, *, missing: Any = _MISSING) -> Any:
    """The value of a column: a key as it is, else a dotted path."""
    value: Any = record
    if path in record:
        return record[path]
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            if missing is _MISSING:
                raise InputError(f"it has no {path!r}")
            return missing
        value = value[part]
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()

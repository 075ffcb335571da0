"""A document as rows: JSON Lines, or one list of the same objects; the faults of those that do not fit, and
the account of what in a host's transcript is no conversation. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.parts import as_text, error_told
from sandbox_judge.errors import InputError

Row = dict[str, Any]

_LOOKED_AT: Final = 200
_PLACES_SHOWN: Final = 10
_KIND_LENGTH: Final = 60


def rows_of(document: Document) -> Sequence[Any]:
    """The rows of a document: its lines, or the elements of its one list."""
    first = document.values[0]
    return first if not document.many and isinstance(first, list) else document.values


def any_row(document: Document, is_own: Callable[[Any], bool]) -> bool:
    """Whether one of the first rows is the format's own."""
    return any(is_own(row) for row in rows_of(document)[:_LOOKED_AT])


def alike(
    document: Document, rows: Sequence[Any], is_own: Callable[[Any], bool], what: str
) -> Iterator[tuple[str, Any]]:
    """(its place, a row) of every row; no place where there is one row. Raises InputError for a row that is
    not `what` the first is."""
    for index, row in enumerate(rows):
        if not is_own(row):
            raise unlike_first(document, index, f"is no {what}, as the first is")
        yield document.place(index) if document.many or len(rows) > 1 else "", row


def unlike_first(document: Document, index: int, told: str) -> InputError:
    """The fault of the row `index`, of which `told` says how it differs from the first."""
    where = document.place(index)
    return InputError(f"{where.capitalize()} {told}.", where=where)


def unlike_others(index: int, told: str, where: str = "") -> InputError:
    """The fault of the element `index` (from 1) within one conversation, that stands at `where`."""
    return InputError(
        f"Element {index} of the {told}.",
        where=where or f"element {index}",
        remedy="All elements must be in one format.",
    )


def tell_outcome(build: ConversationBuilder, row: dict[str, Any], error: Any) -> None:
    """What a host wrote beside a row's messages, and a recorder of its call: status, error, feedback."""
    if isinstance(status := row.get("status"), str):
        build.status(status)
    if error is not None:
        build.failed(error_told(error))
    for item in row["feedback"] if isinstance(row.get("feedback"), list) else ():
        build.feedback(item)


class Transcript:
    """The rows of one transcript that are objects, and the count of what was left out, told in warnings."""

    def __init__(self, document: Document) -> None:
        self.rows: list[Row] = []
        self._strange: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._abandoned = 0
        for index, row in enumerate(rows_of(document)):
            if isinstance(row, dict):
                self.rows.append(row)
            else:
                self._strange.append(document.place(index))

    def leave_out(self, kind: Any) -> None:
        """Count a row that holds no conversation."""
        self._left_out[as_text(kind)[:_KIND_LENGTH] or "row without type"] += 1

    def abandon(self, count: int = 1) -> None:
        """Count rows of a branch that was left, or of turns that were undone."""
        self._abandoned += count

    def tell(self, build: ConversationBuilder) -> None:
        """The warnings about all that was left out."""
        if self._strange:
            places = ", ".join(self._strange[:_PLACES_SHOWN])
            build.warn(
                "row_unreadable", f"{len(self._strange)} rows are no objects and were left out ({places})"
            )
        if self._abandoned:
            build.warn(
                "branch_left_out", f"{self._abandoned} rows stand on abandoned branches and were left out"
            )
        if self._left_out:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self._left_out.items()))
            build.warn("rows_left_out", f"rows that hold no conversation were left out: {counts}")

"""A host's transcript as rows: JSON Lines, or one list of the same objects; and the account of what in it is
no conversation. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.parts import as_text

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

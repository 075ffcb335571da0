"""What a judge of outputs sees: one text in which each file is a numbered entry, as in a conversation's view.

The same rules as there: no content can make a line that reads as an entry, the longest texts are shortened in
the middle where all is too long, and quotes are looked up again in the files that they come from. Pure.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sandbox_judge.caps import QUOTE_CHARS, QUOTES, cut
from sandbox_judge.grading.evidence import normalised
from sandbox_judge.grading.reply import Quote
from sandbox_judge.grading.shortening import shortened
from sandbox_judge.grading.view_lines import fence_of, lines_of, plain_name, text_hash
from sandbox_judge.rubric.documents import Document
from sandbox_judge.rubric.scores import Located
from sandbox_judge.rubric.tree import LeftOut

ALLOWANCE: Final = 400_000
"""Characters, as for a conversation's view."""

MOST_PICTURES: Final = 20
_HEADER_ROOM: Final = 200


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """`documents` by entry number, from 1. `overflow`: it cannot be shortened enough."""

    text: str
    documents: tuple[Document, ...]
    left_out_chars: int
    overflow: bool

    @property
    def fence(self) -> str:
        return fence_of(text_hash(self.text))

    def pictures(self) -> Iterator[tuple[int, Document]]:
        """The pictures that can be sent, with their entry numbers."""
        with_numbers = ((n, one) for n, one in enumerate(self.documents, 1) if one.picture is not None)
        yield from list(with_numbers)[:MOST_PICTURES]


def show(
    documents: Sequence[Document],
    left_out: Sequence[LeftOut] = (),
    *,
    pictures: bool,
    what: str = "Outputs",
    allowance: int = ALLOWANCE,
) -> Shown:
    """The view of `documents`. `pictures`: whether the model will get them."""
    sent = [one for one in documents if one.picture is not None][: MOST_PICTURES if pictures else 0]
    contents = [_content(document, any(document is one for one in sent)) for document in documents]
    heads = [_head(number, document) for number, document in enumerate(documents, 1)]
    notes = [f"[not read] {plain_name(one.path)}: {lines_of(one.why)}" for one in left_out]
    fixed = sum(len(line) + 1 for line in (*heads, *notes)) + _HEADER_ROOM
    excess = fixed + sum(map(len, contents)) - allowance
    cut_chars = 0
    if excess > 0:
        contents, cut_chars = shortened(contents, excess)
    lines = [f"{head}{content}" for head, content in zip(heads, contents, strict=True)]
    count = "1 file" if len(documents) == 1 else f"{len(documents)} files"
    header = f"{what}: {count}, {len(left_out)} not read, {cut_chars:,} characters left out"
    text = "\n".join([header, *lines, *notes])
    return Shown(
        text=text,
        documents=tuple(documents),
        left_out_chars=cut_chars,
        overflow=len(text) > allowance,
    )


def _head(number: int, document: Document) -> str:
    return f"[{number}] {document.kind} {plain_name(document.path)} ({document.size:,} bytes): "


def _content(document: Document, sent: bool) -> str:
    if document.text is not None:
        return lines_of(document.text) or "[empty]"
    if document.picture is not None:
        return "[a picture, sent beside this text]" if sent else "[a picture, which is not shown to you]"
    return f"[not shown: {lines_of(document.unseen)}]"


def located(quotes: Sequence[Quote], documents: Mapping[int, Document]) -> tuple[Located, ...]:
    """The first ten quotes, each with the file and line where it stands: in the file that it names, else in
    any. A quote counts as verified only if it stands in the text of a file."""
    finder = _Finder(documents)
    evidence = []
    for quote in quotes[:QUOTES]:
        place = finder.place(quote)
        shown = cut(quote.quote, QUOTE_CHARS)
        if place is None:
            named = documents.get(quote.entry or 0)
            evidence.append(Located(quote=shown, verified=False, file=named.path if named else None))
        else:
            evidence.append(Located(quote=shown, verified=True, file=place[0], line=place[1]))
    return tuple(evidence)


class _Finder:
    def __init__(self, documents: Mapping[int, Document]) -> None:
        self._documents = documents
        self._loose: dict[int, tuple[str, list[int]]] = {}

    def place(self, quote: Quote) -> tuple[str, int] | None:
        if not quote.quote.strip():
            return None
        first = [quote.entry] if quote.entry in self._documents else []
        order = [*first, *(number for number in self._documents if number not in first)]
        for find in (self._exact, self._loosely):
            for number in order:
                line = find(number, quote.quote) if number is not None else None
                if line is not None and number is not None:
                    return self._documents[number].path, line
        return None

    def _exact(self, number: int, quote: str) -> int | None:
        text = self._documents[number].text or ""
        at = text.find(quote)
        return None if at < 0 else text.count("\n", 0, at) + 1

    def _loosely(self, number: int, quote: str) -> int | None:
        wanted = normalised(quote)
        text, starts = self._normal(number)
        at = text.find(wanted) if wanted else -1
        return None if at < 0 else bisect_right(starts, at)

    def _normal(self, number: int) -> tuple[str, list[int]]:
        """The file's text as quotes are compared, and where each of its lines begins in that."""
        if number not in self._loose:
            pieces, starts, length = [], [], 0
            for line in (self._documents[number].text or "").split("\n"):
                starts.append(length)
                piece = normalised(line)
                if piece:
                    pieces.append(piece)
                    length += len(piece) + 1
            self._loose[number] = (" ".join(pieces), starts)
        return self._loose[number]

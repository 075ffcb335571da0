"""Runbooks as Markdown: tables, headings, paragraphs and fences with their lines. The room of markdown-it-py.

Only what the parser says is a table is one: what stands in a fence, in a comment or in an indented block is
not. Text is given plain, without the marks of emphasis and code.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, Literal

import msgspec

from sandbox_judge.errors import MissingExtra

if find_spec("markdown_it") is None:
    raise MissingExtra(
        "rubrics need markdown-it-py, which is not installed.",
        remedy="Install it with: pip install 'sandbox-judge[rubric]'",
    )

from markdown_it import MarkdownIt  # the check above has to come first
from markdown_it.token import Token

_BREAKS: Final = ("softbreak", "hardbreak")


class Span(msgspec.Struct, frozen=True):
    """A stretch of inline text, and whether it is bold."""

    text: str
    bold: bool


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """`header` and `rows` are plain cells; `lines` are those of the rows, counted from 1."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int
    lines: tuple[int, ...]


class Prose(msgspec.Struct, frozen=True, kw_only=True):
    """A heading, or a paragraph (of a list item too). `level` is a heading's, 0 for a paragraph."""

    spans: tuple[Span, ...]
    line: int
    level: int = 0
    listed: bool = False

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    language: str
    text: str
    line: int


Block = Table | Prose | Fence


def blocks_of(markdown: str, *, first_line: int = 1) -> tuple[Block, ...]:
    """The blocks of `markdown` in order. `first_line` is the number of its first line."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    blocks: list[Block] = []
    at = lists = 0
    while at < len(tokens):
        token = tokens[at]
        line = first_line + (token.map[0] if token.map else 0)
        lists += {"list_item_open": 1, "list_item_close": -1}.get(token.type, 0)
        if token.type == "table_open":
            end = _closing(tokens, at)
            blocks.append(_table(tokens[at:end], first_line))
            at = end
        elif token.type == "fence":
            words = token.info.split()
            blocks.append(Fence(language=words[0] if words else "", text=token.content, line=line))
        elif token.type in ("heading_open", "paragraph_open"):
            level = int(token.tag[1:]) if token.type == "heading_open" else 0
            spans = tuple(_spans(tokens[at + 1].children or ()))
            blocks.append(Prose(spans=spans, line=line, level=level, listed=lists > 0))
        at += 1
    return tuple(blocks)


def _closing(tokens: Sequence[Token], at: int) -> int:
    while tokens[at].type != "table_close":
        at += 1
    return at


def _table(tokens: Sequence[Token], first_line: int) -> Table:
    header: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    place: Literal["header", "body"] = "header"
    for at, token in enumerate(tokens):
        if token.type == "tbody_open":
            place = "body"
        elif token.type == "tr_open" and place == "body":
            rows.append([])
            lines.append(first_line + (token.map[0] if token.map else 0))
        elif token.type in ("th_open", "td_open"):
            cell = "".join(span.text for span in _spans(tokens[at + 1].children or ())).strip()
            (header if place == "header" else rows[-1]).append(cell)
    start = tokens[0].map[0] if tokens[0].map else 0
    return Table(
        header=tuple(header),
        rows=tuple(tuple(row) for row in rows),
        line=first_line + start,
        lines=tuple(lines),
    )


def _spans(children: Sequence[Token]) -> list[Span]:
    spans: list[Span] = []
    bold = 0
    for child in children:
        bold += {"strong_open": 1, "strong_close": -1}.get(child.type, 0)
        if child.type in ("text", "code_inline"):
            spans.append(Span(child.content, bold > 0))
        elif child.type in _BREAKS or (child.type == "html_inline" and child.content.startswith("<br")):
            spans.append(Span(" ", bold > 0))
        elif child.type == "image":
            spans.append(Span(child.content, bold > 0))
    return spans

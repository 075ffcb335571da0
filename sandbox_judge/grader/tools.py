"""The four tools of a grader: list, read, search, view a table; all of a private copy, all read-only.

The copy lives in memory and is asked by exact names, so that no path, link or special file leads out of it.
What a tool gives is text in which no line can pass for another entry, cut visibly at a bound.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from sandbox_judge.gate.language import GateSyntaxError, RegexLiteral
from sandbox_judge.gate.regex import compile_regex
from sandbox_judge.grading.view_lines import lines_of, one_line, plain_name
from sandbox_judge.rubric.documents import Document, documents_of
from sandbox_judge.rubric.tree import Found, LeftOut

MOST_CHARS: Final = 20_000
_MOST_LINES: Final = 1_000
_MOST_LISTED: Final = 500
_MOST_MATCHES: Final = 50
_MOST_ROWS: Final = 200
_MOST_PATTERN: Final = 500
_MOST_ARGUMENTS: Final = 20_000
_MATCH_CHARS: Final = 300
# Characters times the pattern's weight: about half a second at worst (gate.weight).
_MOST_SEARCH: Final = 5e7


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    failed: bool = False


class _Fault(Exception):
    """What the model did wrong, told to it."""


def _tool(name: str, text: str, required: Sequence[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}


_PATH: Final = {"type": "string", "description": "a path as list_files gives it"}
_NUMBER: Final = {"type": "integer", "minimum": 1}
TOOLS: Final[tuple[Mapping[str, Any], ...]] = (
    _tool(
        "list_files",
        "The files of the outputs and the sources, with their numbers and sizes.",
        (),
        folder={"type": "string", "description": "only below this folder"},
    ),
    _tool(
        "read_file",
        "A file's text with line numbers. Long files: ask for a range of lines.",
        ("path",),
        path=_PATH,
        first_line=_NUMBER,
        last_line=_NUMBER,
    ),
    _tool(
        "search",
        "Lines that a regular expression matches (Rust syntax, no look-around), everywhere or below a path.",
        ("pattern",),
        pattern={"type": "string"},
        path={"type": "string", "description": "a file or a folder"},
        ignore_case={"type": "boolean"},
    ),
    _tool(
        "view_table",
        "Rows of a CSV, TSV or workbook, with column numbers.",
        ("path",),
        path=_PATH,
        first_row=_NUMBER,
        rows=_NUMBER,
    ),
)


class Copy:
    """The private copy: `outputs/…` and `sources/…`, numbered in the order of their paths, outputs first."""

    def __init__(
        self, outputs: Sequence[Found], sources: Sequence[Found], left_out: Sequence[LeftOut] = ()
    ) -> None:
        found = [*_below("outputs", outputs), *_below("sources", sources)]
        self.files: dict[str, Found] = {one.path: one for one in found}
        self.numbers: dict[str, int] = {path: number for number, path in enumerate(self.files, 1)}
        self.left_out = tuple(left_out)
        self._documents: dict[str, Document] = {}

    async def document(self, path: str, *, deadline: float) -> Document:
        """Raises MissingExtra where the file needs a library that is absent."""
        if path not in self._documents:
            kind = "output" if path.startswith("outputs/") else "context"
            (document,) = await documents_of([self.files[path]], kind=kind, deadline=deadline)  # type: ignore[arg-type]
            self._documents[path] = document
        return self._documents[path]

    def opened(self) -> dict[int, Document]:
        """What was opened so far, by number, for looking quotes up."""
        return {self.numbers[path]: self._documents[path] for path in self.files if path in self._documents}


def _below(folder: str, files: Sequence[Found]) -> list[Found]:
    return [msgspec.structs.replace(one, path=f"{folder}/{one.path}") for one in files]


class Toolbox:
    """Answers tool calls about one copy. `most_files` bounds how many files may be opened in all."""

    def __init__(self, copy: Copy, *, most_files: int) -> None:
        self.copy = copy
        self.most_files = most_files
        self.refused_files = 0

    async def call(self, name: str, arguments: str, *, deadline: float) -> ToolResult:
        """The result of one call as the model wrote it; a fault of the model's is told to it."""
        tools = {
            "list_files": self._list,
            "read_file": self._read,
            "search": self._search,
            "view_table": self._table,
        }
        try:
            if name not in tools:
                raise _Fault(f"there is no tool {one_line(name)[:80]}; there are {', '.join(tools)}")
            text = await tools[name](_arguments(arguments), deadline)
        except _Fault as fault:
            return ToolResult(text=f"[error] {fault}", failed=True)
        if len(text) > MOST_CHARS:
            text = f"{text[:MOST_CHARS]}\n[cut at {MOST_CHARS:,} characters: ask for less]"
        return ToolResult(text=text)

    async def _list(self, given: Mapping[str, Any], _deadline: float) -> str:
        folder = _text(given, "folder", "").strip("/")
        files = [one for one in self.copy.files.values() if not folder or _is_below(one.path, folder)]
        lines = [
            f"[{self.copy.numbers[one.path]}] {plain_name(one.path)} ({len(one.data):,} bytes)"
            for one in files[:_MOST_LISTED]
        ]
        if len(files) > _MOST_LISTED:
            lines.append(f"… and {len(files) - _MOST_LISTED:,} more: name a folder")
        lines += [f"not read: {plain_name(one.path)}: {one.why}" for one in self.copy.left_out[:50]]
        return "\n".join(lines) or "no files"

    async def _read(self, given: Mapping[str, Any], deadline: float) -> str:
        path = self._path(given)
        lines = (await self._opened(path, deadline)).split("\n")
        first = _whole(given, "first_line", 1)
        last = min(_whole(given, "last_line", first + _MOST_LINES - 1), first + _MOST_LINES - 1, len(lines))
        if first > len(lines):
            raise _Fault(f"the file has {len(lines):,} lines")
        head = f"[{self.copy.numbers[path]}] {plain_name(path)}, lines {first} to {last} of {len(lines):,}"
        # Line numbers are ours; the rest of a line cannot begin one.
        return "\n".join([head, *(f"| {n} {_line(lines[n - 1])}" for n in range(first, last + 1))])

    async def _search(self, given: Mapping[str, Any], deadline: float) -> str:
        pattern = _text(given, "pattern")
        if not pattern or len(pattern) > _MOST_PATTERN:
            raise _Fault(f"a pattern has 1 to {_MOST_PATTERN} characters")
        flags = "i" if given.get("ignore_case") is True else ""
        try:
            regex = compile_regex(RegexLiteral(pattern=pattern, flags=flags))
        except GateSyntaxError as error:
            raise _Fault(str(error)) from error
        folder = _text(given, "path", "").strip("/")
        paths = [path for path in self.copy.files if not folder or path == folder or _is_below(path, folder)]
        if not paths:
            raise _Fault("there is no such file or folder")
        matches, cost = [], 0.0
        for path in paths:
            text = await self._opened(path, deadline, unseen_is_fault=False)
            cost += (len(text) + 1) * max(regex.weight, 1.0)
            if cost > _MOST_SEARCH:
                matches.append(f"… stopped at {plain_name(path)}: this pattern costs too much; name a file")
                break
            for number, line in enumerate(text.split("\n"), 1):
                if regex.search(line):
                    matches.append(f"| {plain_name(path)}:{number} {_line(line)[:_MATCH_CHARS]}")
                    if len(matches) >= _MOST_MATCHES:
                        return "\n".join([*matches, f"… only the first {_MOST_MATCHES} are shown"])
        return "\n".join(matches) or "no line matches"

    async def _table(self, given: Mapping[str, Any], deadline: float) -> str:
        path = self._path(given)
        text = await self._opened(path, deadline)
        delimiter = "," if path.lower().endswith(".csv") else "\t"
        if path.lower().endswith(".csv") and text.split("\n", 1)[0].count(";") > text.split("\n", 1)[0].count(
            ","
        ):
            delimiter = ";"
        first = _whole(given, "first_row", 1)
        count = min(_whole(given, "rows", 50), _MOST_ROWS)
        try:
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
            rows = list(islice(enumerate(reader, 1), first - 1, first - 1 + count))
        except csv.Error as error:
            raise _Fault(f"the table cannot be read: {error}") from error
        if not rows:
            raise _Fault(f"there is no row {first}")
        head = f"[{self.copy.numbers[path]}] {plain_name(path)}, rows {first} to {rows[-1][0]}"
        lines = [
            f"| {number} {' | '.join(f'{n}={_line(cell)}' for n, cell in enumerate(row, 1))}"
            for number, row in rows
        ]
        return "\n".join([head, *lines])

    def _path(self, given: Mapping[str, Any]) -> str:
        path = _text(given, "path")
        if path not in self.copy.files:
            raise _Fault("there is no such file: list_files gives the names, nothing else can be opened")
        return path

    async def _opened(self, path: str, deadline: float, *, unseen_is_fault: bool = True) -> str:
        opened = self.copy.opened()
        if self.copy.numbers[path] not in opened and len(opened) >= self.most_files:
            self.refused_files += 1
            raise _Fault(f"no further file can be opened: {self.most_files} were")
        document = await self.copy.document(path, deadline=deadline)
        if document.text is not None:
            return document.text
        if not unseen_is_fault:
            return ""
        raise _Fault(document.unseen or "it is a picture, which this tool does not show")


def _arguments(text: str) -> dict[str, Any]:
    if len(text) > _MOST_ARGUMENTS:
        raise _Fault("the arguments are too long")
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise _Fault(f"the arguments are not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _Fault("the arguments are not a JSON object")
    return value


def _text(given: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = given.get(key, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise _Fault(f"{key} must be text")
    return value


def _whole(given: Mapping[str, Any], key: str, default: int) -> int:
    value = given.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10**9:
        raise _Fault(f"{key} must be a whole number from 1")
    return value


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _line(text: str) -> str:
    return one_line(lines_of(text).replace("\n| ", " "))

"""What libyaml takes although YAML 1.2 does not, told from a parser's events and the text. A leaf.

Found by comparing with the recipe format's own checker on mutated files: without this we would read files
that it refuses.
"""

import re
from typing import Any, Final

from sandbox_judge.yaml_tree import YamlError

LINE_BREAK: Final = re.compile("\r\n|\r|\n")
# A block scalar's properties and header, and a comment that touches it.
_BLOCK_HEADER: Final = re.compile(r"(?:[&!]\S*\s+)*(?P<sign>[|>])[0-9+-]*(?P<comment>#?)")
# What may stand between two nodes of a flow collection: a comment needs a blank before it.
_GAP: Final = re.compile(r"[^#]*(?:(?<![^ \t\r\n])#[^\r\n]*[^#]*)*")
_COMMENT: Final = re.compile(r"#[^\r\n]*")
_TAB_AFTER_KEY: Final = re.compile(r"\? *\t")


# A double-quoted scalar, and in it the escapes: two that are halves of one character, or any other.
_DOUBLE_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*', re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def _joined(match: re.Match[str]) -> str:
    high, low = match.groups()
    if high is None:
        return match.group()
    return f"\\U{0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00:08X}"


def text_of(event: Any) -> str:
    """A scalar's text. Surrogates, which the pure parser leaves in, are joined, lone ones refused."""
    text: str = event.value
    if text.isascii() or not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise _error("half of a surrogate pair is no character", event.start_mark) from error


def with_joined_escapes(text: str, start: int) -> str:
    """`text` with the surrogate pairs of the double-quoted scalar at `start` written as one escape each.

    JSON writes U+1F600 as two escapes, and YAML 1.2 means to take all JSON; libyaml does not take these.
    """
    scalar = _DOUBLE_QUOTED.match(text, start)
    if scalar is None:
        return text
    return text[:start] + _ESCAPE.sub(_joined, scalar.group()) + text[scalar.end() :]


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ANCHOR: Final = re.compile(r"(?:!\S*\s+)*[&*][0-9A-Za-z_-]+")
_AFTER_NAME: Final = ("", " ", "\t", "\n", "\r")
_AFTER_NAME_IN_FLOW: Final = (*_AFTER_NAME, ",", "[", "]", "{", "}")


def _error(message: str, mark: Any) -> YamlError:
    return YamlError(message, mark.line + 1, mark.column + 1)


def check_scalar(text: str, event: Any, parent_column: int, *, is_value: bool, in_flow: bool) -> None:
    """Raises YamlError for a scalar whose form is libyaml's alone. `parent_column`: from 1, 0 for none."""
    if not event.style:
        if event.value == "-":
            raise _error("a lone '-' is no value: put it in quotes", event.start_mark)
    elif event.style in "|>":
        _check_header(text, event.start_mark, parent_column)
    else:
        check_end(text, event.end_mark)
        if event.start_mark.line != event.end_mark.line and parent_column and not in_flow:
            _check_lines(text, event, parent_column + is_value)


def check_anchor(text: str, event: Any, in_flow: bool) -> None:
    """Raises YamlError for the name of an anchor or an alias that ends before its blank."""
    end = event.start_mark.index
    if event.anchor is not None:
        found = _ANCHOR.match(text, end)
        end = found.end() if found else end
        if text[end : end + 1] not in (_AFTER_NAME_IN_FLOW if in_flow else _AFTER_NAME):
            raise _error("the name of an anchor or an alias ends with a blank", event.start_mark)


def check_end(text: str, end: Any) -> None:
    """Raises YamlError for a comment that touches the end of a quoted text or of a flow collection."""
    if text[end.index : end.index + 1] == "#":
        raise _error("a comment starts with a blank and '#'", end)


def check_gap(text: str, read_to: int, start: Any) -> None:
    """Raises YamlError for what libyaml takes between the nodes of a flow collection."""
    gap = text[read_to : start.index]
    if gap[-1:] == "?":
        raise _error("a '?' here needs a blank after it, or quotes around the text", start)
    if "#" in gap:
        sound = _GAP.match(text, read_to, start.index)
        if sound is None or sound.end() != start.index:
            raise _error("a comment before this starts without a blank", start)
    if "?" in gap and _TAB_AFTER_KEY.search(_COMMENT.sub("", gap)):
        raise _error("a tab may not follow a '?': use a blank", start)


def _check_header(text: str, mark: Any, parent_column: int) -> None:
    header = _BLOCK_HEADER.match(text, mark.index)
    if header is None:
        return
    if header["comment"]:
        raise _error("a comment starts with a blank and '#'", mark)
    at = header.start("sign")
    broken = max(text.rfind("\n", mark.index, at), text.rfind("\r", mark.index, at))
    column = at - broken if broken >= 0 else at - mark.index + mark.column + 1
    if column <= parent_column:
        raise _error("a block text starts further right than what it belongs to", mark)


def _check_lines(text: str, event: Any, least: int) -> None:
    """A quoted text of several lines in a block is indented by more than what it belongs to."""
    start, end = event.start_mark, event.end_mark
    lines = LINE_BREAK.split(text[start.index : end.index])
    for number, line in enumerate(lines[1:], start.line + 2):
        content = line.lstrip(" \t")
        spaces = len(line) - len(line.lstrip(" "))
        is_end = content == event.style and spaces + 1 == len(line)
        if content and not is_end and spaces < least:
            raise YamlError(f"this goes on a quoted text: indent it by {least} spaces", number, spaces + 1)

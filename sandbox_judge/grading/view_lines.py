"""Text as a view may show it: it can make no entry and act on no reader (`spec/conversation.md`).

Every break of a line is followed by `| `; other control characters and bidirectional marks are shown as
escapes. The fence around a view is a word of the hash of its text, which the text cannot contain. Pure.
"""

import hashlib
import re
from typing import Final

from sandbox_judge.conversation.document import json_text

_FENCE_DIGITS: Final = 32
_BREAKS: Final = frozenset("\r\v\f\x85\u2028\u2029")
# All that must not stand raw in a view, but for LF. `\r\n` is one break.
_HOSTILE: Final = re.compile(
    "\r\n|[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\ud800-\udfff]"
)
# Characters that are encoded at a time for the hash.
_HASHED: Final = 1 << 20
_PLAIN_NAME: Final = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)


def text_hash(text: str) -> str:
    """The SHA-256 of `text`'s UTF-8, as hashes are written."""
    digest = hashlib.sha256()
    for start in range(0, len(text), _HASHED):
        digest.update(text[start : start + _HASHED].encode())
    return f"sha256:{digest.hexdigest()}"


def fence_of(text_hash: str) -> str:
    """The word that fences the text of this hash."""
    return text_hash.removeprefix("sha256:")[:_FENCE_DIGITS]


def lines_of(text: str) -> str:
    """`text` as content: every break of a line is followed by `| `, nothing else in it acts."""
    if text.isprintable():
        return text
    if _HOSTILE.search(text):
        text = _HOSTILE.sub(_shown, text)
    return text.replace("\n", "\n| ")


def one_line(text: str) -> str:
    """`text` with its breaks shown as escapes."""
    return text if text.isprintable() else _HOSTILE.sub(_escape, text).replace("\n", "\\n")


def plain_name(text: str) -> str:
    """A name as it is where it is a plain word, else quoted: it cannot pass for the words around it."""
    return text if _PLAIN_NAME.fullmatch(text) else quoted(text)


def quoted(text: str) -> str:
    """`text` as a JSON string on one line."""
    return one_line(json_text(text))


def _shown(match: re.Match[str]) -> str:
    found = match.group()
    return "\n" if found[0] in _BREAKS else _escape(match)


def _escape(match: re.Match[str]) -> str:
    found = match.group()
    if found == "\t":
        return "\\t"
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

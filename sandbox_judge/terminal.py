"""Text from conversations, recipes and models on its way to a terminal (design, section 7): made harmless.

Control characters and bidirectional marks are shown as escapes, so that nothing outside can move the cursor,
recolour, or reorder what a person reads. A leaf.
"""

import re
from typing import Final

# C0 and C1 controls, DEL, the marks and isolates that reorder text, line and paragraph separators, zero-width
# characters that hide text, and lone surrogates (which no terminal can encode).
_HOSTILE: Final = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ud800-\\udfff]"
)
_HOSTILE_BUT_NEWLINE: Final = re.compile(_HOSTILE.pattern.replace(r"\x00-\x1f", r"\x00-\x09\x0b-\x1f"))


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code == 0x0A:
        return "\\n"
    if code == 0x0D:
        return "\\r"
    if code == 0x09:
        return "\\t"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def escaped(text: str, *, multiline: bool = False) -> str:
    """`text` with every character that could act on a terminal as a visible escape.

    With `multiline` line feeds stay (for text that is shown as a block); otherwise the result is one line.
    """
    return (_HOSTILE_BUT_NEWLINE if multiline else _HOSTILE).sub(_shown, text)

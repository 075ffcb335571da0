"""How a text must stand in a view, by the specification's words alone: independent of the view's own code."""

from functools import cache

BREAKS = {"\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"}
BIDI = {*"\u061c\u200e\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}


@cache
def shown(text: str) -> str:
    out = []
    for character in text.replace("\r\n", "\n"):
        if character in BREAKS:
            out.append("\n| ")
        elif character == "\t":
            out.append("\\t")
        elif ord(character) < 0x20 or 0x7F <= ord(character) <= 0x9F:
            out.append(f"\\x{ord(character):02x}")
        elif character in BIDI:
            out.append(f"\\u{ord(character):04x}")
        else:
            out.append(character)
    return "".join(out)


def in_order(view: str, texts: list[str]) -> str | None:
    """The first of `texts` that does not stand in the view after those before it, or None."""
    at = 0
    for text in texts:
        found = view.find(shown(text), at)
        if found < 0:
            return text
        at = found
    return None

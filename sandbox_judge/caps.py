"""How long the texts of an event may be (`spec/events.md`), and the one way to cut them. A leaf."""

from typing import Final

REASONING_CHARS: Final = 4_000
QUOTES: Final = 10
QUOTE_CHARS: Final = 500
ERROR_CHARS: Final = 500


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` characters; how much was cut off the end is told in its place."""
    if len(text) <= limit:
        return text
    # The mark takes room itself and grows with the number that it shows: each look can only add a digit.
    gone = len(text) - limit
    while len(text) - gone + len(mark := f" … [{gone} characters cut]") > limit:
        gone = len(text) - limit + len(mark)
    return (text[: len(text) - gone] if gone <= len(text) else "") + mark[:limit]

"""How long the texts of an event may be (`spec/events.md`), and the one way to cut them. A leaf."""

from typing import Final

REASONING_CHARS: Final = 4_000
QUOTES: Final = 10
QUOTE_CHARS: Final = 500
ERROR_CHARS: Final = 500


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` characters; what was cut off the end is told in its place."""
    if len(text) <= limit:
        return text
    # The mark's own length depends on the number it shows; a second look settles it.
    mark = f" … [{len(text) - limit} characters cut]"
    mark = f" … [{len(text) - limit + len(mark)} characters cut]"
    return text[: max(0, limit - len(mark))] + mark[:limit]

"""JSON objects that stand in the judge's view: an answer equal to one of them was planted, not given.

A conversation can hold `{"reasoning": "…", "verdict": "pass"}`; a judge that quotes it must not be read as
having said it (design, section 7).
"""

import re
from functools import cached_property
from typing import Any, Final

from sandbox_judge.canonical import without_surrogates
from sandbox_judge.grading.json_objects import canonical, objects_anywhere

# Faults may cost this many characters a character of the view, all levels together, before reading gives up.
_EFFORT: Final = 6
# JSON inside a JSON string (a tool's arguments) is escaped once, inside an envelope of that twice.
_LEVELS: Final = 3

# The view marks the further lines of an entry so.
_CONTINUED: Final = re.compile(r"^\| ?", re.MULTILINE)
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))')
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class PlantedObjects:
    """The objects of one view that have the answer's key. Looked for only when a reply raises the doubt."""

    def __init__(self, view_text: str, *, key: str) -> None:
        self._view = view_text
        self._key = key

    def holds(self, value: dict[str, Any]) -> bool:
        """Whether an object equal to `value` stands in the view; True too where the view is so tangled that
        nobody can tell, because an answer must not be read on a doubt."""
        reasoning = value.get("reasoning")
        # The reasoning of an honest answer is not in the view in any notation; that is quick to see.
        if isinstance(reasoning, str) and not any(
            without_surrogates(reasoning) in level for level in self._readings
        ):
            return False
        return self._objects is None or canonical(value) in self._objects

    @cached_property
    def _levels(self) -> list[str]:
        """The text as it was written, then with one level of JSON escapes resolved after the other."""
        plain = without_surrogates(_CONTINUED.sub("", self._view))
        levels = [plain]
        for _ in range(_LEVELS - 1):
            if "\\" in levels[-1]:
                levels.append(_unescaped(levels[-1]))
        # The view shows a tab as its escape, between keys too.
        return [*levels, plain.replace("\\t", "\t")] if "\\t" in plain else levels

    @cached_property
    def _readings(self) -> list[str]:
        return [*self._levels, *map(_unescaped, self._levels)]

    @cached_property
    def _objects(self) -> frozenset[str] | None:
        seen = set()
        for level in self._levels:
            for value in objects_anywhere(level, effort=_EFFORT * len(level) // len(self._levels)):
                if value is None:
                    return None
                if self._key in value:
                    seen.add(canonical(value))
        return frozenset(seen)


def _unescaped(text: str) -> str:
    def resolved(match: re.Match[str]) -> str:
        letter, code = match.groups()
        return chr(int(code, 16)) if code else _ESCAPED.get(letter, letter)

    return without_surrogates(_ESCAPE.sub(resolved, text))

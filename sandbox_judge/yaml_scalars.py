"""What a YAML scalar's text stands for, by either of two tables. A leaf.

`resolve_recipe` reads as the recipe format's own checker reads a field without a type: `yes` is a boolean,
`1_000` a number (found by experiment; pinned in `tests/corpus/judge_files.scalars.json`). `resolve_core` is
YAML 1.2's core schema, for settings. Neither gives NaN or an infinity: JSON has none.
"""

import re
from typing import Any, Final

# What Rust's `trim` takes for white space: Python's has four control characters more.
WHITE_SPACE: Final = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_RECIPE_WORDS: Final = {
    **dict.fromkeys(("y", "yes", "true", "on"), True),
    **dict.fromkeys(("n", "no", "false", "off"), False),
}
_CORE_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NOT_FINITE: Final = re.compile(r"[+-]?\.(?:inf|nan)", re.IGNORECASE | re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_RECIPE_INT: Final = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|0[oO][0-7]+(?:_[0-7]+)*|0[bB][01]+(?:_[01]+)*"
    r"|0|[1-9][0-9]*(?:_[0-9]+)*)"
)
_CORE_INT: Final = re.compile(r"[+-]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
# A number starts with one of these; most scalars do not, and need no regular expression.
_NUMBER_START: Final = frozenset("+-.0123456789")
# More digits than a 64-bit number has in any base: read as a float, never as a huge int.
_MAX_DIGITS: Final = 100


def is_decimal(text: str) -> bool:
    """Whether `text` is a number as typed float fields take it: no other base, no underscores."""
    return _FLOAT.fullmatch(text.strip(WHITE_SPACE)) is not None


def is_recipe_null(text: str) -> bool:
    """Whether the plain scalar `text` is null in a recipe: empty, `~`, or `null` in any case."""
    return text in ("", "~") or (len(text) == 4 and text.lower() == "null")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text} is beyond what a number can hold")
    return number


def _recipe_int(text: str) -> int | None:
    """A 64-bit integer (unsigned unless negative), or None."""
    if len(text) > _MAX_DIGITS or not _RECIPE_INT.fullmatch(text):
        return None
    number = int(text.lstrip("+-").replace("_", ""), 0)
    if text[0] == "-":
        return -number if number <= 1 << 63 else None
    return number if number < 1 << 64 else None


def _recipe_tagged(text: str, tag: str) -> Any:
    trimmed = text.strip(WHITE_SPACE)
    value: Any = None
    if tag in ("!", "str"):
        return text
    if tag == "null":
        return None
    if tag == "bool":
        value = _RECIPE_WORDS.get(trimmed.lower())
    elif tag == "int":
        value = _recipe_int(trimmed)
    elif tag == "float" and _FLOAT.fullmatch(trimmed):
        value = _finite(trimmed)
    if value is None:
        raise ValueError(f"{text!r} is no value of the tag !!{tag}")
    return value


def resolve_recipe(text: str, plain: bool, tag: str | None) -> Any:
    """The JSON value of an untyped scalar in a recipe. `tag` is a core tag's name, `!`, or None.

    Raises ValueError with the reason where there is none.
    """
    if tag is not None:
        return _recipe_tagged(text, tag)
    if not plain:
        return text
    if is_recipe_null(text):
        return None
    trimmed = text.strip(WHITE_SPACE)
    if len(trimmed) <= 5 and (word := _RECIPE_WORDS.get(trimmed.lower())) is not None:
        return word
    if trimmed[:1] not in _NUMBER_START:
        return text
    number = _recipe_int(trimmed)
    if number is not None:
        return number
    if _FLOAT.fullmatch(trimmed):
        return _finite(trimmed)
    if _NOT_FINITE.fullmatch(trimmed):
        raise ValueError(f"{text} is not a finite number")
    return text


def resolve_core(text: str, plain: bool, tag: str | None) -> Any:
    """The JSON value of a scalar by YAML 1.2's core schema (section 10.3). Raises ValueError likewise."""
    if tag in ("!", "str") or (tag is None and not plain):
        return text
    if tag is not None:
        raise ValueError(f"the tag !!{tag} is not taken here: write the value itself")
    if text in _CORE_WORDS:
        return _CORE_WORDS[text]
    if text[:1] not in _NUMBER_START:
        return text
    if len(text) <= _MAX_DIGITS and _CORE_INT.fullmatch(text):
        return int(text, 0 if text[1:2] in ("o", "x") else 10)
    if _FLOAT.fullmatch(text):
        return _finite(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    return text

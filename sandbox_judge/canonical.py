"""Canonical JSON (`spec/conversation.md`): the bytes that every hash is taken of and every event is sent as.

Keys sorted, separators `,` and `:`, ASCII escapes, NaN and infinities refused, lone surrogates replaced by
U+FFFD first. The standard library's encoder is used because msgspec writes UTF-8, not ASCII escapes. A leaf.
"""

import hashlib
import json
import re
from typing import Any, Final

import msgspec

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Pairs of surrogates that a lenient decoder left apart are one character, not two faults.
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def without_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined and lone ones as U+FFFD; the same object if it has none."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    joined = _PAIR.sub(lambda m: m.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _SURROGATE.sub("�", joined)


def sanitised(value: Any) -> Any:
    """`value` (JSON built-ins, msgspec structs) as JSON built-ins without lone surrogates, in keys too."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {without_surrogates(str(k)): sanitised(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [sanitised(v) for v in value]
    if isinstance(value, msgspec.Struct):
        return sanitised(msgspec.to_builtins(value))
    return value


def canonical_json(value: Any) -> bytes:
    """The canonical bytes of `value`. Raises ValueError for NaN and infinities, TypeError for non-JSON."""
    return json.dumps(
        sanitised(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def sha256(data: bytes) -> str:
    """`sha256:` and the hex digest of `data`, the form that every hash has in an event."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"

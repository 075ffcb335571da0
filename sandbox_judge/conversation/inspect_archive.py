"""Inspect's `.eval` archives: a zip of a header and one JSON file a sample, opened within bounds. Pure.

Layout: github.com/UKGovernmentBEIS/inspect_ai, `log/_recorders/eval.py`.
"""

import re
from typing import Any, Final

from sandbox_judge.conversation.document import MAX_BYTES, Document, read_document
from sandbox_judge.conversation.model import Warning_
from sandbox_judge.conversation.zip_members import START, Member, ZipFault, members_of, unpacked
from sandbox_judge.errors import InputError

NAME: Final = "inspect_ai"

# Logs of a model's talk shrink 5 to 50 times; a bomb far more. Small ones may unpack to this much anyway.
_RATIO: Final = 200
_SMALL: Final = 64 << 20
_MAX_MEMBERS: Final = 100_000
_SAMPLES: Final = "samples/"
_HEADERS: Final = ("header.json", "_journal/start.json")
_SHOWN: Final = 5
_NAME_SHOWN: Final = 100
_DIGITS: Final = re.compile(r"([0-9]{1,18})")


def recognise_bytes(data: bytes) -> bool:
    return data.startswith(START)


def unpack(data: bytes) -> Document:
    """The log in an archive, as the one JSON document that Inspect would write. Raises InputError."""
    try:
        return _log(data, min(MAX_BYTES, max(_SMALL, _RATIO * len(data))))
    except ZipFault as fault:
        raise InputError(
            f"The archive cannot be read: {fault}.", remedy="Convert it: `inspect log convert --to json`."
        ) from fault


def _log(data: bytes, budget: int) -> Document:
    named = {member.name: member for member in members_of(data, at_most=_MAX_MEMBERS)}
    header = next((named[name] for name in _HEADERS if name in named), None)
    samples = sorted(
        (m for name, m in named.items() if name.startswith(_SAMPLES) and name.endswith(".json")), key=_order
    )
    if header is None:
        shown = ", ".join(repr(name[:_NAME_SHOWN]) for name in list(named)[:_SHOWN]) or "nothing"
        raise InputError(
            f"The archive is no Inspect log: it holds {shown}.",
            remedy="Give a conversation in JSON, or an .eval file.",
        )
    found: list[Any] = []
    warnings: dict[Warning_, None] = {}
    for member in (header, *samples):
        text = unpacked(data, member, at_most=budget)
        budget -= len(text)
        document = _parsed(member, text)
        found.append(document.value)
        warnings.update(dict.fromkeys(document.warnings))
    log = found[0] if isinstance(found[0], dict) else {}
    # A run that was killed has no header, and so no status.
    whole = {"status": "started", **log, "samples": found[1:]}
    return Document(values=(whole,), warnings=tuple(warnings))


def _parsed(member: Member, text: bytes) -> Document:
    try:
        return read_document(text)
    except InputError as fault:
        raise InputError(f"{member.name[:_NAME_SHOWN]!r} in the archive: {fault}") from fault


def _order(member: Member) -> tuple[int, list[tuple[int, int, str]]]:
    """By epoch, then sample id, numbers as numbers."""
    name, _, epoch = member.name.removesuffix(".json").rpartition("_epoch_")
    words = _DIGITS.split(name or epoch)
    key = [(0, int(word), "") if n % 2 else (1, 0, word) for n, word in enumerate(words)]
    return int(epoch) if re.fullmatch("[0-9]{1,9}", epoch) else 0, key

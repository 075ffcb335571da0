"""What an installation did: kept beside its shim, so that it can be taken out to the byte."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import msgspec


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A file that an installation wrote. `before` is base64 of its bytes, None where it was not there;
    `made` are folders that were made for it, the outermost first."""

    path: str
    before: str | None
    after: str
    own: bool
    made: list[str] = []


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What an installation did: everything that taking it out needs."""

    host: str
    scope: str
    project: str
    when: str
    version: str
    command: str
    files: list[Written]


def installed(path: str) -> Receipt | None:
    """The receipt at `path`, None where there is none that can be read."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Receipt)
    except (OSError, msgspec.MsgspecError):
        return None


def receipts(data: str) -> Iterator[Receipt]:
    """All installations of this user; `data` is our data folder."""
    folder = os.path.join(data, "hooks")
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(folder))
    for name in names:
        if name.endswith(".receipt.json") and (found := installed(os.path.join(folder, name))) is not None:
            yield found


def as_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt for programs, without what stood in files before."""
    found: dict[str, Any] = json.loads(msgspec.json.encode(receipt))
    found["files"] = [file["path"] for file in found["files"]]
    return found

"""What a judge can see of a file: its text, a picture, or why it is unseen.

Plain text is decoded here; formats of others are read in a child process with limits; pictures go as pictures
to models that take them. By the bytes first, then by the name.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec

from sandbox_judge.errors import MissingExtra
from sandbox_judge.rubric.contained import NotStarted, run_contained
from sandbox_judge.rubric.tree import Found

READ_S: Final = 30.0
_AT_ONCE: Final = 2
_MOST_TEXT_BYTES: Final = 16_000_000
MOST_PICTURE_BYTES: Final = 5 * 1024 * 1024

# ending: (reader beside this module, the library that it needs)
_READERS: Final[dict[str, tuple[str, str | None]]] = {
    ".pdf": ("pdf", "pypdf"),
    ".docx": ("word", "docx"),
    ".xlsx": ("sheet", "openpyxl"),
    ".xlsm": ("sheet", "openpyxl"),
    ".pptx": ("slides", "pptx"),
    ".ipynb": ("notebook", None),
}
_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_BOMS: Final = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `text` or `picture` (bytes and mime) is what can be seen; else `unseen` says why not."""

    path: str
    size: int
    kind: Literal["output", "context"] = "output"
    text: str | None = None
    picture: bytes | None = None
    mime: str = ""
    unseen: str = ""


async def documents_of(
    files: Sequence[Found], *, kind: Literal["output", "context"] = "output", deadline: float
) -> tuple[Document, ...]:
    """Every file as a document, in order. Raises MissingExtra where a library that a file needs is absent."""
    documents: dict[int, Document] = {}
    limiter = anyio.CapacityLimiter(_AT_ONCE)
    for found in files:
        _require(found)

    async def read(at: int, found: Found) -> None:
        async with limiter:
            documents[at] = await _document(found, kind, deadline)

    async with anyio.create_task_group() as group:
        for at, found in enumerate(files):
            group.start_soon(read, at, found)
    return tuple(documents[at] for at in range(len(files)))


def picture_mime(data: bytes) -> str:
    """The type of a picture by its first bytes; empty for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for start, mime in _PICTURES if data.startswith(start)), "")


def reader_of(found: Found) -> tuple[str, str | None] | None:
    if found.data.startswith(b"%PDF-"):
        return _READERS[".pdf"]
    return _READERS.get(Path(found.path).suffix.lower())


def _require(found: Found) -> None:
    reader = reader_of(found)
    if reader is not None and reader[1] is not None and find_spec(reader[1]) is None:
        raise MissingExtra(
            f"{found.path} needs the library {reader[1]} to be read, which is not installed.",
            remedy="Install it with: pip install 'sandbox-judge[rubric]'",
        )


async def _document(found: Found, kind: Literal["output", "context"], deadline: float) -> Document:
    document = Document(path=found.path, size=len(found.data), kind=kind)
    if mime := picture_mime(found.data):
        if len(found.data) > MOST_PICTURE_BYTES:
            return msgspec.structs.replace(document, unseen="a picture larger than 5 MiB")
        return msgspec.structs.replace(document, picture=found.data, mime=mime)
    reader = reader_of(found)
    if reader is None:
        text = plain_text(found.data)
        if text is None:
            return msgspec.structs.replace(document, unseen="binary data of no known format")
        return msgspec.structs.replace(document, text=text)
    text, why = await _read_in_child(reader[0], found.data, deadline)
    return msgspec.structs.replace(document, text=text, unseen=why)


def plain_text(data: bytes) -> str | None:
    """The text that `data` is, with `\\n` at the ends of lines; None for what is no text."""
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if b"\0" in data:
            return None
        text = data.decode("utf-8", "replace")
        if text.count("\ufffd") > len(text) // 20 + 1:
            # Old texts in a national encoding are mostly plain; what is mostly unreadable is no text.
            return None
    if "\0" in text:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


async def _read_in_child(reader: str, data: bytes, deadline: float) -> tuple[str | None, str]:
    module = f"sandbox_judge.rubric.readers.{reader}"
    until = min(deadline, anyio.current_time() + READ_S)
    try:
        ended = await run_contained(
            [sys.executable, "-I", "-m", module],
            env={"PATH": "/usr/bin:/bin"},
            cwd=Path("/"),
            deadline=until,
            stdin=data,
            most_output=_MOST_TEXT_BYTES,
        )
    except NotStarted as error:
        return None, f"its reader could not be started ({error})"
    if ended.timed_out:
        return None, "reading it took too long"
    if ended.code != 0:
        said = ended.errors.decode("utf-8", "replace").strip().splitlines()
        return None, f"it cannot be read ({said[-1][:200] if said else 'its reader crashed'})"
    return ended.output.decode("utf-8", "replace"), ""

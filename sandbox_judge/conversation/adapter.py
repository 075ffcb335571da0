"""What a format's adapter is: one module in `formats/` with these three names, listed in `detect.py`."""

from collections.abc import Iterable
from typing import Protocol

from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation


class Adapter(Protocol):
    """A conversation format. `recognise` is structural, cheap and never raises; `read` gives the document's
    conversations in order and raises InputError for what does not fit, naming the element."""

    @property
    def NAME(self) -> str: ...

    def recognise(self, document: Document, /) -> bool: ...

    def read(self, document: Document, /) -> Iterable[Conversation]: ...


class Archive(Protocol):
    """A container whose bytes are not JSON (a zip of logs): opened before anything is parsed."""

    @property
    def NAME(self) -> str: ...

    def recognise_bytes(self, data: bytes, /) -> bool: ...

    def unpack(self, data: bytes, /) -> Document: ...

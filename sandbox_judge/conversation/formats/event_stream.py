"""The text of a streamed answer (server-sent events) by itself, as recorders keep it beside its request.

Unpacked into the exchange that it is half of: the adapters of the providers know whose events they are.
"""

import re
from typing import Final

from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.exchange import stream_events
from sandbox_judge.errors import InputError

NAME: Final = "event_stream"

_START: Final = re.compile(rb"\s*(?:event:|data:\s*[\[{\"]|id:|retry:\s*\d|:[^\r\n]*[\r\n])")
_BOM: Final = b"\xef\xbb\xbf"


def recognise_bytes(data: bytes) -> bool:
    return _START.match(data.removeprefix(_BOM)) is not None


def unpack(data: bytes) -> Document:
    """The exchange whose response `data` is. Raises InputError where it holds no event."""
    events = list(stream_events(data.removeprefix(_BOM).decode("utf-8", "replace")))
    if not events:
        raise InputError(
            "The input is a stream of events, and none of them holds JSON.",
            remedy="Give the recorded stream whole, or the request with its response.",
        )
    return Document(values=({"request": {"messages": []}, "response": events},))

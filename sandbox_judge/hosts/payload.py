"""What a host hands over: one JSON value on stdin, or as the last argument; and what is in it. Standard
library only (`spec/hosts.md`, what every shim does, 3).

Hosts name the same things differently, and versions of one host do: every known name is looked for.
"""

import json
import os
import select
import time

PATIENCE_S = 2.0
MOST_BYTES = 16 << 20
_CHUNK = 1 << 18
_QUIET_S = 0.02

_EVENT = ("hook_event_name", "hookEventName", "hookName", "event_type", "event", "type")
_SESSION = (
    "session_id",
    "sessionId",
    "conversation_id",
    "conversationId",
    "thread-id",
    "thread_id",
    "taskId",
)
_TURN = ("turn_id", "turn-id", "generation_id", "turnId")
_TRANSCRIPT = ("transcript_path", "transcriptPath")
_LAST = ("last_assistant_message", "last-assistant-message", "prompt_response", "lastAssistantMessage")
_CWD = ("cwd", "working_dir", "workingDir")


class Fired:
    """A host's event, in our words. Empty texts where the payload says nothing."""

    def __init__(self, payload: dict[str, object]) -> None:
        self.event = _text(payload, _EVENT)
        self.session = _text(payload, _SESSION)
        self.turn = _text(payload, _TURN)
        self.transcript = _text(payload, _TRANSCRIPT)
        self.last_message = _text(payload, _LAST)
        self.cwd = _text(payload, _CWD) or _first_text(payload, ("workspace_roots", "workspaceRoots"))
        self.status = _text(payload, ("status",))
        self.from_cursor = isinstance(payload.get("cursor_version"), str)
        turn = payload.get("turn")  # Cline's
        if isinstance(turn, dict):
            self.last_message = self.last_message or _text(turn, ("outputText",))
            self.status = self.status or _text(turn, ("status",))


def read_stream(descriptor: int, *, patience_s: float = PATIENCE_S) -> bytes:
    """What stands on a descriptor: up to its end, or to the end of a whole JSON value, for some hosts leave
    stdin open; never longer than `patience_s` seconds. Raises OSError."""
    ends = time.monotonic() + patience_s
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    data = bytearray()
    tried = 0
    while len(data) <= MOST_BYTES:
        may_be_whole = len(data) > tried and data.rstrip().endswith((b"}", b"]"))
        wait_s = min(_QUIET_S, PATIENCE_S) if may_be_whole else patience_s
        wait_s = min(wait_s, max(0.0, ends - time.monotonic()))
        if poll.poll(wait_s * 1000):
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                break
            data += chunk
        elif may_be_whole and payload_of(bytes(data)) is None:
            tried = len(data)
        else:
            break
    return bytes(data)


def payload_of(data: bytes | str) -> dict[str, object] | None:
    """The object that a host handed over, None where there is none. A byte order mark is taken off, and what
    is no UTF-8 is replaced: the ids that are needed are plain."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    text = text.lstrip("\ufeff").strip()
    if not text or len(text) > MOST_BYTES:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(payload: dict[str, object], names: tuple[str, ...]) -> str:
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value:
            # Half a surrogate pair is JSON, but no text that could be written anywhere.
            return value.encode("utf-8", "replace").decode()
    return ""


def _first_text(payload: dict[str, object], names: tuple[str, ...]) -> str:
    for name in names:
        value = payload.get(name)
        if isinstance(value, list) and value and isinstance(value[0], str):
            return value[0].encode("utf-8", "replace").decode()
    return ""

"""The objects of OpenAI Assistants threads, gathered from wherever they were kept. Pure.

The API lists the newest first, and an object changes while a run goes on: the last copy of an id stands.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.parts import as_text, listed

KINDS: Final = ("thread.message", "thread.run", "thread.run.step")
_DELTAS: Final = ("thread.message.delta", "thread.run.step.delta")
_HOLDERS: Final = (
    "request",
    "response",
    "data",
    "thread",
    "messages",
    "additional_messages",
    "runs",
    "run",
    "steps",
    "run_steps",
    "assistant",
    "events",
)
_MAX_DEPTH: Final = 6
_LOOKED_AT: Final = 20


def holds_thread(value: Any, depth: int = _MAX_DEPTH) -> bool:
    """Is one of these objects here, or near the start of one of the places where they are kept?"""
    if isinstance(value, list):
        return depth > 0 and any(holds_thread(item, depth - 1) for item in value[:_LOOKED_AT])
    if not isinstance(value, dict):
        return False
    named = value.get("object")
    if isinstance(named, str) and (named in KINDS or named in _DELTAS):
        return True
    return depth > 0 and any(holds_thread(value[key], depth - 1) for key in _HOLDERS if key in value)


class Objects:
    """The objects found so far, and what stands beside them."""

    def __init__(self) -> None:
        self.by_id: dict[Any, dict[str, Any]] = {}
        # What of a message had arrived when its stream broke off, by message and block.
        self.pieces: dict[str, dict[int, list[str]]] = {}
        self.outputs: dict[str, Any] = {}
        self.feedback: list[Any] = []
        self.strange = 0
        self.more = False

    def take(self, value: Any, depth: int = _MAX_DEPTH) -> None:
        """Every object in `value`. What is none is counted in `strange`."""
        if isinstance(value, list) and depth > 0:
            for item in reversed(value) if _is_newest_first(value) else value:
                self.take(item, depth - 1)
        elif not isinstance(value, dict):
            self.strange += value is not None
        elif value.get("object") == "thread.message.delta":
            self._delta(value)
        elif value.get("object") in KINDS or value.get("object") == "assistant":
            self._object(value)
        elif "role" in value and "content" in value:
            # A message on its way into a thread has no id yet.
            self._object({"object": "thread.message", **value})
        elif depth > 0:
            self._beside(value)
            for key in _HOLDERS:
                if isinstance(value.get(key), dict | list):
                    self.take(value[key], depth - 1)

    def threads(self) -> list[str]:
        """The ids of the threads that these objects belong to, in order."""
        return list(
            dict.fromkeys(o["thread_id"] for o in self.by_id.values() if isinstance(o.get("thread_id"), str))
        )

    def of(self, kind: str, thread: str | None) -> Iterator[dict[str, Any]]:
        """The objects of a kind in a thread (None: in any)."""
        for value in self.by_id.values():
            if value["object"] == kind and (thread is None or value.get("thread_id") in (thread, None)):
                yield value

    def _object(self, value: dict[str, Any]) -> None:
        key = value.get("id")
        self.by_id[key if isinstance(key, str) else len(self.by_id)] = value

    def _beside(self, value: dict[str, Any]) -> None:
        self.more = self.more or value.get("has_more") is True
        self.feedback.extend(listed(value.get("feedback")))
        for output in listed(value.get("tool_outputs")):
            if isinstance(output, dict) and isinstance(id := output.get("tool_call_id"), str):
                self.outputs[id] = output.get("output")

    def _delta(self, value: dict[str, Any]) -> None:
        delta, id = value.get("delta"), as_text(value.get("id"))
        for block in listed(delta.get("content")) if isinstance(delta, dict) else ():
            text = block.get("text") if isinstance(block, dict) else None
            if isinstance(text, dict):
                index = block.get("index")
                blocks = self.pieces.setdefault(id, {})
                blocks.setdefault(index if isinstance(index, int) else 0, []).append(
                    as_text(text.get("value"))
                )


def _is_newest_first(values: list[Any]) -> bool:
    times = [v["created_at"] for v in values if isinstance(v, dict) and _is_time(v.get("created_at"))]
    return len(times) > 1 and times[0] > times[-1]


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def time_of(value: dict[str, Any]) -> float | None:
    """When an object came to be, in seconds since 1970, or None where it does not say."""
    made = value.get("created_at")
    return float(made) if isinstance(made, int | float) and _is_time(made) else None

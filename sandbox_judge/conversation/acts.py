"""What was said and done in one call of a model, before it has a place in a conversation.

Formats that record calls one by one (spans, runs, observations) repeat the history in each. Their readers
give acts, which can be compared; `history` puts them in order, each once, and `emit` makes entries of them.
Pure.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Any, Final

import msgspec

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import json_text, parse_json
from sandbox_judge.conversation.model import Media, Part, Reasoning, Refusal, Text, Unknown


class Said(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message. `marks` say what happened to the turn (`truncated`)."""

    role: str
    parts: tuple[Part, ...]
    name: Any = None
    marks: tuple[str, ...] = ()
    time: Any = None


class Called(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: str
    arguments: Any = None
    id: str | None = None
    time: Any = None


class Answered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a call, which `id` names, or else the earliest unanswered call of `name`."""

    parts: tuple[Part, ...]
    id: str | None = None
    name: str | None = None
    error: bool = False
    time: Any = None


Act = Said | Called | Answered

# Labels of placeholders that say something known, so that no warning is due.
QUIET: Final = ("source", "data-")
_ROLES: Final = {
    "developer": "system",
    "human": "user",
    "model": "assistant",
    "ai": "assistant",
    "gpt": "assistant",
}


def same_role(role: str) -> str:
    """The role under which acts are compared: `developer` and `system` are one."""
    word = role.strip().lower()
    return _ROLES.get(word, word)


def key_of(act: Act) -> Hashable | None:
    """What makes two acts the same, however they were written down: white space, ids and hidden reasoning do
    not count. None for an act that a later record of the history may leave out (reasoning, nothing)."""
    if isinstance(act, Called):
        return ("call", act.name, arguments_key(act.arguments))
    words = "".join(filter(None, map(_words, act.parts)))
    if isinstance(act, Answered):
        return ("result", words)
    return (same_role(act.role), words) if words else None


def arguments_key(arguments: Any) -> str:
    """Arguments as text for comparing: JSON text and JSON value are the same, so are none and `{}`."""
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments)
        except ValueError:
            return "".join(arguments.split())
    return json_text(arguments, sort_keys=True) if arguments else ""


def _words(part: Part) -> str:
    if isinstance(part, Text | Refusal):
        return "".join(part.text.split())
    if isinstance(part, Media):
        return f"\0{part.media}"
    if isinstance(part, Unknown):
        return f"\0{part.label}\0{part.text or ''}"
    return ""


def is_hidden(act: Act) -> bool:
    """Whether the act is reasoning alone, which is no part of what a history repeats."""
    return isinstance(act, Said) and bool(act.parts) and all(isinstance(p, Reasoning) for p in act.parts)


def hidden_key(act: Act) -> Hashable:
    """The key of an act that `key_of` gives none."""
    return ("hidden", *(part.text for part in getattr(act, "parts", ()) if isinstance(part, Reasoning)))


class Emitter:
    """Makes entries of acts. Results find their calls by id, or by name where the record keeps no ids."""

    def __init__(self, build: ConversationBuilder) -> None:
        self._build = build
        # Calls whose result has not come: by id (the latest first, as the builder), by name, and in order.
        self._by_id: dict[str, list[int]] = {}
        self._by_name: dict[str, deque[int]] = {}
        self._waiting: deque[int] = deque()
        self._answered: set[int] = set()
        self._call_ids: dict[int, str] = {}

    def emit(self, acts: Iterable[Act], *, agent: str | None = None) -> None:
        for act in acts:
            self.add(act, agent=agent)

    def add(self, act: Act, *, agent: str | None = None) -> int:
        """The entry of `act`; gives its number."""
        if isinstance(act, Called):
            number = self._build.tool_call(act.name, act.arguments, id=act.id, agent=agent, time=act.time)
            if act.id:
                self._by_id.setdefault(act.id, []).append(number)
                self._call_ids[number] = act.id
            self._by_name.setdefault(act.name, deque()).append(number)
            self._waiting.append(number)
            return number
        self._warn(act.parts)
        if isinstance(act, Answered):
            return self._answer(act, agent)
        parts: list[Part] = [*act.parts, *(self._build.mark(mark) for mark in act.marks)]
        return self._build.message(act.role, parts, name=act.name, agent=agent, time=act.time)

    def _answer(self, act: Answered, agent: str | None) -> int:
        own = self._by_id.get(act.id or "")
        while own and own[-1] in self._answered:
            own.pop()
        call = own.pop() if own else self._earliest(act)
        if call is not None:
            self._answered.add(call)
        return self._build.tool_result(
            act.parts, id=act.id, name=act.name, call=call, error=act.error, agent=agent, time=act.time
        )

    def _earliest(self, act: Answered) -> int | None:
        """The earliest unanswered call that a result without a known id may answer. A result with an id
        answers only a call without one."""
        queue = self._by_name.get(act.name) if act.name else self._waiting
        while queue and queue[0] in self._answered:
            queue.popleft()
        if not queue or (act.id and queue[0] in self._call_ids):
            return None
        return queue[0]

    def _warn(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if isinstance(part, Unknown) and not part.label.startswith(QUIET):
                self._build.warn(
                    "unknown_part",
                    f"a part of type {part.label!r} is not known",
                    entry=self._build.next_number,
                )

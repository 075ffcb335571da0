"""Where entries of a conversation are made: numbering, roles, matching of results, warnings.

Adapters call this and `parts`, so that each knows only the shape of its format and all agree on the rest
(`spec/conversation.md`). Nothing is dropped silently: what is not known becomes an `Unknown` part with a
warning. Pure.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sandbox_judge.conversation.document import parse_json, too_deep
from sandbox_judge.conversation.feedback import feedback_of, iso_time, merged
from sandbox_judge.conversation.model import (
    CONTENT_MISSING,
    SCHEMA,
    Conversation,
    Entry,
    Feedback,
    Message,
    Part,
    Role,
    Status,
    Text,
    ToolCall,
    ToolResult,
    Unknown,
    Warning_,
)
from sandbox_judge.conversation.parts import as_text, unknown

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "gpt": "assistant",
}
_STATUSES: Final[Mapping[str, Status]] = {
    "completed": "completed",
    "failed": "failed",
    "error": "failed",
    "errored": "failed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "aborted": "cancelled",
}


def status_of(word: Any) -> tuple[Status, str | None, Warning_ | None]:
    """A status as hosts write it: the status, the word where it is another one, and then a warning."""
    if word is None:
        return "completed", None, None
    said = as_text(word).strip()
    if (status := _STATUSES.get(said.lower())) is not None:
        return status, None, None
    warning = Warning_(code="status_unknown", message=f"status {said!r} is not known and was read as failed")
    return "failed", said, warning


class Turn:
    """One message on its way into a conversation: what is said between calls and results becomes messages of
    their own, so that the order stays. `said` stands before all else."""

    def __init__(
        self,
        build: "ConversationBuilder",
        role: Any,
        said: Iterable[Part] = (),
        *,
        name: Any = None,
        agent: Any = None,
        time: Any = None,
    ) -> None:
        self._build, self._role, self._said = build, role, list(said)
        self._name, self._agent, self._time = name, agent, time
        # Whether anything stands for the message already: one without any part is a message still.
        self.acted = False

    def say(self, parts: Iterable[Part]) -> None:
        self._said.extend(parts)

    def act(self) -> None:
        """A call or a result comes next: what was said before it is entered before it."""
        if self._said:
            self._enter()
        self.acted = True

    def end(self, mark: str | None = None) -> None:
        """Enter what is left; `mark` says what happened to the turn (`truncated`)."""
        if mark is not None:
            self._said.append(self._build.mark(mark))
        if self._said or not self.acted:
            self._enter()

    def _enter(self) -> None:
        said, self._said = self._said, []
        self._build.message(self._role, said, name=self._name, agent=self._agent, time=self._time)


class ConversationBuilder:
    """Builds one conversation, entry by entry, in order. Every adding method returns the entry's number."""

    def __init__(self, source_format: str, *, id: Any = None) -> None:
        self.source_format = source_format
        self.id = None if id is None else as_text(id) or None
        self._entries: list[Entry] = []
        self._feedback: list[Feedback] = []
        self._warnings: list[Warning_] = []
        self._status: Status = "completed"
        self._detail: str | None = None
        # Where to look for the call that a result answers. Answered ones are passed over when met, so that
        # matching stays linear whatever the order of results.
        self._answered: set[int] = set()
        self._by_id: dict[str, list[int]] = {}
        self._by_name: dict[str, deque[int]] = {}
        self._without_id: deque[int] = deque()

    @property
    def next_number(self) -> int:
        """The number that the next entry will have."""
        return len(self._entries) + 1

    def warn(self, code: str, message: str, *, entry: int | None = None) -> None:
        self._warnings.append(Warning_(code=code, message=message, entry=entry))

    def missing(self, message: str) -> None:
        """Say that content which the format names was not given: judges then yield `missing_context`."""
        self.warn(CONTENT_MISSING, message)

    def status(self, word: Any) -> None:
        """The conversation's status, in the host's word; one that is not known is failed, with a warning."""
        self._status, self._detail, warning = status_of(word)
        if warning is not None:
            self._warnings.append(warning)

    def failed(self, detail: Any = None) -> None:
        """The run ended in an error, told by `detail`."""
        self._status, self._detail = "failed", as_text(detail) or None

    def cancelled(self, detail: Any = None) -> None:
        self._status, self._detail = "cancelled", as_text(detail) or None

    def unknown(self, label: Any, value: Any = None) -> Unknown:
        """A part that the format's adapter does not know, kept; the warning names the entry made next."""
        part = unknown(label, value)
        self.warn("unknown_part", f"a part of type {part.label!r} is not known", entry=self.next_number)
        return part

    def mark(self, label: str, text: Any = None) -> Unknown:
        """A part that only says what happened to a turn (`truncated`, `content_filter`, `interrupted`)."""
        self.warn("turn_marked", f"the turn is marked {label!r}", entry=self.next_number)
        return Unknown(label=label, text=as_text(text) or None)

    def message(
        self,
        role: Any,
        parts: str | Iterable[Part],
        *,
        name: Any = None,
        agent: Any = None,
        time: Any = None,
    ) -> int:
        """A message. A role that is not known is read as user and kept in `name`, with a warning."""
        n = len(self._entries) + 1
        known = _ROLES.get(role) if isinstance(role, str) else None
        if known is None:
            known, name = self._role(role, name, n)
        self._entries.append(
            Message(
                n=n,
                role=known,
                parts=(Text(text=parts),) if isinstance(parts, str) else tuple(parts),
                name=None if name is None else as_text(name) or None,
                agent=None if agent is None else as_text(agent) or None,
                time=None if time is None else iso_time(time),
            )
        )
        return n

    def tool_call(
        self, name: Any, arguments: Any, *, id: Any = None, agent: Any = None, time: Any = None
    ) -> int:
        """A call. Arguments given as text are parsed; what is not JSON is kept as text, with a warning."""
        n = len(self._entries) + 1
        args, args_text = self._arguments(arguments, n)
        called = as_text(name)
        if not called:
            called = "unnamed"
            self.warn("call_without_name", "a tool call has no name", entry=n)
        key = None if id is None else as_text(id) or None
        self._entries.append(
            ToolCall(
                n=n,
                name=called,
                args=args,
                id=key,
                args_text=args_text,
                agent=None if agent is None else as_text(agent) or None,
                time=None if time is None else iso_time(time),
            )
        )
        if key is not None:
            self._by_id.setdefault(key, []).append(n)
        else:
            self._by_name.setdefault(called, deque()).append(n)
            self._without_id.append(n)
        return n

    def tool_result(
        self,
        parts: str | Iterable[Part],
        *,
        id: Any = None,
        name: Any = None,
        call: int | None = None,
        error: bool = False,
        agent: Any = None,
        time: Any = None,
    ) -> int:
        """A result. Its call is the entry `call`, else the nearest earlier unanswered call of that id;
        without an id the earliest unanswered one of that name. Else an orphan, with a warning."""
        n = len(self._entries) + 1
        key = None if id is None else as_text(id) or None
        found = self._match(key, name) if call is None else call if self._is_open(call) else None
        if found is not None:
            self._answered.add(found)
        else:
            whose = f"id {key!r}" if key else f"name {name!r}" if name else "no id"
            self.warn("orphan_result", f"a tool result ({whose}) answers no open call", entry=n)
        self._entries.append(
            ToolResult(
                n=n,
                call=found,
                status="error" if error else "ok",
                parts=(Text(text=parts),) if isinstance(parts, str) else tuple(parts),
                id=key,
                agent=None if agent is None else as_text(agent) or None,
                time=None if time is None else iso_time(time),
            )
        )
        return n

    def feedback(self, value: Any) -> None:
        """Feedback, which `build` puts in its place by time (without a time: at the end)."""
        item, strange = feedback_of(value)
        if strange:
            self.warn("feedback_key", f"feedback has unknown keys, kept as properties: {', '.join(strange)}")
        self._feedback.append(item)

    def build(self) -> Conversation:
        entries, warnings = tuple(self._entries), self._warnings
        if self._feedback:
            entries, numbers = merged(entries, self._feedback)
            warnings = [
                w if w.entry is None else Warning_(code=w.code, message=w.message, entry=numbers.get(w.entry))
                for w in warnings
            ]
        return Conversation(
            schema=SCHEMA,
            id=self.id,
            status=self._status,
            status_detail=self._detail,
            source_format=self.source_format,
            entries=entries,
            warnings=tuple(warnings),
        )

    def _role(self, role: Any, name: Any, n: int) -> tuple[Role, Any]:
        said = as_text(role).strip()
        if (known := _ROLES.get(said.lower())) is not None:
            return known, name
        self.warn("role_unknown", f"role {said!r} is not known and was read as user", entry=n)
        given = as_text(name)
        return "user", f"{said} {given}" if given and given != said else said

    def _arguments(self, value: Any, n: int) -> tuple[Any, str | None]:
        if isinstance(value, str):
            if not value.strip():
                return None, None
            try:
                parsed = parse_json(value)
            except ValueError as fault:
                self.warn("arguments_not_json", f"the arguments are not JSON ({fault})", entry=n)
                return None, value
            value, text = parsed, value
        else:
            text = None
        if too_deep(value):
            self.warn(
                "arguments_too_deep", "the arguments are nested too deeply and were kept as text", entry=n
            )
            return None, text if text is not None else as_text(value)
        return value, None

    def _match(self, key: str | None, name: Any) -> int | None:
        if key is not None:
            calls = self._by_id.get(key, [])
            while calls:
                if (number := calls.pop()) not in self._answered:
                    return number
            return None
        waiting = self._by_name.get(as_text(name)) if name else self._without_id
        while waiting:
            if (number := waiting.popleft()) not in self._answered:
                return number
        return None

    def _is_open(self, number: int) -> bool:
        called = 0 < number <= len(self._entries) and isinstance(self._entries[number - 1], ToolCall)
        return called and number not in self._answered

"""ATIF, Harbor's Agent Trajectory Interchange Format (v1.0 to v1.7): one trajectory, or several together.

Trajectories of subagents that are given too (in `subagent_trajectories`, or beside their parent) stand where
the parent's step names them, marked with their agent; a continuation joins the trajectory that it continues,
without the context that it copied. Shapes: github.com/laude-institute/harbor, docs/rfcs/0001.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, listed, media
from sandbox_judge.conversation.rows import alike, rows_of
from sandbox_judge.errors import InputError

NAME: Final = "atif"

Trajectory = dict[str, Any]

_SOURCES: Final = ("system", "user", "agent")
_SUBAGENT: Final = "subagent"
# Subagents of subagents end somewhere, or stay references.
_MAX_DEPTH: Final = 16


def recognise(document: Document) -> bool:
    first = document.values[0]
    if not document.many and isinstance(first, list):
        return bool(first) and _is_trajectory(first[0])
    return _is_trajectory(first) or (not document.many and _is_family(first))


def read(document: Document) -> Iterator[Conversation]:
    found = list(_trajectories(document))
    known = _by_reference(found)
    inner = {id(child) for t in found for child in _children(t, known)}
    continued = _continuations(found)
    joined = {id(later) for later in continued.values()}
    entered: set[int] = set()
    tops = [t for t in found if id(t) not in inner and id(t) not in joined]
    # What no top leads to (references in a circle, or too deep) is read by itself, after them.
    for trajectory in (*tops, *found):
        if id(trajectory) not in entered:
            yield _Reader(trajectory, known, continued, entered).conversation()


def _is_trajectory(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return False
    version = value.get("schema_version")
    if isinstance(version, str) and version.startswith("ATIF"):
        return True
    step = next(iter(value["steps"]), None)
    return (
        isinstance(value.get("agent"), dict)
        and isinstance(step, dict)
        and step.get("source") in _SOURCES
        and "step_id" in step
    )


def _is_family(value: Any) -> bool:
    """Trajectories under names (`parent`, `child`)."""
    return isinstance(value, dict) and bool(value) and all(_is_trajectory(t) for t in value.values())


def _trajectories(document: Document) -> Iterator[Trajectory]:
    """Every trajectory at the top of the document. Raises InputError at what is none."""
    first = document.values[0]
    rows = rows_of(document)
    if not document.many and not isinstance(first, list) and not _is_trajectory(first):
        rows = tuple(first.values())
    for _, row in alike(document, rows, _is_trajectory, "ATIF trajectory"):
        yield row


def _by_reference(found: list[Trajectory]) -> dict[str, Trajectory]:
    """The trajectories by what a reference may call them: their ids."""
    known: dict[str, Trajectory] = {}
    waiting = list(reversed(found))
    while waiting:
        trajectory = waiting.pop()
        for key in ("trajectory_id", "session_id"):
            if isinstance(name := trajectory.get(key), str):
                known.setdefault(name, trajectory)
        waiting.extend(
            child for child in listed(trajectory.get("subagent_trajectories")) if _is_trajectory(child)
        )
    return known


def _children(trajectory: Trajectory, known: Mapping[str, Trajectory]) -> Iterator[Trajectory]:
    for step in trajectory["steps"]:
        for result in _results(step):
            for reference in listed(result.get("subagent_trajectory_ref")):
                child = _resolved(reference, known)
                if child is not None and child is not trajectory:
                    yield child


def _continuations(found: list[Trajectory]) -> dict[int, Trajectory]:
    """The continuation of each trajectory that names one: by its session's id with `-cont-N` added, else the
    next one that says which continuation it is."""
    out: dict[int, Trajectory] = {}
    later: dict[str, Trajectory] = {}
    for trajectory in reversed(found):
        base, _, number = as_text(trajectory.get("session_id")).partition("-cont-")
        if trajectory.get("continued_trajectory_ref") is not None and base in later:
            out[id(trajectory)] = later[base]
        if base and (number or _index(trajectory)):
            later[base] = trajectory
    return out


def _index(trajectory: Trajectory) -> Any:
    agent = trajectory.get("agent")
    extra = agent.get("extra") if isinstance(agent, dict) else None
    return extra.get("continuation_index") if isinstance(extra, dict) else None


def _resolved(reference: Any, known: Mapping[str, Trajectory]) -> Trajectory | None:
    if isinstance(reference, str):
        return known.get(reference)
    if not isinstance(reference, dict):
        return None
    names = (reference.get(key) for key in ("trajectory_id", "session_id"))
    return next((known[name] for name in names if isinstance(name, str) and name in known), None)


class _Reader:
    """One trajectory on its way into a conversation, with its continuation and its subagents."""

    def __init__(
        self,
        trajectory: Trajectory,
        known: Mapping[str, Trajectory],
        continued: Mapping[int, Trajectory],
        entered: set[int],
    ) -> None:
        self.top, self.known, self.continued = trajectory, known, continued
        name = trajectory.get("session_id", trajectory.get("trajectory_id"))
        self.build = ConversationBuilder(NAME, id=name)
        # What was said, to know the context that a subagent or a continuation copied.
        self.said: set[tuple[str, str]] = set()
        self.copied = 0
        self.entered = entered

    def conversation(self) -> Conversation:
        agent = self.top.get("agent")
        extra = agent.get("extra") if isinstance(agent, dict) else None
        alone = isinstance(extra, dict) and extra.get("parent_session_id") is not None
        trajectory: Trajectory | None = self.top
        while trajectory is not None and id(trajectory) not in self.entered:
            self._steps(trajectory, _agent_name(trajectory) if alone else None, 0)
            ref = trajectory.get("continued_trajectory_ref")
            following = self.continued.get(id(trajectory))
            if ref is not None and following is None:
                self.build.missing(f"the trajectory goes on in {as_text(ref)[:200]!r}, which was not given")
            trajectory = following
        if self.copied:
            self.build.warn("copied_context", f"{self.copied} steps repeat earlier ones and were left out")
        return self.build.build()

    def _steps(self, trajectory: Trajectory, agent: str | None, depth: int) -> None:
        self.entered.add(id(trajectory))
        nested = depth > 0 or trajectory is not self.top
        for number, step in enumerate(trajectory["steps"], 1):
            if not isinstance(step, dict):
                raise InputError(f"Step {number} of the trajectory is no object.", where=f"step {number}")
            key = (as_text(step.get("source")), as_text(step.get("message")))
            if nested and step.get("is_copied_context") is True and key in self.said:
                self.copied += 1
                continue
            self.said.add(key)
            self._step(step, agent, depth)
        for child in listed(trajectory.get("subagent_trajectories")):
            # One that no step named.
            if not _is_trajectory(child):
                self.build.message("system", [self.build.unknown(_SUBAGENT, child)], agent=agent)
            elif id(child) not in self.entered:
                self._subagent(child, agent, depth)

    def _step(self, step: dict[str, Any], agent: str | None, depth: int) -> None:
        build, time = self.build, step.get("timestamp")
        source = step.get("source")
        parts: list[Part] = []
        if isinstance(thought := step.get("reasoning_content"), str) and thought:
            parts.append(Reasoning(text=thought))
        parts.extend(_content(build, step.get("message")))
        calls = [call for call in listed(step.get("tool_calls")) if isinstance(call, dict)]
        results = list(_results(step))
        if parts or not (calls or results):
            build.message("assistant" if source == "agent" else source, parts, agent=agent, time=time)
        for call in calls:
            build.tool_call(
                call.get("function_name"),
                call.get("arguments"),
                id=call.get("tool_call_id"),
                agent=agent,
                time=time,
            )
        for index, result in enumerate(results):
            self._result(result, _call_of(result, index, len(results), calls), agent, time, depth)

    def _result(
        self, result: dict[str, Any], call: dict[str, Any] | None, agent: str | None, time: Any, depth: int
    ) -> None:
        build = self.build
        references = listed(result.get("subagent_trajectory_ref"))
        for reference in references:
            self._subagent(reference, agent, depth)
        parts = _content(build, result.get("content"))
        if references and not parts:
            return
        extra = result.get("extra")
        call = call or {}
        build.tool_result(
            parts,
            id=result.get("source_call_id") or call.get("tool_call_id"),
            name=call.get("function_name"),
            error=isinstance(extra, dict) and extra.get("is_error") is True,
            agent=agent,
            time=time,
        )

    def _subagent(self, reference: Any, agent: str | None, depth: int) -> None:
        """A subagent's turns, given the trajectory or a reference to it; else a placeholder."""
        child = reference if _is_trajectory(reference) else _resolved(reference, self.known)
        if child is not None and id(child) not in self.entered and depth < _MAX_DEPTH:
            self._steps(child, _agent_name(child), depth + 1)
            return
        told = as_text(reference)
        where = "was not given" if child is None else "stands elsewhere"
        self.build.warn(
            "subagent_not_given",
            f"a subagent's trajectory {where}: {told[:200]}",
            entry=self.build.next_number,
        )
        self.build.message("system", [Unknown(label=_SUBAGENT, text=told)], agent=agent)


def _call_of(
    result: dict[str, Any], index: int, count: int, calls: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """The call of its step that a result without an id answers: the only one, or the one of its place."""
    if result.get("source_call_id") is not None or not calls:
        return None
    if len(calls) == 1:
        return calls[0] if index == 0 else None
    return calls[index] if len(calls) == count else None


def _results(step: Any) -> Iterator[dict[str, Any]]:
    observation = step.get("observation") if isinstance(step, dict) else None
    results = observation.get("results") if isinstance(observation, dict) else None
    for result in listed(results):
        yield result if isinstance(result, dict) else {"content": result}


def _content(build: ConversationBuilder, content: Any) -> list[Part]:
    if isinstance(content, str):
        return [Text(text=content)] if content else []
    return [part for block in listed(content) for part in _part(build, block)]


def _part(build: ConversationBuilder, block: Any) -> Iterator[Part]:
    if isinstance(block, str):
        yield Text(text=block)
    elif isinstance(block, dict) and block.get("type") == "text":
        yield Text(text=as_text(block.get("text")))
    elif isinstance(block, dict) and isinstance(source := block.get("source"), dict):
        kind = block.get("type")
        yield media(
            kind if isinstance(kind, str) else None,
            mime=source.get("media_type"),
            base64=source.get("data"),
            url=source.get("path", source.get("url")),
        )
    elif block is not None:
        yield build.unknown(block.get("type") if isinstance(block, dict) else "part", block)


def _agent_name(trajectory: Trajectory) -> str:
    agent = trajectory.get("agent")
    return (as_text(agent.get("name")) if isinstance(agent, dict) else "") or _SUBAGENT

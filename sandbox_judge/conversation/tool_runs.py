"""Tools' own records of having run, laid beside the calls and results that messages hold: what no message
holds is put where it happened. Pure."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sandbox_judge.conversation.acts import Act, Answered, Called, arguments_key
from sandbox_judge.conversation.model import Part, Text


class ToolRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool's own record of having run. `result` is None where it holds none."""

    name: str
    arguments: Any = None
    result: tuple[Part, ...] | None = None
    id: str | None = None
    error: str | None = None
    start: float | None = None
    end: float | None = None
    agent: str | None = None


class Placed(msgspec.Struct, kw_only=True, gc=False):
    act: Act
    agent: str | None
    time: float | None


class Told:
    """The acts in order, and what tools' records add between them."""

    def __init__(self, placed: list[Placed]) -> None:
        self._placed = placed
        self._after: dict[int, list[Placed]] = {}
        self._times: list[float] = []
        latest = 0.0
        for item in placed:
            latest = max(latest, item.time or 0.0)
            self._times.append(latest)
        self._by_id: dict[str, deque[int]] = {}
        self._by_words: dict[tuple[str, str], deque[int]] = {}
        self._by_name: dict[str, deque[int]] = {}
        self._answers = _answers(placed)
        self._taken: set[int] = set()
        for index, item in enumerate(placed):
            if isinstance(act := item.act, Called):
                if act.id:
                    self._by_id.setdefault(act.id, deque()).append(index)
                self._by_words.setdefault((act.name, arguments_key(act.arguments)), deque()).append(index)
                self._by_name.setdefault(act.name, deque()).append(index)

    def add(self, run: ToolRun) -> None:
        index = self._call_of(run)
        if index is None:
            at = bisect_left(self._times, run.start) if run.start is not None else len(self._placed)
            self._put(at, run, Called(name=run.name, arguments=run.arguments, id=run.id))
            self._put_result(at, run)
            return
        self._taken.add(index)
        answer = self._answers.get(index)
        if answer is None:
            at = bisect_left(self._times, run.end) if run.end is not None else 0
            self._put_result(max(index + 1, at), run)
        elif run.error is not None:
            item = self._placed[answer]
            if isinstance(item.act, Answered) and not item.act.error:
                item.act = msgspec.structs.replace(item.act, error=True)

    def items(self) -> Iterable[Placed]:
        for index, item in enumerate(self._placed):
            yield from self._after.get(index, ())
            yield item
        yield from self._after.get(len(self._placed), ())

    def _call_of(self, run: ToolRun) -> int | None:
        for queue in (
            self._by_id.get(run.id or ""),
            self._by_words.get((run.name, arguments_key(run.arguments))),
            self._by_name.get(run.name) if not run.id or run.id not in self._by_id else None,
        ):
            while queue and queue[0] in self._taken:
                queue.popleft()
            if queue:
                return queue[0]
        return None

    def _put(self, at: int, run: ToolRun, act: Act) -> None:
        self._after.setdefault(at, []).append(Placed(act=act, agent=run.agent, time=run.start))

    def _put_result(self, at: int, run: ToolRun) -> None:
        parts = run.result
        if run.error is not None and not parts:
            parts = (Text(text=run.error),)
        if parts is not None:
            failed = run.error is not None
            self._put(at, run, Answered(parts=parts, id=run.id, name=run.name, error=failed))


def _answers(placed: Sequence[Placed]) -> dict[int, int]:
    """Which act answers which call, by index, as the entries will have it."""
    by_id: dict[str, list[int]] = {}
    by_name: dict[str, deque[int]] = {}
    waiting: deque[int] = deque()
    answers: dict[int, int] = {}
    for index, item in enumerate(placed):
        act = item.act
        if isinstance(act, Called):
            if act.id:
                by_id.setdefault(act.id, []).append(index)
            by_name.setdefault(act.name, deque()).append(index)
            waiting.append(index)
        elif isinstance(act, Answered):
            own = by_id.get(act.id or "")
            queue = by_name.get(act.name) if act.name else waiting
            while own and own[-1] in answers:
                own.pop()
            while queue and queue[0] in answers:
                queue.popleft()
            if own:
                answers[own.pop()] = index
            elif queue and not (act.id and _id_of(placed[queue[0]].act)):
                answers[queue[0]] = index
    return answers


def _id_of(act: Act) -> str | None:
    return act.id if isinstance(act, Called) else None

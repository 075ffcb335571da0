"""The history that several calls of a model repeat, put together again: every act once, in its place.

Each call records what it was given and what it answered. The first call's input begins the conversation, each
later one repeats what went before and adds to it. Calls that repeat all of it (the usual case) are followed
along a tree of prefixes, one step an act. Where the input only holds the end of the history (a window), or
only what is new, or was edited, what already stands is found by its words, in order. Records around calls
(an agent's run with the input and output of the whole) add only what no call within them shows. Tools' own
records add the calls and results that no message holds. Pure; linear in the size of the input.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from sandbox_judge.conversation.acts import (
    Act,
    Answered,
    Called,
    Emitter,
    Said,
    hidden_key,
    is_hidden,
    key_of,
    same_role,
)
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.model import Reasoning
from sandbox_judge.conversation.tool_runs import Placed, Told, ToolRun

# How many earlier places of the first act of a window are tried.
_ANCHORS: Final = 4
_SEARCHES: Final = 50


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call: what went in, what came out. Times are seconds since the epoch."""

    inputs: Sequence[Act]
    outputs: Sequence[Act]
    start: float | None = None
    end: float | None = None
    agent: str | None = None
    error: str | None = None


class _Node:
    """A place in the tree of histories. `tip`: a call's record ends here, so that what follows is new."""

    __slots__ = ("index", "next", "tip", "whole")

    def __init__(self, index: int) -> None:
        self.index = index
        self.next: dict[Hashable, _Node] = {}
        self.tip = False
        # When the last call with exactly this input ended; None where none has.
        self.whole: float | None = None


class _Given:
    """A call's input: the acts that a history repeats, and the hidden reasoning between them."""

    __slots__ = ("_hidden", "acts", "call")

    def __init__(self, call: ModelCall) -> None:
        self.call = call
        self.acts: list[tuple[Act, Hashable]] = []
        self._hidden: dict[int, list[Act]] = {}
        for act in call.inputs:
            if (key := key_of(act)) is not None:
                self.acts.append((act, key))
            elif is_hidden(act):
                self._hidden.setdefault(len(self.acts), []).append(act)

    def hidden_before(self, position: int, known: set[Hashable]) -> Iterator[Act]:
        """The reasoning before the act of `position` that is not `known` yet."""
        for act in self._hidden.get(position, ()):
            if (key := hidden_key(act)) not in known:
                known.add(key)
                yield act


class History:
    """Collects calls, records around them and tools' records in time order, then tells them as entries."""

    def __init__(self) -> None:
        self._placed: list[Placed] = []
        self._places: dict[Hashable, list[int]] = {}
        self._hidden: set[Hashable] = set()
        self._root = _Node(-1)
        self._tips: set[int] = set()
        self._last_tip = -1
        # Acts that stand before the act of an index: found in records around the calls.
        self._before: dict[int, list[Placed]] = {}
        self._filled: set[Hashable] = set()
        # Ids of calls that nothing has answered so far.
        self._open: set[str | None] = set()
        self._searches = 0
        self.rewritten = 0

    def __len__(self) -> int:
        return len(self._placed)

    def holds(self, act: Act) -> bool:
        """Whether the words of a message stand within another one's, of the same role. Each question reads
        the whole history, so only the first few are answered; after them it is no."""
        key = key_of(act)
        if not isinstance(key, tuple) or not isinstance(act, Said):
            return False
        if self._searches >= _SEARCHES:
            return False
        self._searches += 1
        known = (*self._places, *self._filled)
        return any(isinstance(k, tuple) and k[0] == key[0] and key[1] in k[1] for k in known)

    def begin(self, call: ModelCall) -> _Node:
        """Take a call's input; gives where its output goes on."""
        given = _Given(call)
        node = self._placed_input(given)
        for act in given.hidden_before(len(given.acts), self._hidden):
            self._append(act, None, call, call.start)
        return node

    def _placed_input(self, given: "_Given") -> _Node:
        node, at, acts = self._root, 0, given.acts
        opening = next((act for act, _ in acts if not _is_system(act)), None)
        if isinstance(opening, Answered) and opening.id in self._open:
            return self._follow(node, given, 0, {})
        while at < len(acts) and (following := node.next.get(acts[at][1])) is not None:
            node = following
            self._enrich(node.index, *acts[at])
            self._put_hidden(given, at, node.index)
            at += 1
        if at == len(acts):
            return self._again(node, given)
        if at and node.tip:
            return self._follow(node, given, at, {})
        if all(_is_system(act) for act, _ in acts[:at]):
            return self._follow(node, given, at, self._window(given, at))
        return self._follow(node, given, at, self._aligned(acts, at, node.index + 1, len(self._placed)))

    def finish(self, node: _Node, call: ModelCall) -> None:
        """Take a call's output, which follows `node`."""
        node.whole = max(node.whole or 0.0, call.end or call.start or 0.0) if call.outputs else node.whole
        for act in call.outputs:
            key = key_of(act)
            if key is None:
                if hidden_key(act) not in self._hidden or not is_hidden(act):
                    self._hidden.add(hidden_key(act))
                    self._append(act, None, call, call.end)
                continue
            if (following := node.next.get(key)) is None:
                following = node.next[key] = _Node(self._append(act, key, call, call.end))
            node = following
        node.tip = True
        if node.index >= 0:
            self._tips.add(node.index)
            self._last_tip = max(self._last_tip, node.index)

    def around(self, call: ModelCall, span: tuple[int, int]) -> None:
        """Take a record around calls whose acts stand at `span`: what of its input and output stands nowhere
        is put where it belongs among them."""
        low, high = span
        self._fill(call.inputs, call, 0, high, low)
        self._fill(call.outputs, call, low, len(self._placed), high)

    def put_first(self, acts: Sequence[Act], call: ModelCall, index: int) -> None:
        """Put acts before the one of `index`, and before what records around calls put there."""
        self._before.setdefault(index, [])[:0] = [
            Placed(act=act, agent=call.agent, time=None) for act in acts
        ]

    def _append(self, act: Act, key: Hashable | None, call: ModelCall, time: float | None) -> int:
        index = len(self._placed)
        self._placed.append(Placed(act=act, agent=call.agent, time=time))
        if key is not None:
            self._places.setdefault(key, []).append(index)
        if isinstance(act, Called) and act.id is not None:
            self._open.add(act.id)
        elif isinstance(act, Answered):
            self._open.discard(act.id)
        return index

    def _again(self, node: _Node, given: "_Given") -> _Node:
        """The whole input was seen. It is said again only where it is nothing but the system's and a user's
        words and was answered before: two exchanges, not one history."""
        acts, start = given.acts, given.call.start
        answered = node.whole is not None and (start is None or node.whole <= start)
        alone = (isinstance(act, Said) and same_role(act.role) in ("system", "user") for act, _ in acts)
        if not acts or not answered or not all(alone):
            return node
        first = next((p for p, (act, _) in enumerate(acts) if not _is_system(act)), len(acts))
        node = self._root
        for _, key in acts[:first]:
            node = node.next[key]
        return self._follow(node, given, first, {})

    def _follow(self, node: _Node, given: "_Given", at: int, shown: dict[int, int]) -> _Node:
        """Go on from `node` with the acts from `at`: those in `shown` stand already, one before such a one is
        put before it, the rest is new."""
        after: dict[int, int] = {}
        following = -1
        for position in range(max(shown, default=-1), at - 1, -1):
            following = after[position] = shown.get(position, following)
        for position in range(at, len(given.acts)):
            act, key = given.acts[position]
            index = shown.get(position)
            if index is None and _is_system(act) and not (node.tip and node.index >= 0):
                index = self._places.get(key, [None])[-1]
            if index is not None:
                self._enrich(index, act, key)
                self._put_hidden(given, position, index)
            elif position in after and not _is_system(act):
                self.rewritten += 1
                index = after[position]
                self._put_before(index, act, given.call)
            else:
                for hidden in given.hidden_before(position, self._hidden):
                    self._append(hidden, None, given.call, given.call.start)
                index = self._append(act, key, given.call, given.call.start)
            grown = node.next[key] = _Node(index)
            node = grown
        return node

    def _enrich(self, index: int, act: Act, key: Hashable) -> None:
        """A later record of an act may hold the reasoning or the id that the first one lacks."""
        item = self._placed[index] if index >= 0 else None
        told = item.act if item is not None else None
        if item is None or told is act:
            return
        if isinstance(act, Said) and isinstance(told, Said) and len(act.parts) > len(told.parts):
            thinks = any(isinstance(part, Reasoning) for part in act.parts)
            if thinks and not any(isinstance(part, Reasoning) for part in told.parts) and key_of(told) == key:
                item.act = msgspec.structs.replace(told, parts=act.parts)
        elif isinstance(act, Called) and isinstance(told, Called) and told.id is None is not act.id:
            item.act = msgspec.structs.replace(told, id=act.id) if key_of(told) == key else told

    def _put_before(self, index: int, act: Act, call: ModelCall) -> None:
        self._before.setdefault(index, []).append(Placed(act=act, agent=call.agent, time=None))

    def _put_hidden(self, given: "_Given", position: int, index: int) -> None:
        for act in given.hidden_before(position, self._hidden):
            self._put_before(index, act, given.call)

    def _window(self, given: "_Given", at: int) -> dict[int, int]:
        """Which acts from `at` on repeat the end of what stands, as position to index; nothing where they are
        new. They repeat it where the last that is found ends a call's output, or where all are found."""
        acts = given.acts
        start = next((p for p in range(at, len(acts)) if not _is_system(acts[p][0])), len(acts))
        if start == len(acts):
            return {}
        best: dict[int, int] = {}
        for anchor in reversed(self._places.get(acts[start][1], [])[-_ANCHORS:]):
            found = self._aligned(acts, start, anchor, len(self._placed))
            ended = len(found) == len(acts) - start or found[max(found)] in self._tips
            if ended and len(found) > len(best):
                best = found
        if best and at == start == 0 and self._asks_anew(given, best[max(best)]):
            return {}
        if best:
            return best
        # The first was edited or is new; a result tells by the call before it where the rest belongs.
        found = self._aligned(acts, start, 0, len(self._placed))
        reached = bool(found) and found[max(found)] in self._tips
        return found if reached and len(found) * 2 > max(found) - start else {}

    def _asks_anew(self, given: "_Given", place: int) -> bool:
        """Whether an input of nothing but a user's words comes after the same words, at `place`, were
        answered: a record of what is new, where the user said the same again."""
        if not all(isinstance(act, Said) and same_role(act.role) == "user" for act, _ in given.acts):
            return False
        answer = self._last_tip
        if answer <= place:
            return False
        told, start = self._placed[answer].time, given.call.start
        return told is None or start is None or told <= start

    def _aligned(self, acts: list[tuple[Act, Hashable]], at: int, low: int, high: int) -> dict[int, int]:
        """The acts from `at` on that stand between `low` and `high` in the same order: position to index."""
        found: dict[int, int] = {}
        for position in range(at, len(acts)):
            places = self._places.get(acts[position][1], [])
            nearest = bisect_left(places, low)
            if nearest < len(places) and places[nearest] < high:
                found[position] = places[nearest]
                low = places[nearest] + 1
        return found

    def _fill(self, given: Sequence[Act], call: ModelCall, low: int, high: int, default: int) -> None:
        acts = [(act, key) for act in given if (key := key_of(act)) is not None]
        shown = self._aligned(acts, 0, low, high)
        following = default if not shown else min(max(shown.values()) + 1, len(self._placed))
        placed: list[tuple[int, Act, Hashable]] = []
        for position in range(len(acts) - 1, -1, -1):
            act, key = acts[position]
            if position in shown:
                following = shown[position]
            elif key not in self._filled and not (_is_system(act) and self._places.get(key)):
                placed.append((following, act, key))
        for index, act, key in reversed(placed):
            self._put_before(index, act, call)
            self._filled.add(key)

    def tell(self, build: ConversationBuilder, runs: Iterable[ToolRun] = ()) -> None:
        """Write the entries, with what tools' records add."""
        if self.rewritten:
            build.warn(
                "history_rewritten",
                f"{self.rewritten} messages stand otherwise in later calls' histories; both are shown",
            )
        told = Told(self._in_order())
        for run in runs:
            told.add(run)
        emitter = Emitter(build)
        for item in told.items():
            emitter.add(item.act, agent=item.agent)

    def _in_order(self) -> list[Placed]:
        if not self._before:
            return self._placed
        out: list[Placed] = []
        for index, item in enumerate([*self._placed, None]):
            out.extend(self._before.get(index, ()))
            if item is not None:
                out.append(item)
        return out


def _is_system(act: Act) -> bool:
    return isinstance(act, Said) and same_role(act.role) == "system"

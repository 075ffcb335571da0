"""When the verdicts of past conversations would have arrived under another budget: a replay on paper. Pure.

Each conversation's judges are put on so many slots, in the order in which they were started. A latency that
was cut off is completed, and one that was never begun is drawn, from the judge's own curve; several times
over, at ranks from a fixed seed, so that the same events give the same answer.
"""

import bisect
import heapq
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from sandbox_judge.budget import DEFAULT_RESERVE_S, reserve_for
from sandbox_judge.coverage.observed import Observation
from sandbox_judge.coverage.survival import Survival

_SEED: Final = 20_240_229
_MOST_JUDGES: Final = 200_000
_REPLAYS: Final = 20


class Job(msgspec.Struct, frozen=True):
    """One judge in one replay: its latency, and whether it would have given a verdict at all."""

    seconds: float
    counts: bool


class Replay(msgspec.Struct, frozen=True):
    """One conversation of one replay: how long it took to begin, and its judges in order."""

    begins_s: float
    jobs: tuple[Job, ...]


def replays(observations: Sequence[Observation], curves: Mapping[str, Survival]) -> tuple[Replay, ...]:
    """The conversations, several times over where something was cut off or never begun."""
    talks: dict[str, dict[str, Observation]] = {}
    for one in observations:
        talk = talks.setdefault(one.conversation_id, {})
        # Of several runs of one judge on one conversation, the one that says most.
        if one.judge not in talk or _says(one) > _says(talk[one.judge]):
            talk[one.judge] = one
    is_certain = all(one.kind in ("verdict", "failed") for one in observations)
    times = 1 if is_certain else max(1, min(_REPLAYS, _MOST_JUDGES // max(1, len(observations))))
    ranks = random.Random(_SEED)
    return tuple(_replay(list(talk.values()), curves, ranks) for _ in range(times) for talk in talks.values())


def _says(one: Observation) -> tuple[int, float]:
    return ("not_started", "failed", "cut_off", "verdict").index(one.kind), one.seconds or 0.0


def _replay(judges: list[Observation], curves: Mapping[str, Survival], ranks: random.Random) -> Replay:
    ordered = sorted(judges, key=lambda one: math.inf if one.started_s is None else one.started_s)
    begins_s = next((one.started_s for one in ordered if one.started_s is not None), 0.0)
    jobs = []
    for one in ordered:
        curve = curves.get(one.judge)
        if one.kind == "verdict" and one.seconds is not None:
            jobs.append(Job(one.seconds, True))
        elif one.kind == "failed":
            jobs.append(Job(one.seconds or 0.0, False))
        elif curve is not None and curve.times:
            jobs.append(Job(curve.beyond(one.seconds or 0.0, ranks.random()), True))
        else:  # nothing is known of this judge but that it did not end
            jobs.append(Job(math.inf, True))
    return Replay(begins_s, tuple(jobs))


class Arrivals:
    """When the verdicts arrive with so many slots and at most so long for one judge, in seconds, sorted;
    infinite where one never does."""

    def __init__(
        self, conversations: Iterable[Replay], *, concurrency: int, per_judge_s: float = math.inf
    ) -> None:
        self.times: list[float] = []
        self.ends: list[float] = []
        for conversation in conversations:
            self._add(conversation, concurrency, per_judge_s)
        self.times.sort()

    def _add(self, conversation: Replay, concurrency: int, per_judge_s: float) -> None:
        slots = [conversation.begins_s] * concurrency
        last = conversation.begins_s
        for job in conversation.jobs:
            ends = heapq.heappop(slots) + min(job.seconds, per_judge_s)
            heapq.heappush(slots, ends)
            last = max(last, ends)
            if job.counts:
                self.times.append(ends if job.seconds <= per_judge_s else math.inf)
        self.ends.append(last)

    def share_by(self, total_s: float) -> float:
        """The share of verdicts that a budget of `total_s` gets, its reserve taken off."""
        if not self.times:
            return 0.0
        within = total_s - reserve_for(total_s)
        return bisect.bisect_right(self.times, within + 1e-9) / len(self.times)

    def total_for(self, share: float) -> float | None:
        """The budget that gets the share, its reserve in it; None where that is not known."""
        if not self.times:
            return None
        needed = self.times[max(0, math.ceil(share * len(self.times) - 1e-9) - 1)]
        return None if math.isinf(needed) else with_reserve(needed)

    def mean_used_s(self, total_s: float) -> float:
        """What a conversation uses of such a budget on average, in seconds."""
        within = total_s - reserve_for(total_s)
        return sum(min(end, within) for end in self.ends) / len(self.ends) if self.ends else 0.0


def with_reserve(grading_s: float) -> float:
    """The budget of which `grading_s` is left for grading: the reserve is a fifth of it, at most 500 ms."""
    return min(grading_s / 0.8, grading_s + DEFAULT_RESERVE_S)

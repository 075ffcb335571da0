"""What can be done for a recipe's judges before the first conversation ends: litellm imported where one needs
it, connections to the endpoints open, TLS done."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from sandbox_judge.access import endpoint_for
from sandbox_judge.lanes.base import Endpoint, LaneName
from sandbox_judge.lanes.choose import lane_for
from sandbox_judge.recipe.judge import Judge
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.resident.pacing import PacedLanes, PacedModel
from sandbox_judge.settings import LiveSettings


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The lanes that a recipe's judges need, and how many of them call which base URL (None: its own)."""

    lanes: frozenset[LaneName]
    calls: Mapping[tuple[LaneName, str | None], int]


def wanted_by(recipe: LoadedRecipe, settings: LiveSettings, environ: Mapping[str, str]) -> Wanted:
    """What the judges that are switched on will need. Judges without a usable endpoint need nothing."""
    lanes: set[LaneName] = set()
    calls: Counter[tuple[LaneName, str | None]] = Counter()
    for loaded in recipe.judges:
        judge = loaded.file.judge
        if judge is None or settings.judge(recipe.recipe_id, judge.name).enabled is False:
            continue
        endpoint = endpoint_for(judge.llm, settings, environ, dry_run=False)
        if isinstance(endpoint, Endpoint):
            lane = _lane(judge, settings)
            lanes.add(lane)
            calls[lane, endpoint.base_url] += 1
    return Wanted(lanes=frozenset(lanes), calls=dict(calls))


async def warm_up(lanes: PacedLanes, wanted: Wanted, *, most: int, deadline: float) -> None:
    """Begins imports and opens connections, at most `most` to one place. What fails is told by the first call
    that needs it; `deadline` is on anyio's clock."""
    lanes.prepare(sorted(wanted.lanes))
    for (name, url), count in wanted.calls.items():
        lane = lanes.get(name)
        assert isinstance(lane, PacedModel), "every lane of a server is paced"
        await lane.warm(url, count=min(count, most), deadline=deadline)


def _lane(judge: Judge, settings: LiveSettings) -> LaneName:
    return lane_for(
        judge.llm.provider,
        local_endpoint=judge.llm.local is not None,
        provider_lane=settings.provider(judge.llm.provider).lane,
    )

"""The server's recipe at the commits that requests name: read once each, kept for the most recent ones.

A commit id names its content, so what is kept is never stale. One load of a commit serves all who wait.
"""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio

from sandbox_judge.assembly import open_recipe
from sandbox_judge.envelope import RecipeRef
from sandbox_judge.recipe.loaded import LoadedRecipe

_KEPT: Final = 8
# A client may name any commit: reading them must not take the machine from those who are being judged.
_LOADS_AT_ONCE: Final = 2


class Recipes:
    """`path` and `recipe_id` are the server's own."""

    def __init__(self, path: str, recipe_id: str | None, *, environ: Mapping[str, str], cwd: Path) -> None:
        self.path = path
        self.recipe_id = recipe_id
        self._environ, self._cwd = environ, cwd
        self._kept: OrderedDict[str, LoadedRecipe] = OrderedDict()
        self._locks: dict[str, anyio.Lock] = {}
        self._limit = anyio.CapacityLimiter(_LOADS_AT_ONCE)

    async def at(self, commit: str, *, deadline: float) -> LoadedRecipe:
        """The recipe at a full commit id. `deadline` is on anyio's clock. Raises RecipeError."""
        if (found := self._found(commit)) is not None:
            return found
        lock = self._locks.setdefault(commit, anyio.Lock())
        try:
            async with lock:
                if (found := self._found(commit)) is not None:
                    return found
                async with self._limit:
                    loaded = await open_recipe(
                        RecipeRef(path=self.path, commit=commit, id=self.recipe_id),
                        environ=self._environ,
                        cwd=self._cwd,
                        dry_run=False,
                        deadline=deadline,
                    )
                self._kept[commit] = loaded
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
                return loaded
        finally:
            if lock.statistics().tasks_waiting == 0 and not lock.locked():
                self._locks.pop(commit, None)

    def _found(self, commit: str) -> LoadedRecipe | None:
        found = self._kept.get(commit)
        if found is not None:
            self._kept.move_to_end(commit)
        return found

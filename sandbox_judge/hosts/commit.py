"""Which commit an agent runs from, where its platform does not say: where the recipe's clone stands."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import anyio

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.load import load_recipe


def full_commit(recipe: str, environ: Mapping[str, str]) -> str:
    """The full id of HEAD in the recipe's repository. Raises RecipeError."""
    source = anyio.run(partial(load_recipe, Path(recipe), "HEAD", environ=environ, pinned=False))
    if source.commit is None:
        raise RecipeError("it has no commit.", where=recipe, remedy="Commit the recipe, or name a commit.")
    return source.commit

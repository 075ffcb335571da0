"""What changed between two definitions of a judge, read from the recipe's repository."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.judge import Judge
from sandbox_judge.recipe.load import load_recipe
from sandbox_judge.recipe.loaded import loaded_recipe
from sandbox_judge.store.tally import Cell


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` are the fields that differ, none where only comments, order or white space do; `cosmetic`:
    none of them reaches the model or the gate."""

    cosmetic: bool
    changed: tuple[str, ...]

    def __str__(self) -> str:
        what = ", ".join(self.changed) or "only comments, order or white space"
        return f"the edit {'is cosmetic' if self.cosmetic else 'changes what reaches the model'} ({what})"


async def edit_between(repository: Path, a: Cell, b: Cell, *, environ: Mapping[str, str]) -> Edit:
    """The edit that lies between the definitions of two sides. Raises RecipeError, also where the repository
    has not the bytes that were judged by."""
    before, after = [await _definition(repository, cell, environ=environ) for cell in (a, b)]
    return Edit(
        cosmetic=before.grading_hash == after.grading_hash,
        changed=tuple(sorted(set(_changed(before.normalised, after.normalised)))),
    )


async def _definition(repository: Path, cell: Cell, *, environ: Mapping[str, str]) -> Judge:
    series = cell.series
    # A regrade's rubric is of another commit than the agent's.
    commit = series.judge_commit or series.commit
    source = await load_recipe(repository, commit, environ=environ, pinned=False)
    for one in loaded_recipe(source).judges:
        if one.file.judge is not None and one.file.definition_hash == series.definition_hash:
            return one.file.judge
    raise RecipeError(
        f"no valid judge file at {commit} has the definition {series.definition_hash}.",
        where=str(repository),
        remedy="Is this the recipe's own folder?",
    )


def _changed(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in a.keys() | b.keys():
        one, other = a.get(key), b.get(key)
        if one == other:
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping) and key != "match":
            yield from _changed(one, other, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"

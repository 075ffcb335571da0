"""What a run is put together from, the same for the command, the Python call and the server."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from sandbox_judge.budget import Budget
from sandbox_judge.envelope import Envelope, RecipeRef
from sandbox_judge.errors import UsageError
from sandbox_judge.recipe.load import load_recipe
from sandbox_judge.recipe.loaded import LoadedRecipe, loaded_recipe
from sandbox_judge.settings import LiveSettings, Settings, inline_settings


async def open_recipe(
    ref: RecipeRef,
    *,
    environ: Mapping[str, str],
    cwd: Path,
    dry_run: bool,
    only: Sequence[str] = (),
    deadline: float | None = None,
) -> LoadedRecipe:
    """The recipe that `ref` names, its judges read and its gates compiled.

    Outside a dry run the commit must be a full id. Raises UsageError (no recipe named, a judge that is not
    there) and RecipeError.
    """
    if ref.path is None:
        raise UsageError(
            "no recipe was named.",
            remedy="Give --recipe DIR, recipe.path in the envelope, or SANDBOX_JUDGE_RECIPE.",
        )
    source = await load_recipe(
        cwd / ref.path,
        None if ref.worktree else ref.commit,
        environ=environ,
        worktree=ref.worktree,
        pinned=not dry_run,
        deadline=deadline,
    )
    recipe = await anyio.to_thread.run_sync(
        lambda: loaded_recipe(source, recipe_id=ref.id, only=only), abandon_on_cancel=True
    )
    missing = set(only) - {judge.file.name for judge in recipe.judges}
    if missing:
        raise UsageError(
            f"the recipe has no judge named {', '.join(sorted(missing))}.",
            where="--judge",
            remedy="`sandbox-judge check` lists what is wrong with files that cannot be read.",
        )
    return recipe


def live_settings(files: Sequence[Settings], *, envelope: Envelope, recipe_id: str) -> LiveSettings:
    """The sources in their order: what stands in the hook input, then the files. Raises SettingsError."""
    inline = () if envelope.settings is None else inline_settings(envelope.settings, recipe_id=recipe_id)
    return LiveSettings(sources=(*inline, *files))


def budget_in_force(
    settings: LiveSettings,
    recipe_id: str,
    *,
    envelope: Envelope,
    budget_s: float | None = None,
    concurrency: int | None = None,
) -> Budget:
    """The budget of a run: the envelope's own, else `budget_s` (the flag's), else settings or defaults."""
    budget = settings.budget(recipe_id)
    total_s = envelope.budget_ms / 1000 if envelope.budget_ms is not None else budget_s
    return msgspec.structs.replace(
        budget,
        total_s=budget.total_s if total_s is None else total_s,
        concurrency=concurrency or budget.concurrency,
    )

"""Which judge is calibrated or probed: its file as it lies on disk, in the recipe that an author edits."""

from pathlib import Path

from sandbox_judge.errors import RecipeError, UsageError
from sandbox_judge.recipe.judge import Judge
from sandbox_judge.recipe.loaded import LoadedRecipe


def judge_named(recipe: LoadedRecipe, name: str) -> Judge:
    """The valid judge of that name. Raises UsageError where there is none, RecipeError where it is broken."""
    found = [loaded for loaded in recipe.judges if loaded.file.name == name and not loaded.duplicate]
    if not found:
        names = sorted({loaded.file.name for loaded in recipe.judges if loaded.file.name})
        raise UsageError(
            f"the recipe has no judge named {name!r}.",
            where=str(recipe.source.folder),
            remedy=f"It has {', '.join(names)}." if names else "Give --recipe DIR, the folder with judges/.",
        )
    (loaded, *_) = found
    if loaded.file.judge is None:
        faults = "; ".join(f"{fault.code}: {fault.message}" for fault in loaded.faults[:3])
        raise RecipeError(f"the judge is not valid: {faults}", where=loaded.file.path)
    return loaded.file.judge


def recipe_folder(flag: str | None, variable: str | None, cwd: Path) -> Path:
    """The recipe's folder: the flag's, the variable's, else where we stand."""
    return cwd / (flag or variable or ".")

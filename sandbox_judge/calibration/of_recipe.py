"""The calibration state of each judge of a recipe, from the record and set that lie at the same commit."""

from collections.abc import Mapping

from sandbox_judge.calibration.files import dataset_name, record_name
from sandbox_judge.calibration.lookup import Facts, facts_of
from sandbox_judge.calibration.state import state_of
from sandbox_judge.judgement import Calibration
from sandbox_judge.recipe.judge import Judge
from sandbox_judge.recipe.load import load_extras
from sandbox_judge.recipe.loaded import LoadedRecipe


async def calibration_states(
    recipe: LoadedRecipe, *, environ: Mapping[str, str], deadline: float | None = None
) -> dict[str, Calibration]:
    """The state of every valid judge, by name. A record that cannot be read counts as none.

    Raises RecipeError where the files cannot be fetched at all.
    """
    judges = [loaded.file.judge for loaded in recipe.judges if loaded.file.judge is not None]
    names = [name for judge in judges for name in (record_name(judge.name), dataset_name(judge.name))]
    files = await load_extras(recipe.source, names, environ=environ, deadline=deadline) if names else {}
    return {judge.name: _state(judge, facts_of(judge.name, files)) for judge in judges}


def _state(judge: Judge, facts: Facts) -> Calibration:
    return state_of(facts.record, definition_hash=judge.definition_hash, dataset_hash=facts.dataset_hash)

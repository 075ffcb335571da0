"""The calibration state of each judge of a recipe, from the record and set that lie at the same commit."""

from collections.abc import Mapping

from sandbox_judge.calibration.files import dataset_name, record_name
from sandbox_judge.calibration.record import Record, read_record
from sandbox_judge.calibration.state import quick_dataset_hash, state_of
from sandbox_judge.errors import InputError
from sandbox_judge.judgement import Calibration
from sandbox_judge.recipe.judge import Judge
from sandbox_judge.recipe.load import SourceFile, load_extras
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
    return {judge.name: _state(judge, files) for judge in judges}


def _state(judge: Judge, files: Mapping[str, SourceFile]) -> Calibration:
    record = _record(judge, files.get(record_name(judge.name)))
    dataset = files.get(dataset_name(judge.name))
    digest = quick_dataset_hash(dataset.content) if dataset is not None and dataset.content else None
    return state_of(record, definition_hash=judge.definition_hash, dataset_hash=digest)


def _record(judge: Judge, file: SourceFile | None) -> Record | None:
    if file is None or file.content is None:
        return None
    try:
        return read_record(file.content, where=file.path, judge=judge.name)
    except InputError:
        return None

"""The calibration states of the judges on disk, for `check`: what a commit of them would say."""

from collections.abc import Iterable
from pathlib import Path

from sandbox_judge.calibration.files import dataset_name, record_name
from sandbox_judge.calibration.record import read_record
from sandbox_judge.calibration.state import quick_dataset_hash, state_of
from sandbox_judge.errors import InputError
from sandbox_judge.judgement import Calibration
from sandbox_judge.recipe.git import MAX_EXTRA_BYTES
from sandbox_judge.recipe.judge import Judge
from sandbox_judge.recipe.worktree import read_files


def states_on_disk(recipe: Path, judges: Iterable[Judge]) -> tuple[dict[str, Calibration], tuple[str, ...]]:
    """{judge: state}, and what is wrong with records. Where the model is asked and which one answers is not
    known here. Raises RecipeError where the folder cannot be read."""
    states: dict[str, Calibration] = {}
    faults = []
    for judge in judges:
        names = [record_name(judge.name).encode(), dataset_name(judge.name).encode()]
        found = {
            file.name: file.content
            for file in read_files(
                recipe, "judges", names, each=MAX_EXTRA_BYTES, together=2 * MAX_EXTRA_BYTES
            )
        }
        record, dataset = (found.get(name) for name in names)
        try:
            read = (
                None
                if record is None
                else read_record(record, where=record_name(judge.name), judge=judge.name)
            )
        except InputError as error:
            read = None
            faults.append(error.paragraph())
        states[judge.name] = state_of(
            read,
            definition_hash=judge.definition_hash,
            dataset_hash=None if dataset is None else quick_dataset_hash(dataset),
        )
    return states, tuple(faults)

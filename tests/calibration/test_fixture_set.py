"""The fixture recipe's own set is sound, and reaches its judge."""

from pathlib import Path

import anyio

from sandbox_judge.calibration.check import check_dataset
from sandbox_judge.conversation.events import gate_events
from sandbox_judge.gate.gate import Applies, decide
from sandbox_judge.recipe.load import load_recipe
from sandbox_judge.recipe.loaded import loaded_recipe

FIXTURE = Path(__file__).parent.parent.parent / "recipe_fixture"
SET = FIXTURE / "judges" / "refund-policy.calibration.jsonl"


def test_the_set_is_sound():
    report = check_dataset(SET)
    assert report.valid, report.faults
    assert len(report.dataset.fixtures) >= 12 and report.unlabelled == 0
    assert set(report.balance) == {"train", "dev", "test"}
    assert {row.approved_by for row in report.dataset.rows} == {"Mara Quill (invented person)"}


def test_every_row_passes_the_judges_gate():
    async def outcomes():
        source = await load_recipe(FIXTURE, None, environ={}, worktree=True)
        (judge,) = [one for one in loaded_recipe(source).judges if one.file.name == "refund-policy"]
        found = []
        dataset = check_dataset(SET).dataset
        for _, row in dataset.read(dataset.rows):
            await decide(
                [judge.gate], list(gate_events(row.conversation)), deadline=anyio.current_time() + 10,
                explain=False, settled=lambda _, outcome: found.append(outcome),
            )  # fmt: skip
        return found

    found = anyio.run(outcomes)
    assert len(found) == 17 and all(isinstance(outcome, Applies) for outcome in found)

"""The judge in one step: parameters, output, and an error for what is no answer."""

import json

import anyio
import pytest
from rubric_scripts import answer, said

from sandbox_judge.errors import UsageError
from sandbox_judge.lanes.base import ModelFailure
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.simple_judge import simple_judge
from sandbox_judge.simple_judge.config import step_of
from sandbox_judge.testing.scripted import ScriptedModel

PNG = b"\x89PNG\r\n\x1a\n0000"


def judged(script, *, backend="asyncio", base=None, **step):
    lane = ScriptedModel(script)
    given = {"model": "gpt-4o", "instruction": "Is it polite?", **step}

    async def story():
        return await simple_judge(
            base=base,
            environ={"OPENAI_API_KEY": "sk-test"},
            lanes=Lanes({}, given={"openai_wire": lane}),
            **given,
        )

    return anyio.run(story, backend=backend), lane


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_categories_are_yes_or_no_unless_given(backend):
    output, lane = judged([answer("Yes", key="label")], item="Thank you!", backend=backend)
    assert output == {
        "average_score": None,
        "results": [
            {"label": "yes", "explanation": "Looked at it.", "raw_result": answer("Yes", key="label")}
        ],
    }
    assert "Is it polite?" in said(lane.calls[0])
    assert "Thank you!" in said(lane.calls[0])


def test_a_scale_has_an_average_of_usable_scores():
    replies = {"a": answer(5), "b": answer(2), "c": answer("4"), "d": ModelFailure("auth", "no")}

    def script(call):
        item = next(
            i
            for i in replies
            if f"| {i}|" in call.messages[1]["content"].replace("): ", "): | ").replace("\n", "|")
        )
        return replies[item]

    output, _ = judged(script, items=list("abcd"), judge_type="scale")
    assert output["average_score"] == 3.5
    assert [one.get("score") for one in output["results"]] == [5, 2, None, None]
    assert [one.get("error", {}).get("type") for one in output["results"]] == [
        None, None, "out_of_vocabulary", "auth",
    ]  # fmt: skip


def test_no_usable_score_is_no_average():
    output, _ = judged(lambda call: "no idea", item="x", judge_type="scale", scale_range=[1, 10])
    assert output["average_score"] is None
    assert output["results"][0]["error"]["type"] == "malformed_output"
    assert output["results"][0]["raw_result"] == "no idea"


def test_the_old_score_range_gives_labels_of_text():
    output, _ = judged([answer("4", key="label")], item="x", score_range={"min": 1, "max": 5})
    assert output["results"][0]["label"] == "4"
    assert output["average_score"] is None
    output, _ = judged([answer(4)], item="x", judge_type="scale", score_range={"min": 1, "max": 5})
    assert output["results"][0]["score"] == 4


def test_binary_is_yes_or_no():
    output, _ = judged([answer("no", key="label")], item="x", judge_type="binary")
    assert output["results"][0]["label"] == "no"


def test_what_may_be_left_out():
    output, lane = judged(
        [answer("yes", key="label")], item="x", with_explanation=False, save_raw_response=False,
        temperature=0.7, max_tokens=300, system_prompt="You know the house style.",
    )  # fmt: skip
    assert output["results"] == [{"label": "yes"}]
    call = lane.calls[0]
    assert (call.temperature, call.temperature_authored, call.max_tokens) == (0.7, True, 300)
    assert call.messages[0]["content"].endswith("You know the house style.")


def test_paths_texts_and_pictures(tmp_path):
    (tmp_path / "a.md").write_text("from the file")
    (tmp_path / "p.png").write_bytes(PNG)
    items = ["a.md", "just text", {"path": "p.png"}, {"text": "a.md"}, "gone.png", ""]
    output, lane = judged(lambda call: answer("yes", key="label"), items=items, base=tmp_path)
    texts = [said(call) for call in lane.calls]
    assert any("from the file" in text for text in texts)
    assert any("just text" in text for text in texts)
    assert any(isinstance(call.messages[1]["content"], list) for call in lane.calls)
    assert [one.get("label") for one in output["results"]] == ["yes"] * 4 + [None] * 2
    assert [one["error"]["type"] for one in output["results"][4:]] == ["missing_context"] * 2


def test_a_picture_for_a_model_that_takes_none_is_unseen(tmp_path):
    (tmp_path / "p.png").write_bytes(PNG)
    output, lane = judged([], item="p.png", base=tmp_path, model="gpt-3.5-turbo")
    assert output["results"][0]["error"]["type"] == "missing_context"
    assert not lane.calls


def test_an_items_text_names_no_file_outside(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.md").write_text("SECRET")
    (tmp_path / "in" / "link.md").symlink_to(tmp_path / "secret.md")
    items = [str(tmp_path / "secret.md"), "../secret.md", "/etc/passwd"]
    _, lane = judged(lambda call: answer("yes", key="label"), items=items, base=tmp_path / "in")
    assert all("SECRET" not in said(call) and "root:" not in said(call) for call in lane.calls)


def test_an_instruction_may_be_a_file(tmp_path):
    (tmp_path / "i.txt").write_text("Count the commas.")
    _, lane = judged([answer("yes", key="label")], item="x", instruction=None,
                     instruction_path="i.txt", base=tmp_path)  # fmt: skip
    assert "Count the commas." in said(lane.calls[0])


@pytest.mark.parametrize(
    "step",
    [
        {},
        {"item": "a", "items": ["b"]},
        {"items": []},
        {"item": "a", "categories": ["one"]},
        {"item": "a", "categories": ["a-b", "A B"]},
        {"item": "a", "judge_type": "scale", "scale_range": [5, 1]},
        {"item": "a", "judge_type": "scale", "scale_range": [1, 2, 3]},
        {"item": "a", "judge_type": "scale", "scale_range": ["1", "5"]},
        {"item": "a", "judge_type": "scale", "categories": ["x", "y"]},
        {"item": "a", "judge_type": "vibes"},
        {"item": "a", "score_range": {"min": 1, "max": 10**9}},
        {"item": "a", "temperature": 9.0},
        {"item": "a", "temperature": float("nan")},
        {"item": "a", "max_tokens": 0},
        {"item": "a", "criteria": "old name"},
        {"item": 5},
        {"item": "a", "instruction": "  "},
        {"item": "a", "instruction_path": "also.txt"},
        {"item": "a", "model": None},
    ],
)
def test_what_cannot_be_is_told_before_any_call(step):
    lane = None
    with pytest.raises(UsageError):
        _, lane = judged(lambda call: answer("yes", key="label"), **step)
    assert lane is None


def test_older_step_configurations_are_read():
    step = step_of(
        json.loads('{"activity": "simple_judge", "item_path": "x.png", "instruction": "i", "model": "m",'
                   ' "explanation_required": false, "score_range": {"min": 1, "max": 3}}'),
        where="step",
    )  # fmt: skip
    assert step.with_explanation is False
    assert step.instrument().answers == ("1", "2", "3")
    with pytest.raises(UsageError, match="activity"):
        step_of({"activity": "litellm_chat"}, where="step")

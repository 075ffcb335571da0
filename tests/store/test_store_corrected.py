"""A trend corrected for the judge's errors: by the committed record, only where it speaks of the judge."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from made_events import sha
from recipes import committed, judge_text
from test_store_reading import Command, command, many, put

from sandbox_judge.calibration.record import Answering, Record, Result, record_bytes
from sandbox_judge.errors import InputError, RecipeError, UsageError
from sandbox_judge.store.database import Database


def result(
    *, definition: str = "one", model: str | None = "small-1", split: Any = "test", **more: Any
) -> Result:
    return Result(
        **{
            "definition_hash": sha(definition),
            "contract_version": "1",
            "llm": Answering(provider="openai", model="small", endpoint="default", response_model=model),
            "dataset_hash": sha("set"),
            "test_split_hash": sha("split"),
            "split": split,
            "look": 1,
            "n": 100,
            "invalid": {},
            "confusion": {"pass": {"pass": 45, "fail": 5}, "fail": {"fail": 40, "pass": 10}},
            "figures": {},
            "intervals": {},
            "floors": {},
            "passed": True,
            "at": "2026-01-01T00:00:00Z",
            **more,
        }
    )


@pytest.fixture
def ask(ready_url: str, tmp_path: Path, database: Database) -> Command:
    environ = {"PATH": "/usr/bin:/bin"}
    return lambda *argv: command("trend", "tone", *argv, store=ready_url, cwd=tmp_path, environ=environ)


def commit_record(folder: Path, *results: Result) -> str:
    record = record_bytes(Record(judge="tone", results=results)).decode()
    return committed(
        folder, {"judges/tone.yaml": judge_text("tone"), "judges/tone.calibration.record.json": record}
    )


def test_only_what_was_measured_is_corrected(database: Database, ask: Command, tmp_path: Path) -> None:
    put(
        database,
        [
            *many(70, 30, name="a", version=1),
            *many(8, 2, name="b", version=2, llm={"response_model": "small-2"}),
            *many(60, 40, name="c", version=3),
            *many(5, 0, name="d", version=3, llm={"response_model": "small-2"}),
            *many(3, 1, name="e", version=4, definition="two"),
            *many(3, 1, name="f", version=5, definition="three"),
        ],
    )  # fmt: skip
    newer = {"pass": {"pass": 50}, "fail": {"fail": 30, "pass": 20}}
    commit = commit_record(
        tmp_path / "recipe",
        result(confusion=newer, look=1),
        result(look=2),
        result(split="dev", confusion=newer, look=3),
        result(definition="two", model="another"),
    )
    said = ask("--correct", "recipe", "-o", "json").json["lines"][0]["segments"]
    points = {point["key"][-1]: point["corrected"] for segment in said for point in segment["points"]}
    assert points["1"]["rate"] == pytest.approx((0.7 + 0.8 - 1) / (0.9 + 0.8 - 1))
    low, high = points["1"]["interval"]
    assert 0.5 < low < points["1"]["rate"] < high < 0.95
    assert (points["1"]["n"], points["1"]["left_out"], points["1"]["look"]) == (100, 0, 2)
    assert points["2"] is None and points["4"] is None and points["5"] is None
    assert (points["3"]["n"], points["3"]["left_out"]) == (100, 5)
    text = ask("--correct", "recipe", "--correct-at", commit[:12]).text
    assert "71.4 %" in text and "not measured" in text and "without 5 of other models" in text
    months = ask("--correct", "recipe", "--by", "month", "-o", "json").json["lines"][0]["segments"]
    (point,) = next(one["points"] for one in months if one["definition_hash"] == sha("one"))
    assert (point["corrected"]["n"], point["corrected"]["left_out"]) == (200, 15)
    assert "corrected" not in ask().text
    assert "corrected" not in ask("-o", "json").json["lines"][0]["segments"][0]["points"][0]


def test_what_cannot_be_corrected_says_why(database: Database, ask: Command, tmp_path: Path) -> None:
    put(database, many(7, 3))
    no_better = {"pass": {"pass": 5, "fail": 5}, "fail": {"fail": 5, "pass": 5}}
    commit_record(tmp_path / "recipe", result(confusion=no_better))
    assert "no better than chance" in ask("--correct", "recipe").text
    committed(tmp_path / "bare", {"judges/tone.yaml": judge_text("tone")})
    with pytest.raises(InputError, match="no calibration record"):
        ask("--correct", "bare")
    with pytest.raises(RecipeError):
        ask("--correct", "recipe", "--correct-at", "0" * 40)
    with pytest.raises(RecipeError):
        ask("--correct", str(tmp_path))
    with pytest.raises(UsageError):
        ask("--correct-at", "HEAD")
    # What lies on disk is not looked at: only what is committed.
    (tmp_path / "recipe/judges/tone.calibration.record.json").write_text("{}")
    assert "no better than chance" in ask("--correct", "recipe").text
    subprocess.run(["git", "-C", tmp_path / "recipe", "-c", "user.name=t", "-c", "user.email=t@t", "commit",
                    "-qam", "broken"], check=True)  # fmt: skip
    with pytest.raises(InputError, match="not valid"):
        ask("--correct", "recipe")

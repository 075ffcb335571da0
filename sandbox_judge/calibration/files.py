"""Where a judge's calibration set and record lie: beside its file (`spec/judge-file.md`)."""

from pathlib import Path


def dataset_name(judge: str) -> str:
    return f"{judge}.calibration.jsonl"


def record_name(judge: str) -> str:
    return f"{judge}.calibration.record.json"


def dataset_path(recipe: Path, judge: str) -> Path:
    return recipe / "judges" / dataset_name(judge)


def record_path(recipe: Path, judge: str) -> Path:
    return recipe / "judges" / record_name(judge)

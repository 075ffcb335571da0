"""The recipe format's own checker, as these tests ask it: valid means both of its readings."""

import json
from typing import Any

import introspection_recipe_check as checker

from sandbox_judge.recipe.judge_file import JudgeFile, read_judge_file

PATH = "judges/x.yaml"


def asked(text: str) -> tuple[dict[str, Any] | None, list[str]]:
    """(the normalised form, or None where it is invalid; the judge.* codes)."""
    report = checker.check_recipe_files({"files": [{"path": PATH, "content": text}]})
    codes = sorted({d.code for d in report.diagnostics if d.code.startswith("judge.")})
    try:
        parsed = checker.parse_judge_definitions([{"path": PATH, "content": text}])
    except ValueError:
        return None, codes
    return (parsed[0].definition.value if parsed and not codes else None), codes


def ours(text: str) -> JudgeFile:
    return read_judge_file(PATH, text.encode())


def difference(text: str) -> str | None:
    """What we read otherwise than the checker does: validity, the normalised form, or the codes."""
    form, codes = asked(text)
    file = ours(text)
    if (form is not None) != (file.is_valid):
        return f"{'refused' if form is not None else 'accepted'}: {codes} {file.diagnostics}"
    if form is not None and file.judge is not None:
        theirs, mine = (json.dumps(f, sort_keys=True) for f in (form, file.judge.normalised))
        if theirs != mine:
            return f"{theirs} != {mine}"
    mine_codes = sorted({d.code for d in file.diagnostics})
    if "judge.yaml_malformed" in codes:
        # The checker ends there; we go on to the other faults.
        return None if "judge.yaml_malformed" in mine_codes else f"{mine_codes} without yaml_malformed"
    if form is None and codes and codes != mine_codes:
        return f"{codes} != {mine_codes}"
    return None

"""The YAML head of a runbook (`spec/rubric.md`): what is known of it, and what is doubtful. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sandbox_judge.rubric.criteria import Doubt
from sandbox_judge.yaml_core import YamlError, load_plain

_FENCE: Final = "---"
_EVALUATIONS: Final = ("programmatic", "rubric")


class Frontmatter(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that the rubric's tools use; `values` holds all as they were read."""

    evaluation: str | None = None
    agent: str | None = None
    model: str | None = None
    model_provider: str | None = None
    primary_outputs: tuple[str, ...] = ()
    strict_evaluation: bool = False
    values: Mapping[str, Any] = {}


def split(text: str) -> tuple[str | None, str, int]:
    """The head (None where there is none), the body, and the number of the body's first line."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return None, text, 1
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in (_FENCE, "..."):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), number + 2
    return None, text, 1


def read_frontmatter(head: str) -> tuple[Frontmatter, tuple[Doubt, ...]]:
    """Never fails: what cannot be read is a doubt, and the rest of the runbook is read all the same."""
    if not head.strip():
        return Frontmatter(), ()
    try:
        values = load_plain(head.encode("utf-8", "replace"))
    except YamlError as error:
        line = getattr(error, "line", None)
        return Frontmatter(), (
            Doubt(
                code="frontmatter_malformed",
                message=f"the frontmatter is not YAML: {error}",
                severity="error",
                line=None if line is None else line + 1,
            ),
        )
    if values is None:
        return Frontmatter(), ()
    if not isinstance(values, dict):
        return Frontmatter(), (_doubt(head, "", "frontmatter_malformed", "the frontmatter is no mapping"),)
    return _read(head, values)


def _read(head: str, values: dict[str, Any]) -> tuple[Frontmatter, tuple[Doubt, ...]]:
    doubts = []

    def text(key: str) -> str | None:
        value = values.get(key)
        if value is None or isinstance(value, str):
            return value
        doubts.append(_doubt(head, key, "frontmatter_type", f"{key} should be text, it is {value!r}"))
        return None

    evaluation = text("evaluation")
    if evaluation is not None and evaluation not in _EVALUATIONS:
        message = f"evaluation is {evaluation!r}; known are {' and '.join(_EVALUATIONS)}"
        doubts.append(_doubt(head, "evaluation", "evaluation_unknown", message))
    text("version")
    strict = values.get("strict_evaluation")
    if strict is not None and not isinstance(strict, bool):
        doubts.append(
            _doubt(head, "strict_evaluation", "frontmatter_type", "strict_evaluation should be true or false")
        )
    outputs = values.get("primary_outputs")
    named = [outputs] if isinstance(outputs, str) else outputs if isinstance(outputs, list) else []
    if outputs is not None and not (named and all(isinstance(one, str) for one in named)):
        doubts.append(
            _doubt(head, "primary_outputs", "frontmatter_type", "primary_outputs should be a list of paths")
        )
    return (
        Frontmatter(
            evaluation=evaluation,
            agent=text("agent"),
            model=text("model"),
            model_provider=text("model_provider"),
            primary_outputs=tuple(one for one in named if isinstance(one, str)),
            strict_evaluation=strict is True,
            values=values,
        ),
        tuple(doubts),
    )


def _doubt(head: str, key: str, code: str, message: str) -> Doubt:
    lines = head.split("\n")
    at = next((n for n, line in enumerate(lines, 2) if key and line.startswith(f"{key}:")), 1)
    return Doubt(code=code, message=message, line=at)

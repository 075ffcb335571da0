"""What the readers of a judge file's fields share: a node's value, and keys that are no fields."""

from collections.abc import Iterable
from typing import Any, Final

from sandbox_judge.recipe.diagnostics import Findings, clipped
from sandbox_judge.yaml_tree import UNRESOLVED, MappingNode, Node, Scalar

# What people write into judge files, and where it lives.
_ELSEWHERE: Final = {
    **dict.fromkeys(
        ("verdict", "verdicts", "labels", "choices", "scale", "output", "output_schema"),
        "a judge's verdicts are always pass, fail and not_applicable: say in `instructions` when each is due",
    ),
    **dict.fromkeys(
        ("threshold", "pass_threshold", "min_score", "score"),
        "a judge gives a verdict, not a score: say in `instructions` what passes; rates have their floors in "
        "`guard` and `calibrate`",
    ),
    **dict.fromkeys(
        ("enabled", "disabled"),
        "switching judges on and off is a live setting: `judges enable NAME` or `judges disable NAME`",
    ),
    **dict.fromkeys(
        ("sample_rate", "sampling", "sample"),
        "sampling is a live setting: `judges sample-rate NAME RATE`",
    ),
    "model": "the model stands under `llm`: `llm: {model: ...}`",
    "provider": "the provider stands under `llm`: `llm: {provider: ...}`",
    **dict.fromkeys(("prompt", "rubric", "system"), "the rubric stands under `instructions`"),
    **dict.fromkeys(("gate", "when", "if", "match"), "the gate stands under `on`"),
    **dict.fromkeys(("temperature", "max_tokens", "reasoning_effort"), "it stands under `llm.request`"),
    **dict.fromkeys(("timeout_ms", "max_retries", "max_retry_delay_ms"), "it stands under `llm.transport`"),
    **dict.fromkeys(("base_url", "api_key_env"), "it stands under `llm.local`"),
    **dict.fromkeys(
        ("api_key", "token"),
        "no key stands in a recipe: `llm.local.api_key_env` names the variable that holds it",
    ),
    **dict.fromkeys(
        ("timeout", "budget_ms", "budget"),
        "a call's limit is `llm.transport.timeout_ms`; the run's budget is a live setting",
    ),
}


def unknown_fields(
    node: MappingNode, known: Iterable[str], code: str, label: str, findings: Findings
) -> None:
    """Report every key of `node` that is not in `known`, with the place where it belongs if that is known."""
    for name, (key, _) in node.pairs.items():
        if name in known:
            continue
        supported = f"supported fields: {', '.join(known)}"
        hint = _ELSEWHERE.get(name.lower())
        findings.error(
            code,
            f"{label} has the unknown field '{clipped(name)}'",
            key,
            f"{hint}; {supported}" if hint else supported,
        )


def value_at(node: Node | None) -> Any:
    """The JSON value of a scalar; the node itself of a collection; None for null and for nothing."""
    return node.value if isinstance(node, Scalar) else node


def is_text(node: Node | None) -> bool:
    return isinstance(node, Scalar) and type(node.value) is str


def is_faulty(node: Node | None) -> bool:
    """Whether the scalar has a fault of its own already, so that its field needs no second one."""
    return isinstance(node, Scalar) and node.value is UNRESOLVED

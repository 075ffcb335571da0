"""What is valid in a judge file and surely not meant: warnings for `check` (`spec/judge-file.md`, Gate).

Not run by the hook. Each warning carries the code of the field that it is about.
"""

import re
from typing import Final

from sandbox_judge.gate.language import GateSyntaxError, RegexLiteral, literal_of
from sandbox_judge.recipe.diagnostics import Diagnostic, Findings, clipped
from sandbox_judge.yaml_tree import MappingNode, Node, Scalar, SequenceNode

# The fields that events have; a name that ends in a dot starts a path of the conversation's own.
EVENT_FIELDS: Final = {
    "message": ("role", "text", "name", "parts."),
    "tool": ("name", "args", "args.", "text", "status", "id"),
    "feedback": (
        "name", "sentiment", "value", "value.", "comments", "user_id", "agent_name",
        "properties", "properties.",
    ),
}  # fmt: skip
_ROLES: Final = ("system", "user", "assistant")
_STATUSES: Final = ("ok", "error", "missing")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Written so that everybody sees the type: true, ~, 1, -0.5, 1e3; not yes, 0x1F, 1_000 or 017.
_IS_OBVIOUS: Final = re.compile(
    r"true|false|null|~|[+-]?(?:(?!0[0-9])[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    re.IGNORECASE | re.ASCII,
)
# YAML 1.1 readers take these for dates and base-60 numbers.
_LOOKS_LIKE_TIME: Final = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[Tt ].*)?|[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.\d*)?", re.ASCII
)


def lint_judge(path: str, root: MappingNode) -> tuple[Diagnostic, ...]:
    """Warnings about a judge file's tree. Says nothing of what is an error anyway."""
    findings = Findings(path)
    _lint_model(root.get("llm"), findings)
    on = root.get("on")
    if on is not None:
        _lint_on(on, root.pairs["on"][0], findings)
    return tuple(findings.found)


def _lint_model(llm: Node | None, findings: Findings) -> None:
    model = llm.get("model") if isinstance(llm, MappingNode) else None
    if isinstance(model, Scalar) and model.plain and _LOOKS_LIKE_TIME.fullmatch(model.text):
        findings.warning(
            "llm.model_invalid",
            f"llm.model {clipped(model.text)} looks like a date or a time: other readers take it for one",
            model,
            f"put it in quotes: '{clipped(model.text)}'",
        )


def _lint_on(on: Node, key: Scalar, findings: Findings) -> None:
    empty = (isinstance(on, SequenceNode) and not on.items) or (isinstance(on, MappingNode) and not on.pairs)
    if empty or (isinstance(on, Scalar) and on.value is None):
        findings.warning(
            "on_invalid",
            "on is empty, so the judge applies to every conversation",
            key,
            "leave `on` out if that is meant; else write the matchers",
        )
    if not isinstance(on, SequenceNode):
        return
    for index, entry in enumerate(on.items):
        event = entry.get("event") if isinstance(entry, MappingNode) else None
        match = entry.get("match") if isinstance(entry, MappingNode) else None
        if isinstance(event, Scalar) and event.text in EVENT_FIELDS and isinstance(match, MappingNode):
            _lint_match(event.text, match, f"on[{index}].match", findings)


def _lint_match(event: str, match: MappingNode, place: str, findings: Findings) -> None:
    for field, (key, target) in match.pairs.items():
        if field and not _is_field(event, field):
            known = ", ".join(f"{name}<path>" if name.endswith(".") else name for name in EVENT_FIELDS[event])
            findings.warning(
                "on.match_field_invalid",
                f"{place}: a {event} event has no field '{clipped(field)}', so this entry never matches",
                key,
                f"the fields of a {event} event are {known}",
            )
        _lint_target(event, field, target, f"{place}.{clipped(field)}", findings)
    if event == "message" and "text" in match.pairs and "role" not in match.pairs:
        findings.warning(
            "on.match_invalid",
            f"{place} looks at text of any role: the system prompt is a message event too",
            match.pairs["text"][0],
            "add `role: user` or `role: assistant`",
        )


def _is_field(event: str, field: str) -> bool:
    if field.rpartition(".")[2] == "pattern_id" or field in ("environment", "runtime_group"):
        return True  # an error already
    return any(
        field.startswith(name) and field != name if name.endswith(".") else field == name
        for name in EVENT_FIELDS[event]
    )


def _lint_target(event: str, field: str, target: Node, place: str, findings: Findings) -> None:
    if isinstance(target, SequenceNode):
        if not target.items:
            findings.warning(
                "on.match_invalid",
                f"{place} is an empty list, which nothing matches",
                target,
                "list what may match",
            )
        for item in target.items:
            _lint_target(event, field, item, place, findings)
    elif isinstance(target, MappingNode):
        findings.warning(
            "on.match_invalid",
            f"{place} is a mapping: only a field that equals it as JSON matches",
            target,
            f"to look inside the field, write a dotted path such as `{clipped(field)}.key`",
        )
    elif isinstance(target.value, str):
        _lint_text(event, field, target, place, findings)
    else:
        _lint_word(event, field, target, place, findings)


def _lint_word(event: str, field: str, target: Scalar, place: str, findings: Findings) -> None:
    """A plain word that is no text. Where the field is always text, it cannot match."""
    is_text = field in (
        "role",
        "text",
        "status",
        "sentiment",
        "comments",
        "id",
        "user_id",
        "agent_name",
        "name",
    )
    if target.tag is None and (is_text or not _IS_OBVIOUS.fullmatch(target.text)):
        findings.warning(
            "on.match_invalid",
            f"{place}: {clipped(target.text) or 'nothing'} is read as {_shown(target.value)}, not as text",
            target,
            f"put it in quotes if the word itself is meant: '{clipped(target.text)}'",
        )


def _shown(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lint_text(event: str, field: str, target: Scalar, place: str, findings: Findings) -> None:
    text = target.text
    try:
        literal = literal_of(text)
    except GateSyntaxError:
        return  # an error already
    if _CONTROL.search(text):
        findings.warning(
            "on.regex_invalid",
            f"{place} holds a control character: in double quotes, \\b is a backspace",
            target,
            "write a regex in single quotes, where a backslash stays one",
        )
    if literal is not None:
        _lint_regex(literal, target, place, findings)
    elif text.startswith("/"):
        findings.warning(
            "on.regex_invalid",
            f"{place} starts with a slash and has no second one: it is text that the whole field must equal",
            target,
            f"write {clipped(text)}/ if a regex is meant",
        )
    elif event == "message" and field == "role" and text not in _ROLES:
        _lint_choice(text, _ROLES, target, place, findings)
    elif event == "tool" and field == "status" and text not in _STATUSES:
        _lint_choice(text, _STATUSES, target, place, findings)


def _lint_choice(text: str, choices: tuple[str, ...], target: Scalar, place: str, findings: Findings) -> None:
    findings.warning(
        "on.match_invalid",
        f"{place}: '{clipped(text)}' is never its value, so this never matches",
        target,
        f"the values are {', '.join(choices)}",
    )


def _lint_regex(literal: RegexLiteral, target: Scalar, place: str, findings: Findings) -> None:
    if not literal.pattern:
        findings.warning(
            "on.regex_invalid",
            f"{place} is an empty pattern, which matches everything",
            target,
            "leave the field out if that is meant",
        )
    elif literal.pattern != literal.pattern.strip():
        findings.warning(
            "on.regex_invalid",
            f"{place}: the pattern starts or ends with a blank, which must then stand in the text",
            target,
            "remove it, or write it as [ ] if it is meant",
        )

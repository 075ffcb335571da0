"""The `on` block of a judge file: a tree node to matchers, with every fault."""

from collections.abc import Callable
from typing import Final, cast

from sandbox_judge.gate.language import GateSyntaxError, RegexLiteral, literal_of
from sandbox_judge.recipe.diagnostics import Findings, clipped
from sandbox_judge.recipe.fields import is_faulty, is_text, unknown_fields, value_at
from sandbox_judge.recipe.judge import EventKind, Matcher
from sandbox_judge.yaml_tree import MappingNode, Node, Scalar, SequenceNode, value_of

EVENTS: Final = ("message", "tool", "feedback")
PLATFORM_FIELDS: Final = ("environment", "runtime_group")

Compile = Callable[[RegexLiteral], object]
"""Raises GateSyntaxError for a pattern that the engine refuses."""


def is_prohibited(field: str) -> bool:
    """Whether a match field belongs to the platform, so that a recipe may not gate on it."""
    return field in PLATFORM_FIELDS or field.rpartition(".")[2] == "pattern_id"


def read_on(node: Node | None, findings: Findings, compiles: Compile) -> tuple[Matcher, ...]:
    """The gate's matchers; none where the judge always applies (absent, null, `{}`, `[]`)."""
    if value_at(node) is None or is_faulty(node) or (isinstance(node, MappingNode) and not node.pairs):
        return ()
    if not isinstance(node, SequenceNode):
        findings.error(
            "on_invalid",
            "on must be a list of matchers",
            node,
            "write entries such as `- event: message` with a `match:` below; leave `on` out to judge always",
        )
        return ()
    reader = _GateReader(findings, compiles)
    return tuple(reader.matcher(item, index) for index, item in enumerate(node.items))


class _GateReader:
    def __init__(self, findings: Findings, compiles: Compile) -> None:
        self.findings = findings
        self.compiles = compiles
        # Compiling costs; a literal that stands often is compiled once.
        self.checked: dict[str, str | None] = {}

    def matcher(self, node: Node, index: int) -> Matcher:
        """One entry of `on`. What is returned counts only if nothing was found."""
        if not isinstance(node, MappingNode):
            if not is_faulty(node):
                self.findings.error(
                    "on.matcher_invalid",
                    f"on[{index}] must be a mapping with an event and, if wanted, a match",
                    node,
                    "write `- event: message`",
                )
            return Matcher(event="message")
        unknown_fields(node, ("event", "match"), "on.matcher_unknown_field", f"on[{index}]", self.findings)
        event = self.event(node, index)
        match = node.get("match")
        if match is None:
            return Matcher(event=event)
        if not isinstance(match, MappingNode):
            if not is_faulty(match):
                self.findings.error(
                    "on.match_invalid",
                    f"on[{index}].match must be a mapping of fields to what they must be",
                    match,
                    "leave `match` out to take every event of the kind",
                )
            return Matcher(event=event)
        for field, (key, target) in match.pairs.items():
            self.field(field, key, index)
            self.target(target, f"on[{index}].match.{clipped(field)}")
        return Matcher(event=event, match=value_of(match))

    def event(self, node: MappingNode, index: int) -> EventKind:
        event = node.get("event")
        if isinstance(event, Scalar) and is_text(event) and event.text in EVENTS:
            return cast(EventKind, event.text)
        if not is_faulty(event):
            written = f", not '{clipped(event.text)}'" if isinstance(event, Scalar) else ""
            self.findings.error(
                "on.event_invalid",
                f"on[{index}].event must be message, tool or feedback{written}",
                event or node,
                "a call and its result are one `tool` event; what is said is a `message` event",
            )
        return "message"

    def field(self, field: str, key: Scalar, index: int) -> None:
        if not field:
            self.findings.error(
                "on.match_field_invalid",
                f"on[{index}].match has an empty field",
                key,
                "write a field such as `text`, or a dotted path such as `args.city`",
            )
        elif is_prohibited(field):
            self.findings.error(
                "on.match_field_prohibited",
                f"on[{index}].match may not look at '{clipped(field)}': it is the platform's",
                key,
                "gate on what was said and done; where judges run is a live setting",
            )

    def target(self, node: Node, place: str) -> None:
        if isinstance(node, SequenceNode):
            for item in node.items:
                self.target(item, place)
        elif isinstance(node, Scalar) and is_text(node):
            if node.text not in self.checked:
                self.checked[node.text] = self.fault_of(node.text)
            fault = self.checked[node.text]
            if fault is not None:
                self.findings.error(
                    "on.regex_invalid",
                    f"{place}: {fault}",
                    node,
                    "the syntax is that of Rust's regex crate: https://docs.rs/regex/latest/regex/#syntax",
                )

    def fault_of(self, target: str) -> str | None:
        try:
            literal = literal_of(target)
            if literal is not None:
                self.compiles(literal)
        except GateSyntaxError as error:
            return str(error)
        return None

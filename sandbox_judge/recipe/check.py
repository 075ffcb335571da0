"""All judge files of a recipe at once: every fault and doubt, ordered (`spec/judge-file.md`, Diagnostics)."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from sandbox_judge.gate.language import GateSyntaxError, RegexLiteral, literal_of
from sandbox_judge.gate.regex import compile_regex
from sandbox_judge.recipe.diagnostics import Diagnostic, Findings, clipped, in_order
from sandbox_judge.recipe.gate_fields import Compile
from sandbox_judge.recipe.judge_file import JudgeFile, duplicate_names, is_judge_path, judge_of
from sandbox_judge.recipe.lint import lint_judge
from sandbox_judge.yaml_core import read_document
from sandbox_judge.yaml_tree import MappingNode, Node, Scalar, SequenceNode

Probe = Callable[[RegexLiteral], str | None]
"""Tells why a regex would be slow, or None; may raise GateSyntaxError for one that is refused."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """`valid` means without errors; `judges` is the number of judge files, read or not."""

    diagnostics: tuple[Diagnostic, ...]
    judges: int
    files: tuple[JudgeFile, ...] = ()

    @property
    def valid(self) -> bool:
        return not any(d.is_error for d in self.diagnostics)

    def as_json(self) -> dict[str, Any]:
        return {
            "valid": self.valid,
            "diagnostics": [d.as_json() for d in self.diagnostics],
            "resources": {"judges": self.judges},
        }


def check_recipe(
    files: Iterable[tuple[str, bytes]],
    *,
    unreadable: Iterable[tuple[str, str]] = (),
    others: Iterable[Diagnostic] = (),
    compiles: Compile = compile_regex,
    probe: Probe | None = None,
) -> CheckReport:
    """Check the judge files among `files` ((path in the recipe, bytes)).

    `unreadable` are judge files that could not be read, with the reason as a predicate ("is a symlink: ...");
    `others` are diagnostics of the rest of the recipe; `probe` tells of slow regexes.
    """
    read: list[JudgeFile] = []
    found = list(others)
    for path, content in files:
        if is_judge_path(path):
            file, warnings = _checked(path, content, compiles, probe)
            read.append(file)
            found += (*file.diagnostics, *warnings)
    missing = [
        Diagnostic(
            code="judge.unreadable",
            path=path,
            message=f"the file {reason}",
            help="a judge is a plain file, at most one megabyte, directly in judges/",
        )
        for path, reason in unreadable
    ]
    found += (*missing, *duplicate_names(read))
    return CheckReport(diagnostics=in_order(found), judges=len(read) + len(missing), files=tuple(read))


def _checked(
    path: str, content: bytes, compiles: Compile, probe: Probe | None
) -> tuple[JudgeFile, tuple[Diagnostic, ...]]:
    document = read_document(content)
    file = judge_of(path, content, document, compiles=compiles)
    root = document.root
    if not isinstance(root, MappingNode) or document.ended_early:
        return file, ()
    warnings = lint_judge(path, root)
    if probe is not None and file.judge is not None:
        warnings += _slow(path, root, probe)
    return file, warnings


def _slow(path: str, root: MappingNode, probe: Probe) -> tuple[Diagnostic, ...]:
    findings = Findings(path)
    told: set[str] = set()
    for target in _texts(root.get("on")):
        literal = literal_of(target.text) if target.text not in told else None
        told.add(target.text)
        if literal is None:
            continue
        try:
            reason = probe(literal)
        except GateSyntaxError:
            continue
        if reason is not None:
            findings.warning(
                "on.regex_invalid",
                f"the regex {clipped(target.text)} is slow: {reason}",
                target,
                "make it simpler",
            )
    return tuple(findings.found)


def _texts(node: Node | None) -> Iterable[Scalar]:
    """The strings that stand as gate targets, lists of them included."""
    if not isinstance(node, SequenceNode):
        return
    for entry in node.items:
        match = entry.get("match") if isinstance(entry, MappingNode) else None
        for _, target in match.pairs.values() if isinstance(match, MappingNode) else ():
            yield from _strings(target)


def _strings(node: Node) -> Iterable[Scalar]:
    if isinstance(node, SequenceNode):
        for item in node.items:
            yield from _strings(item)
    elif isinstance(node, Scalar) and isinstance(node.value, str):
        yield node

"""A judge file: its exact bytes to a `Judge`, or to every fault that it has (`spec/judge-file.md`)."""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import sha256
from sandbox_judge.gate.regex import compile_regex
from sandbox_judge.recipe.diagnostics import Diagnostic, Findings, clipped, in_order
from sandbox_judge.recipe.fields import is_faulty, is_text, unknown_fields, value_at
from sandbox_judge.recipe.gate_fields import Compile, read_on
from sandbox_judge.recipe.judge import Judge, Llm
from sandbox_judge.recipe.llm_fields import read_llm
from sandbox_judge.yaml_core import read_document
from sandbox_judge.yaml_scalars import WHITE_SPACE
from sandbox_judge.yaml_tree import Document, MappingNode, Node, Scalar, value_of

FIELDS: Final = ("description", "instructions", "judge", "llm", "name", "on", "type")
MAX_NAME: Final = 255
MAX_DESCRIPTION: Final = 2_000
NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
ONLINE: Final = "online"
# Judges that something else runs: an evaluation's trials, a policy's requests.
OTHER_TYPES: Final = ("offline", "mission")


class JudgeFile(msgspec.Struct, frozen=True, kw_only=True):
    """What one file is. `judge` is None where it has an error or is not for this hook (`not_online`).

    `name` is there whenever it can be read, so that a broken definition can be accounted for by name.
    `definition_hash` is of the exact bytes.
    """

    path: str
    definition_hash: str
    diagnostics: tuple[Diagnostic, ...] = ()
    judge: Judge | None = None
    name: str | None = None
    not_online: bool = False

    @property
    def is_valid(self) -> bool:
        return not any(d.is_error for d in self.diagnostics)


def is_judge_path(path: str) -> bool:
    """Whether a path of the recipe is a judge file: a direct child of `judges/` ending in .yaml or .yml."""
    folder, slash, name = path.partition("/")
    return folder == "judges" and bool(slash) and "/" not in name and name.endswith((".yaml", ".yml"))


def read_judge_file(path: str, content: bytes, *, compiles: Compile = compile_regex) -> JudgeFile:
    """Read one judge file. Never raises for what `content` holds.

    `compiles` checks a regex (up to 100 ms for the worst that the engine takes); the engine is loaded for the
    first file that holds one.
    """
    return judge_of(path, content, read_document(content), compiles=compiles)


def judge_of(
    path: str, content: bytes, document: Document, *, compiles: Compile = compile_regex
) -> JudgeFile:
    """As `read_judge_file`, of a document that was read from `content` already."""
    findings = Findings(path)
    for fault in document.faults:
        findings.error(
            "yaml_malformed", f"the file is not valid YAML: {fault.message}", fault, "mend the YAML"
        )
    digest = sha256(content)
    root = document.root
    if not isinstance(root, MappingNode):
        if not document.faults:
            findings.error(
                "invalid", "a judge file must hold a mapping", root or _START, "start with `name: my-judge`"
            )
        return JudgeFile(path=path, definition_hash=digest, diagnostics=tuple(findings.found))
    if document.ended_early:
        name = _name(root, Findings(path))
        return JudgeFile(path=path, definition_hash=digest, diagnostics=tuple(findings.found), name=name)
    kind = value_at(root.get("type"))
    if kind == "mission":
        name = _name(root, findings)
        return JudgeFile(
            path=path,
            definition_hash=digest,
            diagnostics=in_order(findings.found),
            name=name,
            not_online=True,
        )
    name, judge = _definition(path, digest, root, findings, compiles)
    not_online = kind in OTHER_TYPES
    valid = not findings.found and not not_online
    return JudgeFile(
        path=path,
        definition_hash=digest,
        diagnostics=in_order(findings.found),
        judge=judge if valid else None,
        name=name,
        not_online=not_online,
    )


class _Start(msgspec.Struct, frozen=True):
    line: int = 1
    column: int = 1


_START: Final = _Start()


def _definition(
    path: str, digest: str, root: MappingNode, findings: Findings, compiles: Compile
) -> tuple[str | None, Judge | None]:
    """The readable name, and the judge: whole where nothing was found, else None or of no account."""
    unknown_fields(root, FIELDS, "unknown_field", "the judge", findings)
    _type(root.get("type"), findings)
    name = _name(root, findings)
    description = _description(root.get("description"), findings)
    instructions = _instructions(root, findings)
    on = read_on(root.get("on"), findings, compiles)
    llm = read_llm(root.get("llm"), root, findings)
    if name is None or llm is None or findings.found:
        return name, None
    return name, Judge(
        name=name,
        description=description,
        instructions=instructions,
        on=on,
        llm=llm,
        path=path,
        definition_hash=digest,
        normalised=_normalised(name, description, instructions, root.get("on"), llm),
    )


def _type(node: Node | None, findings: Findings) -> None:
    if node is None or is_faulty(node) or value_at(node) in (ONLINE, *OTHER_TYPES):
        return
    findings.error(
        "type_invalid",
        "type must be online (the default), offline or mission",
        node,
        "leave `type` out: this hook runs online judges",
    )


def _name(root: MappingNode, findings: Findings) -> str | None:
    if "name" in root.pairs and "judge" in root.pairs:
        findings.error(
            "name_conflict",
            "a judge may not have both name and judge",
            root.pairs["judge"][0],
            "keep `name`; `judge` is its old spelling",
        )
        return None
    node = root.get("name") or root.get("judge")
    if is_faulty(node) or "name" in root.repeated or "judge" in root.repeated:
        return None
    if value_at(node) is None:
        findings.error("name_missing", "a judge must have a name", node or root, "add `name: my-judge`")
        return None
    if not isinstance(node, Scalar) or not is_text(node) or not node.text.strip(WHITE_SPACE):
        message = "name must be text"
    elif not NAME.fullmatch(node.text):
        message = f"name must be kebab-case, not '{clipped(node.text)}'"
    elif len(node.text) > MAX_NAME:
        message = f"name must have at most {MAX_NAME} characters"
    else:
        return node.text
    findings.error(
        "name_invalid",
        message,
        node,
        "write lower-case letters and digits, joined by single hyphens; put a number in quotes",
    )
    return None


def _description(node: Node | None, findings: Findings) -> str | None:
    if value_at(node) is None or is_faulty(node):
        return None
    if isinstance(node, Scalar) and is_text(node):
        if len(node.text) <= MAX_DESCRIPTION:
            return node.text
        message = f"description has {len(node.text):,} characters; at most {MAX_DESCRIPTION:,} are allowed"
    else:
        message = "description must be text"
    findings.error("description_invalid", message, node, "shorten it, put it in quotes, or leave it out")
    return None


def _instructions(root: MappingNode, findings: Findings) -> str:
    node = root.get("instructions")
    if is_faulty(node):
        return ""
    if value_at(node) is None:
        findings.error(
            "instructions_missing",
            "a judge must have instructions",
            node or root,
            "write what passes and what fails under `instructions: |`",
        )
        return ""
    if isinstance(node, Scalar) and is_text(node):
        if node.text.strip(WHITE_SPACE):
            return node.text
        message = "instructions must not be blank"
    else:
        message = "instructions must be text"
    findings.error(
        "instructions_invalid", message, node, "write what passes and what fails under `instructions: |`"
    )
    return ""


def _normalised(
    name: str, description: str | None, instructions: str, on: Node | None, llm: Llm
) -> dict[str, Any]:
    """The form that the format's own checker gives: defaults filled in, absent options left out."""
    request: dict[str, Any] = {"temperature": llm.request.temperature}
    if llm.request.max_tokens is not None:
        request["max_tokens"] = llm.request.max_tokens
    if llm.request.reasoning_effort is not None:
        request["reasoning_effort"] = llm.request.reasoning_effort
    gate = value_of(on)
    out: dict[str, Any] = {"name": name}
    if description is not None:
        out["description"] = description
    out["on"] = {} if gate is None else gate
    out["llm"] = {
        "provider": llm.provider,
        "model": llm.model,
        "request": request,
        "transport": msgspec.to_builtins(llm.transport),
    }
    if llm.local is not None:
        out["llm"]["local"] = msgspec.to_builtins(llm.local)
    return {**out, "instructions": instructions}


def duplicate_names(files: Iterable[JudgeFile]) -> tuple[Diagnostic, ...]:
    """A `judge.name_duplicate` for each file whose name an earlier path has already."""
    first: dict[str, str] = {}
    found = []
    for file in sorted(files, key=lambda f: f.path):
        if file.name is None:
            continue
        if file.name not in first:
            first[file.name] = file.path
            continue
        found.append(
            Diagnostic(
                code="judge.name_duplicate",
                path=file.path,
                message=f"the name '{file.name}' is taken by {first[file.name]}",
                help="give every judge of the recipe a name of its own",
            )
        )
    return tuple(found)

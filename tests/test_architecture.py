"""Data flows one way: a module imports only from lower layers, and at its top (style guide 2; design 2)."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sandbox_judge"

# Lowest first. A module imports only from layers above its own line in this list; one that is not listed
# fails the test, so that each new module chooses its layer. `x.*` lists every module of a package.
LAYERS: list[list[str]] = [
    ["call_options", "hosts.host", "hosts.places", "hosts.payload", "hosts.detach"],
    ["client", "hosts.codex", "hosts.locate"],
    ["version", "yaml_scalars", "yaml_tree", "errors", "nulls", "canonical", "clock", "terminal"],
    ["yaml_strict", "durations", "contract", "caps", "figures", "envelope", "trust"],
    ["yaml_core", "log", "paths", "masking", "ids", "hosts.jobs"],
    ["hosts.entry"],
    [
        "conversation.model",
        "recipe.judge",
        "recipe.leash",
        "recipe.git_objects",
        "recipe.git_repository",
        "recipe.diagnostics",
        "recipe.base_url",
        "lanes.base",
        "sinks.base",
        "budget",
        "sampling",
    ],
    [
        "recipe.fields",
        "conversation.document",
        "settings",
        "recipe.git_process",
        "gate.language",
        "gate.engine",
        "gate.child",
        "gate.weight",
        "lanes.threads",
        "lanes.address",
    ],
    ["lanes.connect", "lanes.failures", "conversation.adapter", "conversation.parts", "recipe.git_reader"],
    ["conversation.feedback", "conversation.exchange", "conversation.streams", "recipe.git_revision"],
    [
        "conversation.plain_chat",
        "conversation.builder",
        "conversation.claude_tree",
        "conversation.assistants_objects",
        "conversation.responses_stream",
        "recipe.git",
        "recipe.worktree",
    ],
    ["conversation.blocks", "conversation.gemini_parts", "conversation.responses_parts"],
    ["conversation.responses_items"],
    [
        "conversation.rows",
        "conversation.codex_items",
        "conversation.inspect_messages",
        "conversation.openhands_events",
        "conversation.zstd",
    ],
    ["conversation.zip_members"],
    ["conversation.inspect_archive"],
    ["conversation.acts", "conversation.span_records"],
    ["conversation.dialect_parts", "conversation.tool_runs"],
    ["conversation.history"],
    ["conversation.ui_parts"],
    ["conversation.dialects"],
    ["conversation.span_attributes"],
    ["conversation.span_tree"],
    [
        "grading.instruments",
        "grading.json_objects",
        "grading.thoughts",
        "grading.shortening",
        "grading.view_lines",
        "lanes.negotiation",
        "sinks.spool_file",
        "sinks.unix_connect",
    ],
    ["conversation.formats.*", "gate.regex", "lanes.memory", "lanes.http", "sinks.spool"],
    ["gate.worker", "gate.match", "recipe.llm_fields", "recipe.gate_fields"],
    ["gate.table", "gate.probe"],
    [
        "conversation.detect",
        "conversation.events",
        "recipe.judge_file",
        "recipe.lint",
        "recipe.rest",
        "recipe.template",
    ],
    ["conversation.read", "recipe.load", "recipe.schema", "gate.scan", "grading.view", "grading.planted"],
    [
        "lanes.openai_reply",
        "lanes.private_loop",
        "lanes.litellm_guard",
        "gate.nearest",
        "recipe.check",
        "grading.prompt",
        "grading.reply",
    ],
    ["gate.gate", "grading.evidence"],
    ["grading.grade", "contract_digest"],
    ["judgement"],
    ["ledger"],
    ["event_schema"],
    ["lanes.openai_wire", "lanes.metered"],
    ["lanes.litellm_lane", "lanes.local"],
    ["sinks.stdout", "sinks.file", "sinks.unix", "sinks.https", "sinks.outbox"],
    ["sinks.otlp_event"],
    ["sinks.otlp"],
    ["settings_files", "access", "stdin"],
    ["settings_edit"],
    ["lanes.choose", "sinks.open", "sinks.delivery", "sinks.flush"],
    ["hook_input"],
    ["recipe.loaded"],
    ["admission"],
    ["calibration.row", "calibration.leaks", "calibration.shortcuts", "calibration.files"],
    ["calibration.progress", "calibration.correct", "calibration.verdict_log"],
    ["calibration.agreement", "calibration.record"],
    ["calibration.state", "calibration.live"],
    ["calibration.lookup", "calibration.shelf"],
    ["calibration.dataset", "calibration.imports", "calibration.target"],
    ["calibration.edit", "calibration.check", "calibration.looks"],
    ["calibration.labelling", "calibration.of_recipe"],
    ["settlement"],
    ["rubric.criteria", "rubric.markdown", "rubric.tree", "rubric.contained", "rubric.readers.child"],
    [
        "rubric.readers.pdf",
        "rubric.readers.word",
        "rubric.readers.sheet",
        "rubric.readers.slides",
        "rubric.readers.notebook",
        "rubric.frontmatter",
        "rubric.threshold_line",
        "rubric.table",
        "rubric.anchors",
        "rubric.scores",
        "rubric.documents",
        "rubric.sheet",
        "rubric.judge_model",
    ],
    ["rubric.runbook", "rubric.report", "rubric.outputs_view"],
    ["rubric.report_schema", "rubric.prompt"],
    ["rubric.scoring", "simple_judge.config", "grader.tools"],
    ["rubric.versions", "rubric.agent_run", "simple_judge.judging", "grader.trajectory"],
    ["rubric.loop", "grader.agent", "simple_judge"],
    ["grader.grade_file"],
    ["run_ports"],
    ["run"],
    ["assembly"],
    ["calibration.trials"],
    ["calibration.measure"],
    ["calibration.session"],
    ["calibration.present"],
    ["calibration.pages"],
    ["probes.variant", "probes.wording", "probes.count", "probes.document"],
    ["probes.makers", "probes.familiarity", "probes.pairs"],
    ["probes.session"],
    ["api", "hosts.goose_store", "hosts.commit"],
    ["hosts.document"],
    ["hosts.work", "hosts.shim", "hosts.jsonc", "hosts.plugins", "hosts.config_files", "hosts.receipts"],
    ["hosts.sweep", "hosts.notify"],
    ["hosts.shapes"],
    ["hosts.*"],
    ["integrations.handing"],
    ["integrations.*"],
    [
        "resident.plan",
        "resident.protocol",
        "resident.listening",
        "resident.notify",
        "resident.reply",
        "resident.slots",
    ],
    ["resident.reading", "resident.recipes", "resident.pacing"],
    ["resident.warm", "resident.door"],
    ["resident.server"],
    ["testing.model_server"],
    ["store", "store.migrations.versions.*"],
    ["store.event", "store.schema", "store.database", "store.lines"],
    ["store.records", "store.revision", "store.arrival"],
    ["store.months", "store.conversations", "store.given", "store.options"],
    ["store.migrate"],
    ["store.ingest", "store.retention"],
    ["store.writer"],
    ["store.collector", "store.tally", "store.forwarding"],
    ["store.commit_order", "store.evidence", "store.edits", "store.forwarder"],
    ["store.trend", "store.listing", "store.asking"],
    ["store.compare", "store.corrected"],
    ["store.experiment", "store.rendering", "store.html", "store.page_server"],
    ["store.report", "store.regrading"],
    ["coverage.observed", "coverage.survival"],
    ["coverage.schedule"],
    ["coverage.advice"],
    ["coverage.plot", "coverage.stored"],
    ["coverage.report", "coverage.rehearsal"],
    ["testing.*"],
    ["cli.surface", "cli.crash", "cli.interrupts", "cli.run_arguments", "cli.present"],
    ["cli.hooks_install", "cli.run_request", "cli.rubric_common"],
    ["cli.judge_options", "cli.collect_otlp"],
    ["cli.rubric_score", "cli.rubric_loop", "cli.rubric_report"],
    ["cli.model_choice"],
    ["cli.*"],
    ["cli.main"],
    ["__init__", "__main__"],
]

# The places where an import may stand inside a function, and why (design, section 2).
DEFERRED = {
    "sinks.open": "the clients of the https: and otlp: sinks: only where one is asked for",
    "__init__": "the package's face imports nothing by itself",
    "sinks.otlp": "an optional extra, whose absence is told as an error of ours",
    "conversation.detect": "thirty adapters: 15 ms, and plain chat needs one",
    "paths": "platformdirs: only where the XDG rules do not hold",
    "calibration.agreement": "scikit-learn and numpy: an optional extra, seconds to import",
    "log": "structlog: 40 ms, only when there is something to say",
    "__main__": "the thin client: it starts in a tenth of the time that the command line takes",
    "cli.run": "what estimates latencies, under --simulate-budget alone",
    "cli.main": "the command table: a command imports only what it needs",
    "lanes.choose": "every lane: TLS and HTTP take 0.1 s, and most conversations concern no judge",
    "lanes.litellm_lane": "litellm itself: 6-8 s of CPU, in a worker thread",
    "lanes.local": "an optional extra",
    "hosts.notify": "tomlkit: an optional extra, for one host",
    "conversation.zstd": "an optional extra, for archives that are packed with it",
}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE).with_suffix("")
        name = ".".join(relative.parts)
        if name.endswith(".__init__"):
            if path.read_text().strip():
                found[name.removesuffix(".__init__")] = path
            continue
        found[name] = path
    return found


def layer_of(name: str) -> int | None:
    for index, layer in enumerate(LAYERS):
        if name in layer:
            return index
    for index, layer in enumerate(LAYERS):
        if any(entry.endswith(".*") and (name + ".").startswith(entry[:-1]) for entry in layer):
            return index
    return None


def imports(path: Path, known: dict[str, Path]) -> list[tuple[str, bool, int]]:
    """(module inside the package, at the top?, line) of every import."""
    tree = ast.parse(path.read_text())
    top = set()
    for node in tree.body:
        top.add(id(node))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            top.update(id(inner) for inner in ast.walk(node))
    out = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] != "sandbox_judge":
                out.append(("", id(node) in top, node.lineno))
                continue
            inner = name.removeprefix("sandbox_judge").removeprefix(".")
            while inner and inner not in known:
                inner = inner.rpartition(".")[0]
            out.append((inner or "__init__", id(node) in top, node.lineno))
    return out


@pytest.mark.parametrize("name", sorted(modules()))
def test_module_imports_only_from_lower_layers(name: str) -> None:
    known = modules()
    own = layer_of(name)
    assert own is not None, f"{name} is in no layer: add it to LAYERS"
    for imported, at_top, line in imports(known[name], known):
        assert at_top or name in DEFERRED, f"{name}:{line}: an import inside a function"
        if imported and at_top:
            theirs = layer_of(imported)
            assert theirs is not None and theirs < own, (
                f"{name}:{line} imports {imported} of layer {theirs}, own {own}"
            )

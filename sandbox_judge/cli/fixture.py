"""`fixture new|label|check|import`: the rows of a calibration set."""

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

from sandbox_judge.calibration.check import SetReport, check_dataset, set_faults
from sandbox_judge.calibration.dataset import Fault, read_dataset
from sandbox_judge.calibration.edit import append_rows
from sandbox_judge.calibration.files import dataset_path
from sandbox_judge.calibration.imports import Plan, import_rows, parse_map, parse_shares
from sandbox_judge.calibration.labelling import Labelling
from sandbox_judge.calibration.row import SPLITS, VERDICTS, new_row
from sandbox_judge.calibration.shortcuts import Shortcut
from sandbox_judge.calibration.target import judge_named, recipe_folder
from sandbox_judge.canonical import sanitised
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.hook_input import Subject, read_input
from sandbox_judge.recipe.git import JUDGE_ENDINGS, MAX_ALL_BYTES, MAX_JUDGE_BYTES
from sandbox_judge.recipe.load import RecipeSource, SourceFile
from sandbox_judge.recipe.loaded import loaded_recipe
from sandbox_judge.recipe.worktree import list_judges, read_files
from sandbox_judge.terminal import escaped

_SHORTCUTS_SHOWN: Final = 6


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "fixture",
        help="the rows of a calibration set: export, label, check, import",
        description="A judge's calibration set lies beside it, in judges/NAME.calibration.jsonl: protected "
        "conversations, and what a person says of each.",
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="new|label|check|import")
    _add_new(commands)
    _add_label(commands)
    _add_check(commands)
    _add_import(commands)
    parser.set_defaults(run=run)


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--judge", metavar="NAME", help="the judge whose set is meant")
    parser.add_argument("--recipe", metavar="DIR", help="the recipe's folder (default: this one)")
    parser.add_argument("--dataset", metavar="FILE", help="another file than the judge's own set")


def _add_person(parser: argparse.ArgumentParser, *, split: str) -> None:
    parser.add_argument("--approved-by", metavar="NAME", help="who stands for the labels")
    parser.add_argument("--split", metavar="SPLIT", help=split)


def _add_new(commands: Any) -> None:
    parser = commands.add_parser("new", help="export conversations as protected rows, without labels")
    parser.add_argument("conversation", nargs="+", metavar="CONVERSATION", help="files, or - for stdin")
    _add_set(parser)
    parser.add_argument("--id", metavar="ID", help="the row's id (default: the conversation's own)")
    parser.add_argument(
        "-o", "--output", choices=("append", "json"), default="append", help="json: to stdout"
    )


def _add_label(commands: Any) -> None:
    parser = commands.add_parser("label", help="ask a person about every row that has no label")
    _add_set(parser)
    _add_person(parser, split="put every row into this split instead of asking")


def _add_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="hashes, ids, labels, splits, leaks, balance, shortcuts")
    _add_set(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def _add_import(commands: Any) -> None:
    parser = commands.add_parser("import", help="take labels that exist already from CSV, TSV, JSON or JSONL")
    parser.add_argument("file", metavar="FILE")
    _add_set(parser)
    _add_person(parser, split="a split's name, or shares of train, dev and test such as 20/40/40")
    parser.add_argument("--expected-column", metavar="COLUMN", required=True, help="where the label stands")
    parser.add_argument("--map", default="", metavar="VALUE=WORD,…", help='such as "1=pass,-1=fail,0=skip"')
    parser.add_argument("--id-column", metavar="COLUMN")
    parser.add_argument("--split-column", metavar="COLUMN")
    parser.add_argument(
        "--conversation-column",
        metavar="COLUMN",
        help="a whole conversation (default: conversation, messages)",
    )
    parser.add_argument("--system-column", metavar="COLUMN", help="what grounds the answer")
    parser.add_argument("--user-column", metavar="COLUMN", help="what was asked; A,B puts columns together")
    parser.add_argument("--assistant-column", metavar="COLUMN", help="what was answered")
    parser.add_argument(
        "--pair-columns", metavar="FIRST,SECOND", help="two answers: rows for probes of pairs"
    )
    parser.add_argument("--note", metavar="TEXT", help="a note for every row")


def run(args: argparse.Namespace, env: Surface) -> int:
    """Raises UsageError, InputError, RecipeError."""
    actions = {"new": _new, "label": _label, "check": _check, "import": _import}
    return actions[args.action](args, env)


def _set_path(args: argparse.Namespace, env: Surface) -> Path:
    if args.dataset:
        return env.cwd / str(args.dataset)
    if not args.judge:
        raise UsageError("no set was named.", remedy="Give --judge NAME, or --dataset FILE.")
    if "/" in args.judge or args.judge.startswith("."):
        raise UsageError(f"{args.judge!r} is no judge's name.", where="--judge")
    return dataset_path(_recipe(args, env), args.judge)


def _recipe(args: argparse.Namespace, env: Surface) -> Path:
    return recipe_folder(args.recipe, env.environ.get("SANDBOX_JUDGE_RECIPE"), env.cwd)


def _new(args: argparse.Namespace, env: Surface) -> int:
    path = _set_path(args, env) if args.output == "append" else None
    taken = {row.id for row in read_dataset(path).rows} if path is not None and path.exists() else set()
    rows = []
    for name in args.conversation:
        for number, subject in enumerate(_subjects(name, env), 1):
            row = _exported(subject, args.id, name, number)
            if row["id"] in taken:
                raise InputError(
                    f"the set has a row {row['id']!r} already.", where=name, remedy="Give another --id."
                )
            taken.add(row["id"])
            rows.append(row)
    if path is None:
        for row in rows:
            env.out(json.dumps(sanitised(row)))
        return 0
    added = append_rows(path, rows)
    env.out(f"{added} row{'' if added == 1 else 's'} added to {escaped(str(path))}")
    return 0


def _subjects(name: str, env: Surface) -> tuple[Subject, ...]:
    try:
        data = env.stdin.read() if name == "-" else (env.cwd / name).read_bytes()
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot be read ({told}).", where=name) from error
    return read_input(data).subjects(every=True)


def _exported(subject: Subject, id: str | None, name: str, number: int) -> dict[str, Any]:
    source = f"export:{'stdin' if name == '-' else Path(name).name}"
    row = new_row(subject.conversation, id="", source=source)
    own = subject.conversation_id if subject.id_source != "input_hash" else None
    return row | {"id": id or own or f"row-{row['snapshot_hash'].removeprefix('sha256:')[:12]}"}


def _label(args: argparse.Namespace, env: Surface) -> int:
    path = _set_path(args, env)
    if args.split is not None and args.split not in SPLITS:
        raise UsageError(f"{args.split!r} is no split.", where="--split", remedy=f"{', '.join(SPLITS)}.")
    if args.approved_by is not None and not args.approved_by.strip():
        raise UsageError("nobody has a blank name.", where="--approved-by")

    def show(text: str) -> None:
        env.out(escaped(text, multiline=True))

    def ask(question: str) -> str | None:
        env.write(escaped(question, multiline=True).encode("utf-8", "replace"))
        env.stdout.flush()
        line = env.stdin.readline(4096)
        return line.decode("utf-8", "replace").rstrip("\n") if line else None

    if args.judge:
        judge = judge_named(_recipe_on_disk(_recipe(args, env)), args.judge)
        show(f"The judge's instructions:\n\n{judge.instructions.strip()}")
    sitting = Labelling(path, ask=ask, show=show, approved_by=args.approved_by, split=args.split)
    left = sitting.walk()
    show(f"\n{sitting.labelled} labelled; {left} still without a label.")
    return 0


def _recipe_on_disk(folder: Path) -> Any:
    names = list_judges(folder, JUDGE_ENDINGS) or ()
    found = read_files(folder, "judges", names, each=MAX_JUDGE_BYTES, together=MAX_ALL_BYTES)
    files = tuple(
        SourceFile(path=f"judges/{os.fsdecode(one.name)}", content=one.content, problem=one.problem)
        for one in found
    )
    source = RecipeSource(
        folder=folder, commit=None, id_hint="", id_origin="folder", has_judges=bool(names), files=files
    )
    return loaded_recipe(source)


def _check(args: argparse.Namespace, env: Surface) -> int:
    report = check_dataset(_set_path(args, env))
    if args.output == "json":
        env.out(json.dumps(sanitised(_as_json(report))))
    else:
        for line in _as_text(report):
            env.out(line)
    return 0 if report.valid else 1


def _as_json(report: SetReport) -> dict[str, Any]:
    dataset = report.dataset
    return {
        "valid": report.valid,
        "rows": len(dataset.fixtures),
        "pairs": len(dataset.pairs),
        "unlabelled": report.unlabelled,
        "dataset_hash": dataset.dataset_hash,
        "test_split_hash": dataset.test_split_hash,
        "balance": report.balance,
        "faults": [msgspec.to_builtins(fault) for fault in report.faults],
        "shortcuts": [
            {**msgspec.to_builtins(one), "agreement": round(one.agreement, 6)} for one in report.shortcuts
        ],
    }


def _as_text(report: SetReport) -> list[str]:
    dataset = report.dataset
    lines = [_told(fault, dataset.path) for fault in report.faults]
    lines.append(
        f"{len(dataset.fixtures)} rows, {len(dataset.pairs)} pairs, {report.unlabelled} without a label"
    )
    for split, counts in report.balance.items():
        told = ", ".join(f"{counts[word]} {word}" for word in VERDICTS)
        lines.append(f"  {split:5}  {told}")
    if report.shortcuts:
        majority = report.shortcuts[0].majority
        lines.append(f"What one feature alone would agree with (the commonest label: {majority:.1%}):")
        lines += [f"  {shortcut_line(one)}" for one in report.shortcuts[:_SHORTCUTS_SHOWN]]
    errors = Counter(fault.severity for fault in report.faults)
    lines.append(f"{errors['error']} errors, {errors['warning']} warnings")
    return lines


def shortcut_line(one: Shortcut) -> str:
    """One feature for a person; marked where it tells clearly more than the commonest label."""
    mark = "  <- tells the label" if one.tells else ""
    return f"{one.feature:20} {one.agreement:6.1%}  ({one.rule}){mark}"


def _told(fault: Fault, path: Path) -> str:
    where = f"{escaped(path.name)}:{fault.line}" if fault.line else escaped(path.name)
    line = f"{where}: {fault.severity} {fault.code} {escaped(fault.message)}"
    return f"{line}\n    {escaped(fault.help)}" if fault.help else line


def _import(args: argparse.Namespace, env: Surface) -> int:
    if not args.approved_by or not args.approved_by.strip():
        raise UsageError("nobody stands for the labels.", remedy="Give --approved-by NAME.")
    path = _set_path(args, env)
    name = Path(args.file).name
    try:
        data = (env.cwd / args.file).read_bytes()
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot be read ({told}).", where=args.file) from error
    taken = read_dataset(path).rows if path.exists() else ()
    found = import_rows(data, name=name, plan=_plan(args))
    both = {row.id for row in taken} & {row["id"] for row in found.rows}
    if both:
        raise InputError(
            f"the set has rows of these ids already: {', '.join(sorted(both)[:10])}.",
            where=name,
            remedy="Were they imported before? Nothing was written.",
        )
    added = append_rows(path, found.rows)
    counts = Counter(row["expected"] for row in found.rows)
    told = ", ".join(f"{number} {word}" for word, number in sorted(counts.items())) or "none"
    env.out(f"{added} rows added to {escaped(str(path))} ({told}); {found.skipped} skipped")
    return _doubts(path, env)


def _doubts(path: Path, env: Surface) -> int:
    for fault in set_faults(read_dataset(path).rows)[:20]:
        env.err(_told(fault, path))
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    shares, split = None, None
    if args.split is not None and "/" in args.split:
        shares = parse_shares(args.split)
    elif args.split is not None:
        if args.split not in SPLITS:
            raise UsageError(
                f"{args.split!r} is no split.",
                where="--split",
                remedy=f"{', '.join(SPLITS)}, or shares such as 20/40/40.",
            )
        split = args.split
    first, comma, second = (args.pair_columns or "").partition(",")
    if args.pair_columns and not (first and comma and second):
        raise UsageError("two columns are a pair.", where="--pair-columns", remedy="Write FIRST,SECOND.")
    return Plan(
        expected=args.expected_column,
        approved_by=args.approved_by.strip(),
        words=parse_map(args.map) if args.map else {},
        id=args.id_column,
        conversation=args.conversation_column,
        system=args.system_column,
        user=args.user_column,
        assistant=args.assistant_column,
        pair=(first, second) if comma else None,
        split=split,
        split_column=args.split_column,
        shares=shares,
        note=args.note,
    )

"""`probe JUDGE`: does only the suspected feature move the verdict."""

import argparse
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.calibration.agreement import require_science
from sandbox_judge.calibration.check import set_faults
from sandbox_judge.calibration.dataset import Dataset, Known, read_dataset, refuse
from sandbox_judge.calibration.edit import write_reports
from sandbox_judge.calibration.files import dataset_path
from sandbox_judge.calibration.pages import html_page, junit, markdown
from sandbox_judge.calibration.present import table
from sandbox_judge.calibration.progress import Bar
from sandbox_judge.canonical import sanitised
from sandbox_judge.cli.model_choice import Setting, add_model_flags, grader_of, setting_of, share
from sandbox_judge.cli.surface import Surface
from sandbox_judge.contract import CONTRACT_VERSION
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.nulls import Invalid
from sandbox_judge.probes.session import Probing
from sandbox_judge.probes.variant import PROBES
from sandbox_judge.terminal import escaped

_DEFAULT: Final = "length,order,surface,injection,pairs"
_FAULTS_TOLD: Final = 5
_DESCRIPTION: Final = """\
Changes only the suspected feature of conversations whose verdict is known, and counts the verdicts that
move, with a 95 % interval and McNemar's exact test of whether they move one way. `control` asks the same
again: what flips there flips by itself. Rows of the test split are never probed."""


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "probe",
        help="does only the suspected feature move the verdict",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model_flags(parser)
    parser.add_argument(
        "--only",
        default=_DEFAULT,
        metavar="PROBES",
        help=f"out of {', '.join(PROBES)} (default: all but familiarity, which needs a capable model)",
    )
    parser.add_argument("--split", choices=("train", "dev"), default="dev", help="which rows (default dev)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N rows, and pairs")
    parser.add_argument(
        "--max-flips", metavar="SHARE", help="exit code 1 where a variant moves more verdicts"
    )
    parser.add_argument("--html", metavar="FILE", help="a self-contained page")
    parser.add_argument("--markdown", metavar="FILE", help="for a pull request")
    parser.add_argument("--junit", metavar="FILE", help="JUnit XML for CI")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Raises UsageError, InputError, RecipeError, SettingsError, TrustError, MissingExtra."""
    return anyio.run(functools.partial(_run, args, env))


async def _run(args: argparse.Namespace, env: Surface) -> int:
    require_science()
    wanted = _wanted(args.only)
    most = share(args.max_flips, name="--max-flips") if args.max_flips is not None else None
    setting = await setting_of(args, env)
    dataset, rows = _rows(args, setting, env, wanted)
    bar = Bar(env.stderr, total=len(rows), terminal=env.stderr_is_terminal)
    async with grader_of(setting, env) as grader:
        if isinstance(grader.endpoint, Invalid):
            raise UsageError(f"the model cannot be asked: {grader.endpoint.message}.")
        probing = Probing(grader, dataset, wanted=wanted, step=lambda reused: bar.step(free=reused))
        try:
            await probing.run(rows, concurrency=setting.concurrency)
        finally:
            bar.end()
    document = _document(setting, dataset, args.split, probing)
    write_reports(
        {
            name: (env.cwd / path, data)
            for name, path, data in (
                ("html", args.html, html_page(None, document)),
                ("markdown", args.markdown, markdown(None, document).encode()),
                ("junit", args.junit, junit(None, document)),
            )
            if path
        }
    )
    if args.output == "json":
        env.out(json.dumps(sanitised(document), allow_nan=False))
    else:
        for line in _lines(document):
            env.out(line)
    moved = [one for one in document["probes"] if most is not None and (one["share"] or 0.0) > most]
    for one in moved:
        env.err(f"sandbox-judge: {one['probe']}, {one['variant']}: {one['share']:.1%} of verdicts moved")
    told = any(one["n"] for one in document["probes"])
    if not told:
        env.err("sandbox-judge: nothing is stated: no row has a verdict.")
    return 1 if moved or not told else 0


def _wanted(text: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    unknown = words - set(PROBES)
    if unknown or not words:
        raise UsageError(
            f"{', '.join(sorted(unknown)) or 'nothing'} is no probe.",
            where="--only",
            remedy=f"Write some of {','.join(PROBES)}.",
        )
    return words


def _rows(
    args: argparse.Namespace, setting: Setting, env: Surface, wanted: frozenset[str]
) -> tuple[Dataset, list[Known]]:
    path = env.cwd / args.dataset if args.dataset else dataset_path(setting.recipe, setting.judge.name)
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"{args.limit} rows are none.", where="--limit")
    dataset = read_dataset(path)
    refuse([*dataset.faults, *set_faults(dataset.rows)], path)
    fixtures = [row for row in dataset.fixtures if row.split == args.split and row.expected is not None]
    pairs = list(dataset.pairs) if "pairs" in wanted else []
    rows = [*(fixtures[: args.limit] if wanted != {"pairs"} else []), *pairs[: args.limit]]
    if not rows:
        raise InputError(
            f"there is no labelled row in the split {args.split}, and no pair.",
            where=str(path),
            remedy="`sandbox-judge fixture label` asks a person for labels.",
        )
    return dataset, rows


def _document(setting: Setting, dataset: Dataset, split: str, probing: Probing) -> dict[str, Any]:
    return {
        "judge": setting.judge.name,
        "judge_id": setting.judge_id,
        "definition_hash": setting.judge.definition_hash,
        "contract_version": CONTRACT_VERSION,
        "dataset_hash": dataset.dataset_hash,
        "split": split,
        "llm": setting.llm,
        "rows": probing.rows,
        "without_verdict": probing.without_verdict,
        "faults": [{"message": text, "count": n} for text, n in probing.faults.most_common(_FAULTS_TOLD)],
        "probes": probing.results(),
        "pairs": msgspec.to_builtins(probing.pairs) if probing.pairs.n else None,
    }


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    llm = document["llm"]
    yield f"Judge     {escaped(document['judge'])} ({llm['provider']}/{escaped(llm['model'])})"
    without = f"{document['without_verdict']} without a verdict"
    yield f"Rows      {document['rows']} of split {document['split']}; {without}"
    for fault in document["faults"]:
        yield f"          {fault['count']} x {escaped(fault['message'])}"
    yield ""
    head = ["probe", "variant", "flips", "share", "95 % interval", "to/from pass", "p"]
    yield from table(head, [_cells(one) for one in document["probes"]])
    if document["pairs"]:
        pairs = document["pairs"]
        yield ""
        yield (
            f"Pairs     {pairs['kept']} of {pairs['n']} keep their preference both ways; of these "
            f"{pairs['agreed']} of {pairs['labelled']} agree with the label; said first both times: "
            f"{pairs['first_both_times']}, second: {pairs['second_both_times']}"
        )
    for one in document["probes"]:
        for moved in one["moved"]:
            yield ""
            where = f"{escaped(moved['id'])}: {one['probe']}, {one['variant']}"
            yield f"{where}: {moved['before']} -> {moved['after']}"
            yield f"  changed: {escaped(moved['changed'])}"
            yield from (f"    {escaped(line)}" for line in moved["diff"])


def _cells(one: Mapping[str, Any]) -> list[str]:
    interval = one["interval"]
    return [
        one["probe"],
        one["variant"],
        f"{one['flips']}/{one['n']}",
        one["undefined"] if one["share"] is None else f"{one['share']:.3f}",
        f"[{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "",
        f"{one['to_pass']}/{one['from_pass']}",
        "" if one["mcnemar_p"] is None else f"{one['mcnemar_p']:.3g}",
    ]

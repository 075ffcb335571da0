"""`calibrate JUDGE`: how far a judge agrees with labels that people own."""

import argparse
import functools
import json
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.calibration.correct import corrected_pass_rate
from sandbox_judge.calibration.edit import write_reports
from sandbox_judge.calibration.files import dataset_path, record_path
from sandbox_judge.calibration.live import live_counts, matching_result
from sandbox_judge.calibration.pages import html_page, junit, markdown
from sandbox_judge.calibration.present import lines
from sandbox_judge.calibration.progress import Bar
from sandbox_judge.calibration.row import SPLITS
from sandbox_judge.calibration.session import (
    Outcome,
    Wish,
    as_json,
    calibrate,
    prepared,
    read_record_file,
)
from sandbox_judge.canonical import sanitised
from sandbox_judge.cli.model_choice import Setting, add_model_flags, grader_of, setting_of, share
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.probes.document import read_probes

_BUNDLED: Final = (
    "The model in this process shows the path; the bundled one is no judge. Its figures mean nothing."
)
_DESCRIPTION: Final = """\
Grades the labelled rows of a split by the very path of the hook, and states recall of fails and passes,
precision of fails, agreement, Cohen's kappa and the majority baseline, each with n and a 95 % interval. A
look at the test split is recorded before the first call; rows that were looked at once are spent. Exit code 1
where a floor is not reached, or too many rows gave no verdict."""


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "calibrate",
        help="how far a judge agrees with labels that people own",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model_flags(parser)
    parser.add_argument("--split", choices=SPLITS, default="dev", help="which rows (default dev)")
    parser.add_argument(
        "--repeats", type=int, default=1, metavar="N", help="ask each row so often: do verdicts flip"
    )
    parser.add_argument(
        "--max-invalid",
        default="5%",
        metavar="SHARE",
        help="state no figure above this share without a verdict",
    )
    parser.add_argument("--min-fail-recall", metavar="SHARE", help="a floor: exit code 1 below it")
    parser.add_argument("--min-pass-recall", metavar="SHARE")
    parser.add_argument(
        "--certify",
        action="store_true",
        help="floors hold for the interval's lower bound, on a first look only",
    )
    parser.add_argument(
        "--again", metavar="REASON", help="look at spent rows again; the record keeps the reason"
    )
    parser.add_argument("--html", metavar="FILE", help="a self-contained page")
    parser.add_argument("--markdown", metavar="FILE", help="for a pull request")
    parser.add_argument("--junit", metavar="FILE", help="JUnit XML for CI")
    parser.add_argument("--probes", metavar="FILE", help="put the JSON of `probe -o json` into the reports")
    parser.add_argument(
        "--correct",
        metavar="EVENTS",
        help="no grading: the pass rate of these events (JSON Lines), corrected by the recorded error rates",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Raises UsageError, InputError, RecipeError, SettingsError, TrustError, MissingExtra."""
    return anyio.run(functools.partial(_run, args, env))


async def _run(args: argparse.Namespace, env: Surface) -> int:
    setting = await setting_of(args, env)
    if args.correct:
        return _correct(args, setting, env)
    wish = _wish(args, setting, env)
    probes = _probes(args, env)
    dataset, rows = prepared(wish)
    bar = Bar(env.stderr, total=len(rows), terminal=env.stderr_is_terminal)
    async with grader_of(setting, env) as grader:
        try:
            outcome = await calibrate(wish, grader, dataset, rows, step=lambda reused: bar.step(free=reused))
        finally:
            bar.end()
            if bar.done < len(rows) and grader.calls:
                env.err("sandbox-judge: what was graded is kept; the same command goes on from there.")
    document = as_json(
        outcome,
        judge=setting.judge.name,
        judge_id=setting.judge_id,
        definition_hash=setting.judge.definition_hash,
        llm=setting.llm,
    )
    _write_reports(args, document, probes, env)
    if args.output == "json":
        env.out(json.dumps(sanitised(document), allow_nan=False))
    else:
        for line in lines(document):
            env.out(line)
    if grader.reused:
        env.err(f"sandbox-judge: {grader.reused} verdicts were had already (--fresh asks again).")
    if setting.local is not None:
        env.err(f"sandbox-judge: {_BUNDLED}")
    return _code(outcome, env)


def _code(outcome: Outcome, env: Surface) -> int:
    withheld = outcome.measured.agreement.withheld
    if withheld:
        env.err(f"sandbox-judge: no figure is stated: {withheld}.")
    return 0 if outcome.passed else 1


def _wish(args: argparse.Namespace, setting: Setting, env: Surface) -> Wish:
    name = setting.judge.name
    if not 1 <= args.repeats <= 1000:
        raise UsageError(f"{args.repeats} repeats cannot be.", where="--repeats")
    if args.again is not None and not args.again.strip():
        raise UsageError("a blank reason is none.", where="--again")
    floors = {"fail_recall": args.min_fail_recall, "pass_recall": args.min_pass_recall}
    found = {
        key: share(text, name=f"--min-{key.replace('_', '-')}")
        for key, text in floors.items()
        if text is not None
    }
    if args.certify and (args.split != "test" or not found):
        raise UsageError(
            "only floors on the test split can be certified.",
            where="--certify",
            remedy="Give --split test and --min-fail-recall or --min-pass-recall.",
        )
    return Wish(
        dataset=env.cwd / args.dataset if args.dataset else dataset_path(setting.recipe, name),
        record=record_path(setting.recipe, name),
        split=args.split,
        repeats=args.repeats,
        concurrency=setting.concurrency,
        max_invalid=share(args.max_invalid, name="--max-invalid"),
        floors=found,
        certify=args.certify,
        again=args.again,
    )


def _probes(args: argparse.Namespace, env: Surface) -> dict[str, Any] | None:
    if not args.probes:
        return None
    try:
        return read_probes((env.cwd / args.probes).read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", where=args.probes) from error
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError(f"is not what `probe -o json` prints ({error}).", where=args.probes) from error


def _write_reports(
    args: argparse.Namespace, document: dict[str, Any], probes: dict[str, Any] | None, env: Surface
) -> None:
    write_reports(
        {
            name: (env.cwd / path, data)
            for name, path, data in (
                ("html", args.html, html_page(document, probes)),
                ("markdown", args.markdown, markdown(document, probes).encode()),
                ("junit", args.junit, junit(document, probes)),
            )
            if path
        }
    )


def _correct(args: argparse.Namespace, setting: Setting, env: Surface) -> int:
    record = read_record_file(record_path(setting.recipe, setting.judge.name), setting.judge.name)
    result = matching_result(record, setting.judge)
    if result is None:
        raise InputError(
            "the record has no test result of this definition and contract.",
            where=str(record_path(setting.recipe, setting.judge.name)),
            remedy="`sandbox-judge calibrate --split test` makes one.",
        )
    passes, n, other = live_counts(env.cwd / args.correct, setting.judge_id, result)
    corrected = corrected_pass_rate(passes, n, result.confusion)
    if args.output == "json":
        interval = corrected.interval
        env.out(
            json.dumps(
                {
                    "judge": setting.judge.name,
                    "definition_hash": result.definition_hash,
                    "contract_version": result.contract_version,
                    "observed": corrected.observed,
                    "n": n,
                    "left_out": other,
                    "corrected": corrected.rate,
                    "interval": None if interval is None else list(interval),
                    "undefined": corrected.why,
                    "look": result.look,
                }
            )
        )
        return 0
    observed = "undefined" if corrected.observed is None else f"{corrected.observed:.3f}"
    env.out(f"observed   {observed}  ({passes} of {n} live verdicts; {other} of other models left out)")
    if corrected.rate is None:
        env.out(f"corrected  undefined: {corrected.why}")
    else:
        between = corrected.interval
        bounds = f"  [{between.low:.3f}, {between.high:.3f}]" if between else ""
        env.out(f"corrected  {corrected.rate:.3f}{bounds}  (look {result.look})")
    return 0

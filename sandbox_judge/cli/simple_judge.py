"""`simple-judge`: judge texts or pictures by one instruction, from flags or a JSON step configuration."""

import argparse
import functools
import json
from typing import Any

import anyio
import msgspec

from sandbox_judge.calibration.progress import Bar
from sandbox_judge.canonical import sanitised
from sandbox_judge.cli.judge_options import add_judge_options, chosen, judge_model
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError
from sandbox_judge.simple_judge import instruction_of
from sandbox_judge.simple_judge.config import Item, Step, step_of
from sandbox_judge.simple_judge.judging import Judged, judge_items, output_of
from sandbox_judge.terminal import escaped


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "simple-judge",
        help="judge texts or pictures by one instruction",
        description="Each item gets one answer of a closed set: a category (default yes or no) or a whole "
        "number of a scale. An item without a usable answer has an error, never a score.",
    )
    parser.add_argument("--config", metavar="FILE", help="a JSON step configuration; - is stdin")
    parser.add_argument("--item", action="append", default=[], metavar="TEXT", help="a text, or a path here")
    parser.add_argument(
        "--item-file", action="append", default=[], metavar="PATH", help="a file, or a picture"
    )
    parser.add_argument("--instruction", metavar="TEXT")
    parser.add_argument("--instruction-file", metavar="PATH")
    parser.add_argument("--judge-type", choices=("categorical", "scale", "binary"))
    parser.add_argument("--categories", metavar="A,B,…", help="default yes,no")
    parser.add_argument("--scale-range", metavar="LOW-HIGH", help="default 1-5")
    parser.add_argument("--model-provider", metavar="NAME")
    parser.add_argument("--temperature", type=float, metavar="T")
    parser.add_argument("--max-tokens", type=int, metavar="N")
    parser.add_argument("--system-prompt", metavar="TEXT", help="said to the judge besides")
    parser.add_argument("--no-explanation", action="store_true")
    parser.add_argument("--no-raw", action="store_true", help="leave the model's own text out")
    parser.add_argument("--fail-on", choices=("null",), help="exit 4 where an item has an error")
    add_judge_options(parser, budget="2m")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="json")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, surface: Surface) -> int:
    """Raises UsageError, SettingsError, TrustError, MissingExtra."""
    step = _step(args, surface)
    return anyio.run(functools.partial(_run, args, surface, step))


async def _run(args: argparse.Namespace, surface: Surface, step: Step) -> int:
    instruction = instruction_of(step.instruction, step.instruction_path, surface.cwd)
    args.model = args.model or step.model_name()
    choice = chosen(args, surface, request=step.request())
    progress = Bar(surface.stderr, total=len(step.all_items()), terminal=surface.stderr_is_terminal)
    step.instrument()
    deadline = anyio.current_time() + choice.budget_s
    async with judge_model(choice, surface) as model:
        judged = await judge_items(
            step,
            model,
            instruction=instruction,
            base=surface.cwd,
            deadline=deadline,
            pictures=choice.pictures,
            ended=lambda one: progress.step(),
        )
    progress.end()
    output = output_of(step, judged)
    if args.output == "json":
        surface.out(json.dumps(sanitised(output), allow_nan=False))
    else:
        for number, one in enumerate(judged, 1):
            surface.out(_line(number, one))
        if output["average_score"] is not None:
            surface.out(f"average {output['average_score']:.4g}")
    failed = any(one.error is not None for one in judged)
    return 4 if failed and args.fail_on == "null" else 0


def _line(number: int, one: Judged) -> str:
    if one.error is not None:
        return f"{number}. error  {one.error.type}: {escaped(one.error.message)}"
    answer = one.label if one.score is None else str(one.score)
    return f"{number}. {escaped(answer or '')}  {escaped(one.explanation)[:160]}"


def _step(args: argparse.Namespace, surface: Surface) -> Step:
    """The configuration, with what the flags say put over it. Raises UsageError."""
    step = _config(args.config, surface) if args.config else Step()
    changes: dict[str, Any] = {}
    items: list[str | Item] = [*args.item, *(Item(path=path) for path in args.item_file)]
    if items:
        changes |= {"items": items, "item": None, "item_path": None, "items_path": None}
    if args.instruction is not None or args.instruction_file is not None:
        changes |= {"instruction": args.instruction, "instruction_path": args.instruction_file}
    for name in ("judge_type", "model_provider", "temperature", "max_tokens", "system_prompt"):
        if getattr(args, name) is not None:
            changes[name] = getattr(args, name)
    if args.categories is not None:
        changes["categories"] = [label.strip() for label in args.categories.split(",")]
    if args.scale_range is not None:
        changes["scale_range"] = _range(args.scale_range)
    if args.no_explanation:
        changes["with_explanation"] = False
    if args.no_raw:
        changes["save_raw_response"] = False
    if args.model is not None and step.model_provider is None and args.model_provider is not None:
        args.model = f"{args.model_provider}/{args.model}"
    return msgspec.structs.replace(step, **changes)


def _config(name: str, surface: Surface) -> Step:
    try:
        data = surface.stdin.read() if name == "-" else (surface.cwd / name).read_bytes()
        return step_of(sanitised(json.loads(data)), where=name)
    except OSError as error:
        raise UsageError(f"cannot be read ({error.strerror}).", where=name) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is not JSON: {error}.", where=name) from error


def _range(text: str) -> list[int]:
    low, dash, high = text.strip().rpartition("-")
    try:
        if not dash:
            raise ValueError(text)
        return [int(low), int(high)]
    except ValueError as error:
        raise UsageError(f"{text!r} is no range.", where="--scale-range", remedy="Write 1-5.") from error

"""What the `rubric` commands and `grade` share: reading a runbook, parameters, tables, exit codes."""

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox_judge.calibration.edit import write_whole
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.rubric.criteria import number
from sandbox_judge.rubric.report import Report, read_report
from sandbox_judge.rubric.runbook import MOST_BYTES, Runbook, read_runbook
from sandbox_judge.rubric.scores import Score, Standing
from sandbox_judge.terminal import escaped

FAIL_ON = ("fail", "null", "any")


def add_runbook(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runbook", metavar="RUNBOOK.md", help="the runbook whose rubric is meant")
    add_parameters(parser)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a runbook parameter's value"
    )


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-on", choices=FAIL_ON, help="exit 1 for a fail, 4 for a criterion without a score"
    )


def parameters(args: argparse.Namespace) -> dict[str, str]:
    """Raises UsageError."""
    given = {}
    for text in args.param:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text!r} sets nothing.", where="--param", remedy="Write NAME=VALUE.")
        given[name.strip()] = value
    return given


def runbook_of(args: argparse.Namespace, surface: Surface) -> Runbook:
    """Raises InputError, UsageError."""
    data = read_file(surface.cwd / args.runbook, most=MOST_BYTES)
    return read_runbook(data, name=args.runbook, given=parameters(args))


def read_file(path: Path, *, most: int) -> bytes:
    """Raises InputError."""
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", where=str(path)) from error
    if len(data) > most:
        raise InputError(f"is larger than {most:,} bytes.", where=str(path))
    return data


def report_at(path: Path, *, most: int) -> Report | None:
    """The report that is there, or None."""
    return read_report(read_file(path, most=most), name=str(path)) if path.exists() else None


def write_json(path: Path, value: Any) -> None:
    """Indented, whole or not at all; a link in its place is exchanged, not followed. Raises UsageError."""
    write_whole(path, (json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode())


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def exit_code(args: argparse.Namespace, standing: Standing) -> int:
    """As `--fail-on` asks: 1 for a fail, else 4 where something was not scored; a null is no pass."""
    failed = bool(standing.below_floor) or (standing.mean is not None and not standing.reached)
    if failed and args.fail_on in ("fail", "any"):
        return 1
    return 4 if standing.unscored and args.fail_on is not None else 0


def score_lines(scores: Sequence[Score], runbook: Runbook) -> list[str]:
    """A line a criterion, for a person: escaped, because messages are a model's words."""
    width = max((len(one.name) for one in scores), default=0)
    width = min(width, 40)
    lines = []
    for one in scores:
        floor = runbook.bar.floor_of(one.id)
        if one.score is None:
            assert one.error is not None
            shown, said = "error", f"{one.error.type}: {one.error.message}"
        else:
            shown = f"{one.score}/5" + (f" below {number(floor)}" if one.score < floor else "")
            said = one.message
        spread = f" (samples {', '.join(map(str, one.samples))})" if len(one.samples) > 1 else ""
        name = escaped(one.name)[:width]
        lines.append(f"{name:{width}}  {shown}{spread}  {escaped(said)[:160]}")
    return lines

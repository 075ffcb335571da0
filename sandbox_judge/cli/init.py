"""`init judge NAME`: write a commented judge file to start from. Never overwrites."""

import argparse
import os
from typing import Any

from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError
from sandbox_judge.recipe.judge_file import MAX_NAME, NAME
from sandbox_judge.recipe.template import judge_template


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("init", help="write a commented judge file to start from")
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    judge = kinds.add_parser("judge", help="a judge, in judges/NAME.yaml")
    judge.add_argument("name", metavar="NAME", help="the judge's name: kebab-case, such as refund-policy")
    judge.add_argument("--dir", default=".", metavar="DIR", help="the recipe's folder (default: this one)")
    judge.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Write the file and say where it is. Raises UsageError for a bad name or a file that is there."""
    name: str = args.name
    # A file's name on disk has at most 255 bytes, and ours ends in five more.
    if not NAME.fullmatch(name) or len(name) > MAX_NAME - len(".yaml"):
        raise UsageError(
            f"'{name[:80]}' is no judge's name.",
            remedy="Write lower-case letters and digits joined by single hyphens, such as refund-policy.",
        )
    recipe = env.cwd / args.dir
    if not recipe.is_dir():
        raise UsageError("it is no folder.", where=str(recipe), remedy="Name the recipe's folder by --dir.")
    shown = f"judges/{name}.yaml"
    try:
        (recipe / "judges").mkdir(exist_ok=True)
        taken = [
            p for ending in (".yaml", ".yml") if os.path.lexists(p := recipe / "judges" / f"{name}{ending}")
        ]
        if taken:
            raise FileExistsError(17, "File exists", str(taken[0]))
        with open(recipe / shown, "xb") as file:
            file.write(judge_template(name))
    except FileExistsError as error:
        raise UsageError(
            "there is something already.",
            where=str(error.filename),
            remedy="Choose another name, or remove it.",
        ) from error
    except OSError as error:
        raise UsageError(
            f"it cannot be written: {error.strerror}.",
            where=str(recipe / shown),
            remedy="Choose another folder.",
        ) from error
    env.out(shown if args.dir == "." else str(recipe / shown))
    env.err("edit its instructions, then run `sandbox-judge check`")
    return 0

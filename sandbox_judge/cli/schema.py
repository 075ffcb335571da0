"""`schema [judge|event|ledger]`: print a JSON Schema."""

import argparse
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from sandbox_judge.cli.surface import Surface
from sandbox_judge.event_schema import event_schema, ledger_schema
from sandbox_judge.recipe.schema import judge_file_schema

KINDS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = MappingProxyType(
    {"judge": judge_file_schema, "event": event_schema, "ledger": ledger_schema}
)


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "schema", help="print the JSON Schema of a judge file, an event or the ledger"
    )
    parser.add_argument(
        "kind", nargs="?", choices=tuple(KINDS), default="judge", help="of what (default: a judge file)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Print the schema of `args.kind`."""
    env.out(json.dumps(KINDS[args.kind](), indent=2))
    return 0

"""The flags of `run`: what they are called and what they mean. Values are checked where they are used."""

import argparse

SUMMARY = "the hook: grade a finished conversation with the judges of a commit"

_EPILOG = """\
One judgement event a line goes to stdout, each as its judge ends; all else goes to stderr. What flags do not
say is taken from the envelope and from SANDBOX_JUDGE_* variables (docs/hook-input.md); the envelope's own
values stand. A dry run (--dry-run, --worktree, --local, --model, --explain) ignores sampling and `enabled`,
touches no spool and marks its events."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Grade a finished conversation with the judges of the commit its agent ran from."
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "conversation", nargs="?", metavar="CONVERSATION", help="a file, or - for stdin (default)"
    )
    _add_input(parser.add_argument_group("input"))
    _add_recipe(parser.add_argument_group("recipe and settings"))
    _add_dry(parser.add_argument_group("dry runs"))
    _add_limits(parser.add_argument_group("limits"))
    _add_output(parser.add_argument_group("output"))


def _add_input(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--id", metavar="ID", help="of several conversations, this one (#1: the first)")
    group.add_argument("--all", action="store_true", help="of several conversations, every one")
    group.add_argument(
        "--format", metavar="NAME", help="the conversation's format, where detection is not wanted"
    )
    group.add_argument("--conversation-id", metavar="ID")
    group.add_argument("--status", metavar="WORD", help="completed, failed or cancelled")
    group.add_argument("--environment", metavar="NAME", help="development, staging or production (sampled)")
    group.add_argument("--service", metavar="NAME", help="the service's name")
    group.add_argument("--runtime-id", metavar="ID")
    group.add_argument("--runtime-group-id", metavar="ID")
    group.add_argument("--trace-id", metavar="ID")
    group.add_argument("--span-id", metavar="ID")
    group.add_argument("--experiment-id", metavar="ID")
    group.add_argument("--experiment-arm-id", metavar="ID")
    group.add_argument(
        "--feedback", action="append", default=[], metavar="JSON|@FILE", help="feedback on the conversation"
    )


def _add_recipe(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--recipe", metavar="DIR", help="the recipe's folder, in a git repository")
    group.add_argument("--commit", metavar="ID", help="the full id; in a dry run any revision")
    group.add_argument("--recipe-id", metavar="ID", help="default: package.json's name at the commit")
    group.add_argument(
        "--judge", action="append", default=[], metavar="NAME", help="only this judge (repeatable)"
    )
    group.add_argument("--settings", metavar="FILE", help="live settings (docs/settings.md)")
    group.add_argument(
        "--insecure", action="store_true", help="allow settings and spool that others can write (development)"
    )


def _add_dry(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--dry-run", action="store_true", help="call the model, but count for nothing")
    group.add_argument("--worktree", action="store_true", help="judge files as they lie on disk")
    group.add_argument(
        "--local",
        nargs="?",
        const="",
        metavar="PATH.gguf",
        help="a small model in this process, no network and no key; the bundled one is no judge",
    )
    group.add_argument("--model", metavar="[PROVIDER/]MODEL", help="instead of every judge's own")
    group.add_argument(
        "--simulate-budget",
        metavar="FILE",
        help="no model call: judges take as long as in these past judgements (docs/budgets.md)",
    )
    group.add_argument(
        "--explain", action="store_true", help="no model call: which judges would run, and why"
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--budget", metavar="TIME", help="for everything: 40s, 1500ms (default 30s, --local 300s)"
    )
    group.add_argument("--concurrency", type=int, metavar="N", help="calls at once (default 8, --local 1)")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sink",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="stdout, file:PATH, unix:PATH, unix+ack:PATH, https:URL, otlp:URL (repeatable; default stdout)",
    )
    group.add_argument("-o", "--output", choices=("json", "text"), default="json", help="what goes to stdout")
    group.add_argument("--redact", metavar="WHAT", default="", help="leave out reasoning, evidence, or both")
    group.add_argument("--report", choices=("json",), help="the ledger as the last line on stderr")
    group.add_argument("--report-file", metavar="FILE", help="the ledger into a file")
    group.add_argument(
        "--fail-on", choices=("fail", "null", "any"), help="exit 1 when there is a fail, 4 when only nulls"
    )

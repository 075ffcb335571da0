"""The command line: the table of commands, and the one boundary where errors become exit codes.

A command is one module with `add(subparsers)` and `run(args, surface) -> int`; only the module of the command
that was asked for is imported.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from sandbox_judge.cli.crash import alone, crash_report
from sandbox_judge.cli.surface import Surface, process_surface
from sandbox_judge.errors import SandboxJudgeError, UsageError
from sandbox_judge.masking import mask, secrets_of
from sandbox_judge.version import __version__

# command: (module, what it does). In the order in which a newcomer meets them.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "run": ("run", "the hook: grade a finished conversation with the judges of a commit"),
    "serve": ("serve", "the resident runner: ready before the conversation ends"),
    "call": ("call", "hand a conversation to the resident runner"),
    "view": ("view", "show a conversation as a judge would see it"),
    "check": ("check", "validate the judges of a recipe, and the rest of it"),
    "schema": ("schema", "print the JSON Schema of a judge file, an event or the ledger"),
    "init": ("init", "write a commented judge file to start from"),
    "fixture": ("fixture", "the rows of a calibration set: export, label, check, import"),
    "calibrate": ("calibrate", "how far a judge agrees with labels that people own"),
    "probe": ("probe", "does only the suspected feature move the verdict"),
    "rubric": ("rubric", "runbook rubrics: check, score outputs, drive an agent, merge reports"),
    "simple-judge": ("simple_judge", "judge texts or pictures by one instruction"),
    "grade": ("grade", "an agent judge works through a rubric with read-only tools"),
    "doctor": ("doctor", "say what is ready, what is not, and the remedy"),
    "hooks": ("hooks", "put the judge into agents' hosts; find sessions that ended unseen"),
    "flush": ("flush", "deliver the events that are still in the spool"),
    "judges": ("judges", "list a recipe's judges; switch them on and off, set their sampling rate"),
    "budget": ("budget", "coverage against time from past judgements; recommend a budget"),
    "collect": ("collect", "take events into a store"),
    "judgements": ("judgements", "list stored judgements"),
    "trend": ("trend", "a judge's pass rate over versions or time"),
    "compare": ("compare", "two versions, services or windows of one judge"),
    "guard": ("guard", "fail where the newest version is credibly worse"),
    "experiment": ("experiment", "the arms of an experiment under one judge"),
    "regrade": ("regrade", "grade kept or given conversations again under another commit's judges"),
    "report": ("report", "the judgements page, as a file or served locally"),
}

_EPILOG: Final = """\
With no command, a document on stdin or a file named is `run`.
Exit codes: 0 done; 1 a check you asked for did not hold; 2 usage, input or configuration;
3 events could not be delivered (they are spooled); 4 nulls you asked about; 70 a bug of ours;
130/143 interrupted, after nulls were emitted."""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors go through the one boundary, and whose help goes to the surface."""

    surface: Surface

    def _print_message(self, message: str, file: object = None) -> None:
        self.surface.out(message.rstrip("\n"))

    def error(self, message: str) -> NoReturn:
        where = self.prog.removeprefix("sandbox-judge").strip()
        raise UsageError(f"{message}.", where=where, remedy=f"See `{self.prog} --help`.")


def main(argv: Sequence[str], surface: Surface) -> int:
    """Runs one command and returns its exit code; never raises."""
    exit_zero = "--exit-zero" in argv
    try:
        code = _dispatch(list(argv), surface)
    except SystemExit as stop:  # argparse's --help and --version
        code = stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        code = 130
    except Exception as error:  # the boundary: whatever is not expected is a bug of ours
        code = _told(alone(error), surface)
    return 0 if exit_zero else code


def _told(error: BaseException, surface: Surface) -> int:
    secrets = secrets_of(surface.environ)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        # How Python tells of a limit of processes (RLIMIT_NPROC, a container's pids).
        error = UsageError(
            "the system lets this process start no further thread or process.",
            remedy="Raise the limit of processes: reading a recipe takes two beside the hook itself.",
        )
    if isinstance(error, SandboxJudgeError):
        surface.err(f"sandbox-judge: {mask(error.paragraph(), secrets)}")
        return error.exit_code
    surface.err(crash_report(error, secrets)[1])
    return 70


def _dispatch(argv: list[str], surface: Surface) -> int:
    command = next((word for word in argv if not word.startswith("-") or word == "-"), None)
    if command not in COMMANDS:
        if command is None and (not argv or surface.stdin_is_terminal):
            if not argv and not surface.stdin_is_terminal:
                return _dispatch(["run"], surface)
            return _top_level(argv, surface)
        if command is not None and not _looks_like_a_document(command, surface):
            raise UsageError(
                f"{command!r} is neither a command nor a file.",
                remedy=f"Commands: {', '.join(COMMANDS)}. See `sandbox-judge --help`.",
            )
        if {"-h", "--help", "--version"} & set(argv):
            return _top_level(argv, surface)
        argv, command = ["run", *argv], "run"
    # Whatever stood before the command belongs to it as well.
    at = argv.index(command)
    words = [*argv[:at], *argv[at + 1 :]]
    module = import_module(f"sandbox_judge.cli.{COMMANDS[command][0]}")
    if command == "call":  # takes the arguments of `run`, and reads them itself
        return int(module.run_words(words, surface))
    parser = _parser(surface)
    subparsers = parser.add_subparsers(dest="command", prog="sandbox-judge", parser_class=type(parser))
    module.add(subparsers)
    _add_everywhere(subparsers)
    arguments = parser.parse_args([command, *words])
    if command != "run":  # which lets signals through itself, once it can answer them
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    return int(module.run(arguments, surface))


def _add_everywhere(subparsers: Any) -> None:
    """The global options, in commands of commands too."""
    for subparser in subparsers.choices.values():
        _add_global_options(subparser, top=False)
        for action in subparser._actions:
            if isinstance(action, argparse._SubParsersAction):
                _add_everywhere(action)


def _looks_like_a_document(word: str, surface: Surface) -> bool:
    return word == "-" or (surface.cwd / word).exists()


def _top_level(argv: list[str], surface: Surface) -> int:
    parser = _parser(surface)
    width = max(map(len, COMMANDS))
    table = "\n".join(f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items())
    parser.epilog = f"commands:\n{table}\n\n{_EPILOG}"
    parser.parse_args(argv)
    surface.out(parser.format_help().rstrip())
    return 0


def _parser(surface: Surface) -> _Parser:
    # argparse makes the subparsers itself: the surface reaches them as an attribute of their class.
    parser = type("_SurfaceParser", (_Parser,), {"surface": surface})(
        prog="sandbox-judge",
        description="LLM judges that grade an agent's conversation inside the sandbox it ran in.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="sandbox-judge [COMMAND] [options]",
    )
    parser.add_argument("--version", action="version", version=f"sandbox-judge {__version__}")
    _add_global_options(parser, top=True)
    assert isinstance(parser, _Parser)
    return parser


def _add_global_options(parser: argparse.ArgumentParser, *, top: bool) -> None:
    # Below the top nothing has a default, or it would overwrite what stood before the command.
    group = parser.add_argument_group("everywhere")

    def default(value: Any) -> Any:
        return value if top else argparse.SUPPRESS

    group.add_argument(
        "-v", "--verbose", action="count", default=default(0), help="say more on stderr (-vv: debug)"
    )
    group.add_argument("-q", "--quiet", action="store_true", default=default(False), help="errors only")
    group.add_argument("--log-format", choices=("text", "json"), default=default("text"), help="of stderr")
    group.add_argument(
        "--exit-zero", action="store_true", default=default(False), help="always exit 0 (for hosts that veto)"
    )


def console() -> NoReturn:
    """The process's entry: runs the command, then ends at once.

    `os._exit` after the last flush, because a thread that hangs in name resolution or in an import would
    otherwise hold the process (and the sandbox's grace time) long after everything was emitted.
    """
    surface = process_surface()
    code = main(sys.argv[1:], surface)
    for stream in (surface.stdout, surface.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)

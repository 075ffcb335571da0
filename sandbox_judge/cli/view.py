"""`view`: a conversation as a judge would see it."""

import argparse
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import canonical_json
from sandbox_judge.cli.surface import Surface
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.grading.view import View, build_view
from sandbox_judge.hook_input import read_input
from sandbox_judge.terminal import escaped

_NOTES_SHOWN: Final = 20
_DESCRIPTION: Final = """\
Show what a judge would see of a conversation, in any known format, and its hash. A conversation inside a hook
input's envelope is shown with the envelope's status and feedback. Warnings go to stderr."""


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "view", help="show a conversation as a judge would see it", description=_DESCRIPTION
    )
    parser.add_argument("conversation", nargs="?", metavar="CONVERSATION", help="a file; - or none: stdin")
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="json: conversation, view, sequence_hash and left_out_chars; one line for each conversation",
    )
    parser.add_argument(
        "--include-reasoning", action="store_true", help="show reasoning, which judges do not see"
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--id", metavar="ID", help="of several conversations, this one (#1: the first)")
    chosen.add_argument("--all", action="store_true", help="of several conversations, every one")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, env: Surface) -> int:
    """Prints the views. Raises InputError, UsageError."""
    data, place = _input(args.conversation, env)
    try:
        found = read_input(data)
        subjects = found.subjects(id=args.id, every=args.all)
    except InputError as error:
        where = f"{place}, {error.where}" if error.where and error.where != place else place
        raise InputError(error.message, where=where, remedy=error.remedy) from error
    quiet = getattr(args, "quiet", False)
    for warning in () if quiet else found.warnings:
        env.err(f"{place}: {warning}")
    for number, subject in enumerate(subjects, 1):
        conversation = subject.conversation
        view = build_view(conversation, include_reasoning=args.include_reasoning)
        name = conversation.id or f"#{number}"
        if not quiet:
            for note in _notes(conversation, view):
                env.err(f"{place if len(subjects) == 1 else name}: {note}")
        if args.output == "json":
            env.write(_document(conversation, view) + b"\n")
            continue
        if len(subjects) > 1:
            env.out(f"{'' if number == 1 else chr(10)}== {escaped(name)} ==")
        text = escaped(view.text, multiline=True) if env.stdout_is_terminal else view.text
        env.write(text.encode("utf-8", "replace") + b"\n")
    env.stdout.flush()
    return 0


def _input(name: str | None, env: Surface) -> tuple[bytes, str]:
    """The bytes to read and how to call them in messages."""
    if name is None or name == "-":
        if name is None and env.stdin_is_terminal:
            raise UsageError(
                "There is no conversation to show.", remedy="Name a file, or give a conversation on stdin."
            )
        return env.stdin.read(), "stdin"
    try:
        return (env.cwd / name).read_bytes(), name
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"The conversation cannot be read ({told}).", where=name) from error


def _document(conversation: Conversation, view: View) -> bytes:
    return canonical_json(
        {
            "conversation": msgspec.to_builtins(conversation),
            "view": view.text,
            "sequence_hash": view.sequence_hash,
            "left_out_chars": view.left_out_chars,
        }
    )


def _notes(conversation: Conversation, view: View) -> Iterator[str]:
    """What a person should know beside the view: doubts that reading left, and views that no judge gets."""
    for warning in conversation.warnings[:_NOTES_SHOWN]:
        entry = "" if warning.entry is None else f"entry {warning.entry}: "
        yield f"{entry}{warning.message} ({warning.code})"
    if len(conversation.warnings) > _NOTES_SHOWN:
        yield f"and {len(conversation.warnings) - _NOTES_SHOWN} more warnings (-o json has them all)"
    if (reason := conversation.missing_context()) is not None:
        yield f"judges would give no verdict (missing_context): {reason}"
    if view.overflow:
        yield "judges would give no verdict (context_overflow): the view is longer than its allowance"

"""Codex's `notify`: a key of a TOML file, edited by a parser that keeps comments and order."""

import json
from typing import Any

from sandbox_judge.errors import MissingExtra
from sandbox_judge.hosts.host import Host
from sandbox_judge.hosts.jsonc import Refused


def with_notify(text: str | None, _host: Host, command: str, _when: str) -> str:
    """The text with our program as the one that Codex calls. Raises Refused, MissingExtra."""
    present = _toml(text or "").get("notify")
    if present is not None and list(present) != [command]:
        raise Refused(
            "it has a `notify` already, and Codex calls only one: install `codex` (hooks) instead, or call "
            f"{command} from that program with its last argument"
        )
    if present is not None:
        return text or ""
    # Keys of the top must stand before the first table.
    return f"notify = [{json.dumps(command)}]\n" + (text or "")


def without_notify(text: str, command: str) -> str:
    """The text without our program. Raises Refused, MissingExtra."""
    document = _toml(text)
    present = document.get("notify")
    if present is None or list(present) != [command]:
        return text
    del document["notify"]
    written: str = document.as_string()
    return written


def _toml(text: str) -> Any:
    try:
        import tomlkit  # noqa: PLC0415 - an optional extra, for this one host
    except ImportError as error:
        raise MissingExtra(
            "TOML cannot be edited here.", remedy='Install the extra: pip install "sandbox-judge[hosts]".'
        ) from error
    try:
        return tomlkit.parse(text)
    except ValueError as error:  # every error of tomlkit's is one
        raise Refused(f"it does not parse ({error})") from error

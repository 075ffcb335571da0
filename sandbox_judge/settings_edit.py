"""Changing live settings (`spec/settings.md`): atomic, read back, with who, when and why kept beside them.

A change is a change of values under `recipes`; everything else in the file stays as it is. The file is
written as JSON: settings in YAML are read, but not rewritten (their comments would be lost): refused here.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from sandbox_judge.canonical import canonical_json
from sandbox_judge.clock import utc_now
from sandbox_judge.errors import SettingsError
from sandbox_judge.settings import Settings, settings_of
from sandbox_judge.settings_files import read_settings
from sandbox_judge.trust import make_private_dir, require_private

HISTORY: Final = "settings.history.jsonl"


def edit_settings(
    path: Path,
    change: Callable[[dict[str, Any]], None],
    *,
    what: Mapping[str, Any],
    who: str,
    why: str | None = None,
    insecure: bool = False,
) -> Settings:
    """Applies `change` to the settings in `path` and gives what is in force there afterwards.

    `what` describes the change for the history; `change` edits the JSON value in place. Raises SettingsError
    (also where the result would not be valid: nothing is written then) and TrustError.
    """
    # A link's own file is what readers see: it is changed, and the link stays.
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise SettingsError("is no regular file.", where=str(path), remedy="Nothing changed.")
    folder = path.parent
    if not folder.exists():
        make_private_dir(folder, insecure=insecure)
    require_private(folder, insecure=insecure)
    with _locked(folder):
        value = _current(path, insecure=insecure)
        change(value)
        settings_of(value, where=str(path))
        _replace(path, json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")
        written = read_settings(path, insecure=insecure)
        if written != settings_of(value, where=str(path)):
            raise SettingsError("what was read back is not what was written.", where=str(path))
        entry = {"at": utc_now(), "who": who, "why": why, "file": str(path), **what}
        _append(folder / HISTORY, canonical_json({k: v for k, v in entry.items() if v is not None}))
    return written


def judge_entry(value: dict[str, Any], recipe_id: str, name: str) -> dict[str, Any]:
    """The entry of one judge inside a settings value, made where it is absent."""
    recipe: dict[str, Any] = value.setdefault("recipes", {}).setdefault(recipe_id, {})
    entry: dict[str, Any] = recipe.setdefault("judges", {}).setdefault(name, {})
    return entry


def _current(path: Path, *, insecure: bool) -> dict[str, Any]:
    if not path.exists():
        return {"version": 1}
    read_settings(path, insecure=insecure)
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise SettingsError(
            "settings in YAML are read, but not changed by commands (comments would be lost).",
            where=str(path),
            remedy="Edit the file by hand, or turn it into JSON.",
        ) from error
    return value


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time: a change read, made and written by two commands at once would lose one."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".settings-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise SettingsError(
            f"cannot be written ({why}).", where=str(path), remedy="Nothing changed."
        ) from error


def _append(path: Path, line: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, line + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

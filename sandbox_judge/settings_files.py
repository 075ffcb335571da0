"""Where live settings are read from (`spec/settings.md`): the flag, the variable, the configuration
folder.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sandbox_judge.errors import SettingsError
from sandbox_judge.settings import Settings, settings_of
from sandbox_judge.trust import require_private
from sandbox_judge.yaml_core import YamlError, load_plain

VARIABLE: Final = "SANDBOX_JUDGE_SETTINGS"
FILE_NAME: Final = "settings.json"
# Settings for ten thousand judges are under a megabyte.
_MOST_BYTES: Final = 16 * 1024 * 1024


def settings_path(flag: Path | None, environ: Mapping[str, str], config_dir: Path) -> Path:
    """The file that commands write to: the flag's, else the variable's, else the configuration folder's."""
    if flag is not None:
        return flag
    if environ.get(VARIABLE):
        return Path(environ[VARIABLE])
    return config_dir / FILE_NAME


def read_settings_files(
    flag: Path | None, environ: Mapping[str, str], config_dir: Path | None, *, insecure: bool
) -> tuple[Settings, ...]:
    """Every source that exists, the first to ask first. A file that was named must be there.

    Raises SettingsError (unreadable, malformed, unknown key) and TrustError (writable by others).
    """
    named = [path for path in (flag, _from_variable(environ)) if path is not None]
    sources = [read_settings(path, insecure=insecure) for path in named]
    if config_dir is not None:
        default = config_dir / FILE_NAME
        if default not in named and _exists(default):
            sources.append(read_settings(default, insecure=insecure))
    return tuple(sources)


def _from_variable(environ: Mapping[str, str]) -> Path | None:
    return Path(environ[VARIABLE]) if environ.get(VARIABLE) else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def read_settings(path: Path, *, insecure: bool = False) -> Settings:
    """One settings file, JSON or YAML. Raises SettingsError and TrustError."""
    remedy = "Nothing was graded."
    try:
        with open(path, "rb") as file:
            # Root's own files are the platform's; ours need not be the only owner.
            require_private(path, insecure=insecure, ours=False)
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise SettingsError("there is no such settings file.", where=str(path), remedy=remedy) from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise SettingsError(f"cannot be read ({reason}).", where=str(path), remedy=remedy) from error
    if len(data) > _MOST_BYTES:
        raise SettingsError("is larger than 16 MiB.", where=str(path), remedy=remedy)
    try:
        value = load_plain(data)
    except YamlError as error:
        raise SettingsError(
            f"is not strict JSON or YAML: {error}.", where=str(path), remedy=remedy
        ) from error
    return settings_of(value, where=str(path))

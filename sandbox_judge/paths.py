"""Where state, settings and collected data live on this machine.

`platformdirs` names them. On Linux, where hooks run, the same rules (the XDG base directories') are read here
without it: importing it costs a hook 10 to 30 ms, and it looks only at the process's own environment. Tests
hold the two answers equal.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from sandbox_judge.errors import SettingsError
from sandbox_judge.trust import own_uid

APP: Final = "sandbox-judge"
Purpose = Literal["state", "config", "data"]

_XDG: Final[dict[Purpose, tuple[str, str]]] = {
    "state": ("XDG_STATE_HOME", ".local/state"),
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A directory, which may not exist yet. `warning` is a sentence where the place is a makeshift."""

    path: Path
    warning: str = ""


def state_dir(environ: Mapping[str, str]) -> Place:
    """For the spool and what is remembered about models. Raises SettingsError for a relative override."""
    return _place("state", environ)


def config_dir(environ: Mapping[str, str]) -> Place:
    """For `settings.json`. Raises SettingsError for a relative override."""
    return _place("config", environ)


def data_dir(environ: Mapping[str, str]) -> Place:
    """For the store of collected judgements. Raises SettingsError for a relative override."""
    return _place("data", environ)


def _place(purpose: Purpose, environ: Mapping[str, str]) -> Place:
    own = f"SANDBOX_JUDGE_{purpose.upper()}_DIR"
    chosen = environ.get(own, "")
    if chosen:
        if not os.path.isabs(chosen) or "\0" in chosen:
            raise SettingsError(
                f"{chosen!r} is not an absolute path.", where=own, remedy="Give the whole path, from /."
            )
        return Place(path=Path(chosen))
    if sys.platform != "linux":
        import platformdirs

        return Place(path=getattr(platformdirs, f"user_{purpose}_path")(APP, appauthor=False))
    variable, below_home = _XDG[purpose]
    xdg = environ.get(variable, "").strip()
    # The base directory specification: a relative path in these variables is to be ignored.
    if os.path.isabs(xdg) and "\0" not in xdg:
        return Place(path=Path(xdg, APP))
    home = environ.get("HOME", "")
    if os.path.isabs(home) and "\0" not in home:
        return Place(path=Path(home, below_home, APP))
    # No home, as in a bare container. The user's name is not looked up: that may ask a directory server.
    makeshift = Path("/tmp", f"{APP}-{own_uid()}", purpose)  # noqa: S108 - made 0700 and checked before use
    return Place(
        path=makeshift,
        warning=f"HOME is not set, so {purpose} is kept in {makeshift}, which may not outlive this machine; "
        f"set {own} to keep it.",
    )

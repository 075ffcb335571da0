"""Putting a hook into a host's configuration and taking it out again: planned whole, shown, then written.

What was there before is kept with what was written, so that taking out restores the bytes where nobody has
changed the file since; where somebody has, only our own entries go.
"""

import base64
import contextlib
import difflib
import hashlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from sandbox_judge.errors import UsageError
from sandbox_judge.hosts.config_files import bytes_of, digest, make_folders, replace
from sandbox_judge.hosts.host import NAMES, Host, host_named
from sandbox_judge.hosts.jsonc import Refused
from sandbox_judge.hosts.plugins import own_files
from sandbox_judge.hosts.receipts import Receipt, Written, installed
from sandbox_judge.hosts.shapes import cleared, edited
from sandbox_judge.hosts.shim import shim_text
from sandbox_judge.terminal import escaped
from sandbox_judge.version import __version__

USER: Final = "user"
PROJECT: Final = "project"
_OWN_KINDS: Final = ("opencode-plugin", "pi-extension", "cline-files", "goose-plugin")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is to be written, or with `after` None taken away. `base` is what taking out goes back
    to; where that is `before`, nobody has installed yet."""

    path: str
    before: bytes | None
    after: bytes | None
    base: bytes | None = None
    mode: int = 0o644
    own: bool = False

    @property
    def is_one(self) -> bool:
        return self.before != self.after


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where an installation goes: host, scope, and the folders that matter. `data` is our own data folder."""

    host: Host
    scope: str
    project: str
    home: str
    data: str
    environ: Mapping[str, str]

    @property
    def name(self) -> str:
        if self.scope == USER:
            return self.host.name
        return f"{self.host.name}-{hashlib.sha256(self.project.encode()).hexdigest()[:8]}"

    @property
    def command(self) -> str:
        """The path of the shim. Its name never changes: hosts trust and find the hook by it."""
        return os.path.join(self.data, "hooks", self.name)

    @property
    def word(self) -> str:
        """The command as a configuration has it: hosts run it through a shell, but for Codex's `notify`."""
        wiring = self.host.wiring
        direct = wiring is not None and wiring.kind == "notify"
        return self.command if direct else shlex.quote(self.command)

    @property
    def receipt(self) -> str:
        return os.path.join(self.data, "hooks", f"{self.name}.receipt.json")

    @property
    def target(self) -> str:
        """The file or folder in which the host looks. Raises UsageError for a scope that the host lacks."""
        wiring = self.host.wiring
        assert wiring is not None, self.host.name
        below = wiring.user if self.scope == USER else wiring.project
        if below is None:
            raise UsageError(
                f"{self.host.name} has no configuration of a {self.scope}.",
                where="--scope",
                remedy=f"Use --scope {USER if self.scope == PROJECT else PROJECT}.",
            )
        moved = self.environ.get(wiring.home_variable or "", "") if self.scope == USER else ""
        if moved and os.path.isabs(moved):
            return os.path.join(moved, below.partition("/")[2])
        return os.path.join(self.home if self.scope == USER else self.project, below)


def site_of(name: str, *, scope: str, project: str, environ: Mapping[str, str], data: str) -> Site:
    """Raises UsageError for a host that is none, and for a user without a home."""
    if name not in NAMES:
        raise UsageError(f"{name!r} is no host.", remedy=f"Hosts: {', '.join(NAMES)}.")
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        raise UsageError("HOME is not set.", remedy="Set HOME to the user's home, whose agents are meant.")
    return Site(host=host_named(name), scope=scope, project=project, home=home, data=data, environ=environ)


def planned(site: Site, when: str, variables: Mapping[str, str]) -> list[Change]:
    """Every file that installing writes, ours first. Raises UsageError, with the configuration untouched."""
    shim = shim_text(
        site.host, python=sys.executable, variables=variables, arguments=["--when", when]
    ).encode()
    changes = [Change(path=site.command, before=bytes_of(site.command), after=shim, mode=0o755, own=True)]
    receipt = installed(site.receipt)
    for path, mode, own, text in _texts(site, when, receipt):
        before = bytes_of(path)
        base = _base(path, before, receipt)
        changes.append(Change(path=path, before=before, after=text.encode(), base=base, mode=mode, own=own))
    return changes


def _texts(site: Site, when: str, receipt: Receipt | None) -> Iterator[tuple[str, int, bool, str]]:
    """Path, mode, whether the file is wholly ours, and the text that it is to have."""
    target = site.target
    _require_inside(site, target)
    wiring = site.host.wiring
    assert wiring is not None, site.host.name
    if wiring.kind in _OWN_KINDS:
        folder = os.path.join(site.data, "transcripts", site.host.name)
        for below, (text, mode) in own_files(site.host, site.command, when, folder).items():
            path = os.path.join(target, below) if below else target
            found = bytes_of(path)
            if found is not None and not _is_written(path, found, receipt) and found != text.encode():
                raise UsageError(
                    "somebody else's file stands there.",
                    where=path,
                    remedy=f"Move it away, or call {shlex.quote(site.command)} from it with the same stdin.",
                )
            yield path, mode, True, text
        return
    found = _base(target, bytes_of(target), receipt)
    try:
        known = None if found is None else found.decode()
        text = edited(known, site.host, site.word, when)
        yield target, 0o644, wiring.kind == "copilot-file", text
    except (Refused, UnicodeDecodeError) as error:
        raise UsageError(
            f"{error}; it was left as it is.", where=target, remedy="Mend the file, then install again."
        ) from error


def apply(site: Site, when: str, changes: list[Change]) -> None:
    """Writes the files, each whole or not at all, and the receipt. Raises UsageError."""
    before = installed(site.receipt)
    earlier = {file.path: file for file in before.files} if before is not None else {}
    written = []
    for change in changes:
        made = make_folders(os.path.dirname(change.path), private=change.path.startswith(site.data))
        if change.path in earlier:
            made = [*earlier[change.path].made, *made]
        if change.is_one:
            replace(change.path, change.after or b"", change.mode)
        written.append(
            Written(
                path=change.path,
                before=None if change.base is None else base64.b64encode(change.base).decode(),
                after=digest(change.after or b""),
                own=change.own,
                made=list(dict.fromkeys(made)),
            )
        )
    receipt = Receipt(
        host=site.host.name,
        scope=site.scope,
        project=site.project if site.scope == PROJECT else "",
        when=when,
        version=__version__,
        command=site.command,
        files=written,
    )
    # What was there before may hold a host's secrets.
    replace(site.receipt, msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n", 0o600)


def undoing(site: Site, receipt: Receipt) -> list[Change]:
    """The files as they are to be without us. Raises UsageError where one cannot be taken apart."""
    changes = []
    for file in receipt.files:
        now = bytes_of(file.path)
        if now is None:
            continue
        before = None if file.before is None else base64.b64decode(file.before)
        if digest(now) == file.after:
            changes.append(Change(path=file.path, before=now, after=before, own=file.own))
        elif not file.own:
            try:
                rest = cleared(now.decode(), site.host, site.word).encode()
            except (Refused, UnicodeDecodeError) as error:
                raise UsageError(
                    f"{error}; it was left as it is.",
                    where=file.path,
                    remedy=f"Take out the entry with the command {receipt.command} by hand.",
                ) from error
            changes.append(Change(path=file.path, before=now, after=rest, own=False))
    return changes


def undo(site: Site, receipt: Receipt, changes: list[Change]) -> None:
    """Takes the installation out: files go back or go away, and so do folders that were made for them and are
    empty again. Raises UsageError."""
    for change in changes:
        if change.after is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.realpath(change.path))
        elif change.is_one:
            replace(change.path, change.after, 0o644)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(site.receipt)
    made = {folder for file in receipt.files for folder in file.made}
    for folder in sorted({*made, os.path.dirname(site.receipt)}, key=len, reverse=True):
        with contextlib.suppress(OSError):  # others have put something there
            os.rmdir(folder)


def difference(change: Change) -> list[str]:
    """What changes in a file, for a person: a unified diff, harmless on a terminal."""
    before = (change.before or b"").decode("utf-8", "replace").splitlines()
    after = (change.after or b"").decode("utf-8", "replace").splitlines()
    was = change.path if change.before is not None else os.devnull
    now = change.path if change.after is not None else os.devnull
    return [escaped(line) for line in difflib.unified_diff(before, after, was, now, lineterm="")]


def _base(path: str, now: bytes | None, receipt: Receipt | None) -> bytes | None:
    """What the file is without us: as it was before where nobody has touched it since, else as it is."""
    for file in receipt.files if receipt is not None else ():
        if file.path == path and now is not None and digest(now) == file.after:
            return None if file.before is None else base64.b64decode(file.before)
    return now


def _is_written(path: str, now: bytes, receipt: Receipt | None) -> bool:
    return receipt is not None and any(
        file.path == path and file.after == digest(now) for file in receipt.files
    )


def _require_inside(site: Site, target: str) -> None:
    """A project's own links must not lead what we write out of the project: it may be anybody's."""
    if site.scope == PROJECT:
        root = os.path.realpath(site.project)
        if os.path.commonpath([root, os.path.realpath(target)]) != root:
            raise UsageError("a link leads it out of the project.", where=target, remedy="Look at the link.")

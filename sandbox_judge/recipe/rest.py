"""The recipe's other files (agents, skills, package.json), by the format's own checker where it is installed.

`introspection-recipe-check` is an optional install; the hook never comes here.
"""

import json
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sandbox_judge.recipe.diagnostics import Diagnostic

_CHECKER: Final = "introspection_recipe_check"
NOT_INSTALLED: Final = (
    "only the judges were checked: install introspection-recipe-check to check the rest of the recipe too"
)
# A plain recipe has no package.json, or one without `pi`, and a folder may hold judges alone. The platform
# asks for all of it; the hook does not.
_NO_MANIFEST: Final = frozenset({"package.manifest_missing", "package.pi_missing"})
_SEED_LAYOUT: Final = _NO_MANIFEST | {"package.agents_missing"}
_MANIFEST: Final = "package.json"
_SKIPPED: Final = frozenset({".git", "node_modules", "target", "__pycache__", ".venv"})
_MAX_FILES: Final = 5_000
_MAX_BYTES: Final = 256 << 10


def check_rest(folder: Path) -> tuple[tuple[Diagnostic, ...], str | None]:
    """Diagnostics of all but the judges, and a note on what was not checked."""
    if find_spec(_CHECKER) is None:
        return (), NOT_INSTALLED
    checker: Any = import_module(_CHECKER)
    snapshot, whole = _snapshot(folder)
    try:
        found = list(checker.check_recipe_files(snapshot).diagnostics)
        if any(d.code in _NO_MANIFEST for d in found):
            # It looks no further without `pi`: ask once more, as if that stood there.
            found = [d for d in found if d.code in _NO_MANIFEST]
            found += checker.check_recipe_files(_with_pi(snapshot)).diagnostics
    except ValueError as error:
        return (), f"only the judges were checked: introspection-recipe-check refused the rest ({error})"
    kept = tuple(_diagnostic(d) for d in found if not d.code.startswith("judge."))
    return kept, None if whole else f"only the first {_MAX_FILES:,} files of the recipe were checked"


def _with_pi(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The tree with the `pi` object that the seed layout has not."""
    content = next((f["content"] for f in snapshot["files"] if f["path"] == _MANIFEST), None)
    try:
        package = json.loads(content or '{"name": "recipe"}')
    except (ValueError, RecursionError):
        package = None
    if isinstance(package, dict):
        content = json.dumps({**package, "pi": {}})
    files = [f for f in snapshot["files"] if f["path"] != _MANIFEST]
    return {**snapshot, "files": [*files, {"path": _MANIFEST, "content": content}]}


def _diagnostic(theirs: Any) -> Diagnostic:
    span = theirs.span
    return Diagnostic(
        code=theirs.code,
        path=theirs.path,
        message=theirs.message,
        line=span.line if span else None,
        column=span.column if span else None,
        help=theirs.help,
        severity="warning" if theirs.code in _SEED_LAYOUT or theirs.severity == "warning" else "error",
    )


def _snapshot(folder: Path) -> tuple[dict[str, Any], bool]:
    """The tree without links, and whether it is whole. What is large or not UTF-8 is named, not read."""
    files: list[dict[str, Any]] = []
    directories: list[str] = []
    for parent, names, filenames in os.walk(folder, followlinks=False):
        names[:] = sorted(n for n in names if n not in _SKIPPED and not Path(parent, n).is_symlink())
        base = Path(parent)
        directories += (path for n in names if (path := _relative(base / n, folder)) is not None)
        for name in sorted(filenames):
            file = base / name
            path = _relative(file, folder)
            if path is None or file.is_symlink() or not file.is_file():
                continue
            if len(files) >= _MAX_FILES:
                return {"files": files, "directories": directories}, False
            files.append({"path": path, "content": _text(file)})
    return {"files": files, "directories": directories}, True


def _relative(file: Path, folder: Path) -> str | None:
    path = file.relative_to(folder).as_posix()
    return path if path.isprintable() else None


def _text(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
        return data.decode("utf-8") if len(data) <= _MAX_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None

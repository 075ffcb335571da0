"""A recipe's judge files as bytes, at a commit or from disk, in one form. Reading them is `judge_file`'s."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.to_thread
import msgspec

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.git import (
    JUDGE_ENDINGS,
    MAX_ALL_BYTES,
    MAX_ENTRIES,
    MAX_EXTRA_BYTES,
    MAX_JUDGE_BYTES,
    BlobFile,
    RecipeBlobs,
    read_extras,
    read_recipe,
)
from sandbox_judge.recipe.worktree import DiskFile, list_judges, read_files

_MAX_NAME: Final = 214  # what npm allows a package.json's name


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A judge file: its path in the recipe (`judges/tone.yaml`), and its exact bytes, or else why
    they cannot be had, as a sentence without its subject (`judge.unreadable`).

    Bytes of a name that are no UTF-8 are lone surrogates in `path`: escape it where it is shown.
    """

    path: str
    content: bytes | None = None
    problem: str | None = None


class RecipeSource(msgspec.Struct, frozen=True, kw_only=True):
    """What one run reads. `commit` is the full id, None from disk; `files` are sorted by path's bytes.

    `id_hint` is package.json's name, or else the folder's (`id_origin` says which), for when nothing better
    names the recipe. `has_judges` is False where there is no `judges/` at all.
    """

    folder: Path
    commit: str | None
    id_hint: str
    id_origin: Literal["package.json", "folder"]
    has_judges: bool
    files: tuple[SourceFile, ...] = ()
    blobs: RecipeBlobs | None = None


async def load_recipe(
    folder: Path,
    commit: str | None,
    *,
    environ: Mapping[str, str],
    worktree: bool = False,
    pinned: bool = True,
    deadline: float | None = None,
) -> RecipeSource:
    """The recipe at `commit`, or with `worktree` as it lies on disk. `deadline` is on anyio's clock.

    Raises RecipeError for what makes the whole recipe unreadable; a single file's fault stands in its place.
    """
    if worktree:
        return await anyio.to_thread.run_sync(_from_disk, folder, limiter=anyio.CapacityLimiter(1))
    if commit is None:
        raise RecipeError(
            "no commit was given.",
            where=str(folder),
            remedy="Name one by --commit (the agent's own, for the hook), or read the files with --worktree.",
        )
    blobs = await read_recipe(folder, commit, environ=environ, deadline=deadline, pinned=pinned)
    name = _package_name(blobs.package_json)
    return RecipeSource(
        folder=folder,
        commit=blobs.commit,
        id_hint=name or _folder_name(folder),
        id_origin="package.json" if name else "folder",
        has_judges=blobs.has_judges,
        files=_source_files(blobs.files),
        blobs=blobs,
    )


async def load_extras(
    source: RecipeSource, names: Sequence[str], *, environ: Mapping[str, str], deadline: float | None = None
) -> dict[str, SourceFile]:
    """Files beside the judges by name (`tone.calibration.jsonl`), from where the source was read; those that
    are not there are left out. Raises RecipeError as `load_recipe` does."""
    raw = [_raw(name) for name in names]
    found: Sequence[BlobFile | DiskFile]
    if source.blobs is not None:
        found = await read_extras(source.blobs, raw, environ=environ, deadline=deadline)
    else:
        found = await anyio.to_thread.run_sync(
            _extras_on_disk, source.folder, raw, limiter=anyio.CapacityLimiter(1)
        )
    return {_text(file.name): _source_file(file) for file in found}


def _from_disk(folder: Path) -> RecipeSource:
    names = list_judges(folder, JUDGE_ENDINGS)
    if names is not None and len(names) > MAX_ENTRIES:
        raise RecipeError(
            f"judges/ holds {len(names):,} judge files; {MAX_ENTRIES:,} are allowed.", where=str(folder)
        )
    files = read_files(folder, "judges", names or (), each=MAX_JUDGE_BYTES, together=MAX_ALL_BYTES)
    package = read_files(folder, ".", (b"package.json",), each=MAX_JUDGE_BYTES, together=MAX_JUDGE_BYTES)
    name = _package_name(package[0].content if package else None)
    return RecipeSource(
        folder=folder,
        commit=None,
        id_hint=name or _folder_name(folder),
        id_origin="package.json" if name else "folder",
        has_judges=names is not None,
        files=_source_files(files),
    )


def _extras_on_disk(folder: Path, names: Sequence[bytes]) -> tuple[DiskFile, ...]:
    inside = [name for name in names if b"/" not in name and b"\0" not in name]
    return read_files(folder, "judges", inside, each=MAX_EXTRA_BYTES, together=2 * MAX_EXTRA_BYTES)


def _source_files(files: Sequence[BlobFile | DiskFile]) -> tuple[SourceFile, ...]:
    return tuple(_source_file(file) for file in files)


def _source_file(file: BlobFile | DiskFile) -> SourceFile:
    return SourceFile(path=f"judges/{_text(file.name)}", content=file.content, problem=file.problem)


def _package_name(package: bytes | None) -> str | None:
    """package.json's name, where it has one that can name a recipe."""
    try:
        name = msgspec.json.decode(package or b"", type=_Package).name
    except (msgspec.MsgspecError, RecursionError):
        return None
    return name if 0 < len(name) <= _MAX_NAME and name.isprintable() and name == name.strip() else None


class _Package(msgspec.Struct):
    name: str = ""


def _folder_name(folder: Path) -> str:
    """The folder's own name; a bare repository's without its `.git`."""
    name = os.path.basename(os.path.abspath(folder)).removesuffix(".git")
    return _raw(name).decode("utf-8", "replace") or "recipe"


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")

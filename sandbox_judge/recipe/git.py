"""The judges of a recipe at a commit: verified blobs out of git objects, never out of the work tree.

One `git cat-file --batch` is fed object ids only; each object that comes back is hashed and held against the
id that its parent names, from the commit id down (design, section 4).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.git_objects import (
    FULL_ID,
    GitObject,
    ObjectFormat,
    TreeEntry,
    format_of,
    is_lfs_pointer,
    named_object,
    parse_tree,
)
from sandbox_judge.recipe.git_process import find_git
from sandbox_judge.recipe.git_reader import ObjectReader
from sandbox_judge.recipe.git_repository import Repository, find_repository
from sandbox_judge.recipe.git_revision import checked_revision, resolve
from sandbox_judge.recipe.leash import Leash, leashed

JUDGES: Final = b"judges"
MAX_ENTRIES: Final = 10_000
# A judge file is instructions for a model: more than this is none, and the YAML reader, which holds the
# interpreter, would take longer over it than any budget.
MAX_JUDGE_BYTES: Final = 1 << 20
MAX_ALL_BYTES: Final = 64 << 20
# Calibration sets hold conversations.
MAX_EXTRA_BYTES: Final = 50 << 20
_MAX_TAGS: Final = 8
JUDGE_ENDINGS: Final = (b".yaml", b".yml")
LFS_PROBLEM: Final = "is a Git LFS pointer: take it out of LFS (.gitattributes) and commit the file itself."


class BlobFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the recipe: its name as git stores it, and its bytes, or else a sentence on why not."""

    name: bytes
    content: bytes | None = None
    problem: str | None = None


class RecipeBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """`has_judges` is False where the commit has no `judges/`. `entries` are all children of that folder, by
    which `read_extras` finds calibration files; `files` those that are judge files, by name."""

    commit: str
    object_format: ObjectFormat
    repository: Repository
    has_judges: bool
    entries: tuple[TreeEntry, ...] = ()
    files: tuple[BlobFile, ...] = ()
    package_json: bytes | None = None


async def read_recipe(
    path: Path, commit: str, *, environ: Mapping[str, str], deadline: float | None = None, pinned: bool = True
) -> RecipeBlobs:
    """The judge files and package.json of the recipe folder `path` at `commit`.

    `pinned`: `commit` must be a full id; otherwise any revision of the repository. `deadline` is absolute on
    anyio's clock. Raises RecipeError, and RecipeTampered where an object is not what its id says.
    """

    def work(leash: Leash) -> RecipeBlobs:
        wanted = checked_revision(commit, pinned)
        repository = find_repository(path)
        git = find_git(environ)
        if not FULL_ID.match(wanted):
            wanted = resolve(wanted, repository, git, environ, leash)
        return _read(wanted, ObjectReader(git, repository, environ, leash))

    return await leashed(work, deadline=deadline)


async def read_extras(
    blobs: RecipeBlobs,
    names: Sequence[bytes],
    *,
    environ: Mapping[str, str],
    deadline: float | None = None,
) -> tuple[BlobFile, ...]:
    """Further files of the same `judges/` by name (calibration sets and records); those it has not are left
    out. Raises as `read_recipe` does."""
    wanted = frozenset(names)
    chosen = [entry for entry in blobs.entries if entry.name in wanted and entry.kind != "folder"]
    if not chosen:
        return ()

    def work(leash: Leash) -> tuple[BlobFile, ...]:
        with ObjectReader(find_git(environ), blobs.repository, environ, leash) as reader:
            return _files(chosen, reader, each=MAX_EXTRA_BYTES, together=2 * MAX_EXTRA_BYTES)

    return await leashed(work, deadline=deadline)


def _read(wanted: str, reader: ObjectReader) -> RecipeBlobs:
    with reader:
        commit = _peeled(wanted, reader)
        top = parse_tree(reader.one(named_object(commit), "tree"))
        recipe = _descend(top, reader, commit.id)
        judges = {entry.name: entry for entry in recipe}.get(JUDGES)
        blobs = RecipeBlobs(
            commit=commit.id,
            object_format=format_of(commit.id),
            repository=reader.repository,
            has_judges=judges is not None,
        )
        package = [entry for entry in recipe if entry.name == b"package.json" and entry.kind == "file"]
        if judges is None:
            return msgspec.structs.replace(blobs, package_json=_package_json(package, reader))
        entries = parse_tree(reader.one(_folder(judges, "judges/", commit.id).id, "tree"))
        chosen = [entry for entry in entries if entry.name.endswith(JUDGE_ENDINGS) and entry.kind != "folder"]
        if len(chosen) > MAX_ENTRIES:
            raise RecipeError(
                f"judges/ holds {len(chosen):,} judge files at {commit.id}; {MAX_ENTRIES:,} are allowed.",
                remedy="Split the recipe.",
            )
        return msgspec.structs.replace(
            blobs,
            entries=entries,
            package_json=_package_json(package, reader),
            files=_files(chosen, reader, each=MAX_JUDGE_BYTES, together=MAX_ALL_BYTES),
        )


def _peeled(wanted: str, reader: ObjectReader) -> GitObject:
    """The commit that an id names, through annotated tags. Raises RecipeError for other objects."""
    found = reader.one(wanted, "")
    for _ in range(_MAX_TAGS):
        if found.type != "tag":
            break
        found = reader.one(named_object(found), "")
    if found.type == "commit":
        return found
    raise RecipeError(
        f"{wanted} is a {found.type}, not a commit.",
        where="recipe.commit",
        remedy="Give the commit's id, as `git rev-parse HEAD` prints it.",
    )


def _descend(top: tuple[TreeEntry, ...], reader: ObjectReader, commit: str) -> tuple[TreeEntry, ...]:
    """The entries of the recipe's folder in the commit."""
    entries = top
    for depth, part in enumerate(reader.repository.prefix, 1):
        shown = b"/".join(reader.repository.prefix[:depth]).decode("utf-8", "backslashreplace")
        entry = {entry.name: entry for entry in entries}.get(part)
        if entry is None:
            raise RecipeError(
                f"commit {commit} has no folder {shown}.",
                where="recipe.path",
                remedy="Give the recipe's folder as it was at that commit.",
            )
        entries = parse_tree(reader.one(_folder(entry, f"{shown}/", commit).id, "tree"))
    return entries


def _folder(entry: TreeEntry, shown: str, commit: str) -> TreeEntry:
    if entry.kind == "folder":
        return entry
    remedy = {
        "symlink": "Commit the folder itself, or give the path that the link points to.",
        "submodule": "Commit the files themselves, or give path and commit of the submodule's repository.",
    }.get(entry.kind, "Commit a folder of that name.")
    raise RecipeError(f"{shown} is a {entry.kind} at commit {commit}, not a folder.", remedy=remedy)


def _package_json(found: Sequence[TreeEntry], reader: ObjectReader) -> bytes | None:
    files = _files(found, reader, each=MAX_JUDGE_BYTES, together=MAX_JUDGE_BYTES)
    return files[0].content if files else None


def _files(
    entries: Sequence[TreeEntry], reader: ObjectReader, *, each: int, together: int
) -> tuple[BlobFile, ...]:
    """The entries' blobs, by name. What one of them lacks is told of that one; the others stand."""
    regular = [entry.id for entry in entries if entry.kind == "file"]
    blobs = reader.blobs(regular, each=each, together=together) if regular else {}
    ordered = sorted(entries, key=lambda entry: entry.name)
    return tuple(_file(entry, blobs.get(entry.id, 0), each=each, together=together) for entry in ordered)


def _file(entry: TreeEntry, blob: GitObject | int, *, each: int, together: int) -> BlobFile:
    if entry.kind != "file":
        return BlobFile(name=entry.name, problem=f"is a {entry.kind}: commit the file itself in its place.")
    if isinstance(blob, int):
        bound = f"{each:,} bytes are the most" if blob > each else f"all together exceed {together:,} bytes"
        return BlobFile(name=entry.name, problem=f"is too large to be read ({blob:,} bytes; {bound}).")
    if is_lfs_pointer(blob.body):
        return BlobFile(name=entry.name, problem=LFS_PROBLEM)
    return BlobFile(name=entry.name, content=blob.body)

"""Git objects as bytes: their ids, and what trees, commits and tags say. Pure; starts no program.

Git does not verify an object when it reads it, so whoever can write the object store can put any bytes
under any id. `verified` is the one door through which an object's bytes come in (design, section 4).
"""

import hashlib
import re
from typing import Final, Literal

import msgspec

from sandbox_judge.errors import RecipeError, RecipeTampered

ObjectFormat = Literal["sha1", "sha256"]
ObjectType = Literal["commit", "tree", "blob", "tag"]

FULL_ID: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_HEX_DIGITS: Final[dict[ObjectFormat, int]] = {"sha1": 40, "sha256": 64}
_TREE_MODE: Final = re.compile(rb"[0-7]{5,6}\Z")
_LFS: Final = re.compile(rb"version https?://[^\s/]+/spec/v?[0-9.]+\r?\n")


class GitObject(msgspec.Struct, frozen=True):
    """An object whose bytes hash to `id`."""

    id: str
    type: ObjectType
    body: bytes


class TreeEntry(msgspec.Struct, frozen=True):
    """One line of a tree. `name` is what git stores: bytes, in no promised encoding."""

    mode: int
    name: bytes
    id: str

    @property
    def kind(self) -> Literal["file", "folder", "symlink", "submodule", "other"]:
        match self.mode >> 12:
            case 0o10:
                return "file"
            case 0o04:
                return "folder"
            case 0o12:
                return "symlink"
            case 0o16:
                return "submodule"
            case _:
                return "other"


def format_of(object_id: str) -> ObjectFormat:
    """The object format that a full, lower-case id belongs to."""
    return "sha1" if len(object_id) == _HEX_DIGITS["sha1"] else "sha256"


def object_id(kind: str, body: bytes, object_format: ObjectFormat) -> str:
    """The id under which git stores `body`: the hash of `<type> <size>\\0<bytes>`."""
    # SHA-1 names the object as git does; it protects nothing that git's own choice of hash would not.
    digest = hashlib.sha1(usedforsecurity=False) if object_format == "sha1" else hashlib.sha256()
    digest.update(b"%s %d\0" % (kind.encode(), len(body)))
    digest.update(body)
    return digest.hexdigest()


def verified(wanted: str, kind: str, body: bytes) -> GitObject:
    """The object `wanted`, once its bytes hash to that id. Raises RecipeTampered when they do not."""
    found = object_id(kind, body, format_of(wanted))
    if found != wanted or kind not in ("commit", "tree", "blob", "tag"):
        raise RecipeTampered(
            f"recipe_tampered: the repository holds another object under the id of {kind} {wanted} "
            f"(its bytes hash to {found}), so no judge was run.",
            remedy="Clone the recipe again from its source, outside of what the agent can write.",
        )
    return GitObject(wanted, kind, body)  # type: ignore[arg-type]


def parse_tree(tree: GitObject) -> tuple[TreeEntry, ...]:
    """The entries of a tree, in its own order. Raises RecipeError for a tree that git would not write."""
    width = len(tree.id) // 2
    entries: list[TreeEntry] = []
    seen: set[bytes] = set()
    body, at = tree.body, 0
    while at < len(body):
        space = body.find(b" ", at, at + 7)
        end = body.find(b"\0", space + 1) if space > 0 else -1
        mode, name = body[at:space], body[space + 1 : end]
        fits = end > 0 and end + 1 + width <= len(body)
        if not fits or not _TREE_MODE.match(mode) or not name or b"/" in name or name in seen:
            raise RecipeError(
                f"tree {tree.id} of the recipe is malformed.",
                remedy="Find out with `git fsck` how it came about, and commit the recipe anew.",
            )
        seen.add(name)
        entries.append(TreeEntry(int(mode, 8), name, body[end + 1 : end + 1 + width].hex()))
        at = end + 1 + width
    return tuple(entries)


def named_object(parent: GitObject) -> str:
    """The id on the first line of a commit (its tree) or of a tag (what it tags).

    Raises RecipeError for an object whose first line is something else.
    """
    key = b"tree " if parent.type == "commit" else b"object "
    first = parent.body.partition(b"\n")[0]
    named = first.removeprefix(key).decode("ascii", "replace")
    if not first.startswith(key) or not FULL_ID.match(named) or len(named) != len(parent.id):
        raise RecipeError(
            f"{parent.type} {parent.id} of the recipe is malformed.",
            remedy="Find out with `git fsck` how it came about, and commit the recipe anew.",
        )
    return named


def is_lfs_pointer(content: bytes) -> bool:
    """Whether a blob is what Git LFS commits in a file's place (its specification of the pointer file)."""
    return len(content) <= 1024 and _LFS.match(content) is not None and b"\noid " in content

"""Verified objects of a repository, by id, out of one `git cat-file --batch`."""

from collections.abc import Mapping, Sequence
from typing import Final

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.git_objects import GitObject, verified
from sandbox_judge.recipe.git_process import GitChild
from sandbox_judge.recipe.git_repository import Repository, git_failed, missing_object
from sandbox_judge.recipe.leash import Leash

MAX_STRUCTURE_BYTES: Final = 16 << 20


class ObjectReader:
    """Verified objects of one repository by id. Starts git when first asked; a context manager."""

    def __init__(self, git: str, repository: Repository, environ: Mapping[str, str], leash: Leash) -> None:
        self.repository = repository
        self._git = git
        self._environ = environ
        self._leash = leash
        self._child: GitChild | None = None

    def __enter__(self) -> "ObjectReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def one(self, object_id: str, expected: str, *, longest: int = MAX_STRUCTURE_BYTES) -> GitObject:
        """The object, which must be of the type that what names it says. `expected` empty: of any type."""
        self._ask([object_id], "--batch")
        found = self._answer(object_id, expected, longest)
        if found is None:
            raise RecipeError(
                f"{expected or 'object'} {object_id} of the recipe is larger than {longest:,} bytes.",
                where=self.repository.git_dir,
            )
        return found

    def blobs(self, ids: Sequence[str], *, each: int, together: int) -> dict[str, GitObject | int]:
        """Blobs by id; for one larger than `each`, or past `together` in all, its size instead.

        Sizes come before bodies, so what is too large is never read: git is started anew without it.
        """
        found: dict[str, GitObject | int] = {}
        left = together
        todo = list(dict.fromkeys(ids))
        self._ask(todo, "--batch")
        for object_id in todo:
            blob = self._answer(object_id, "blob", min(each, left))
            if blob is None:
                break
            found[object_id] = blob
            left -= len(blob.body)
        rest = todo[len(found) :]
        if not rest:
            return found
        sizes = self._sizes(rest)
        small = []
        for object_id in rest:
            found[object_id] = sizes[object_id]
            if sizes[object_id] <= min(each, left):
                small.append(object_id)
                left -= sizes[object_id]
        self._ask(small, "--batch")
        for object_id in small:
            found[object_id] = self._answer(object_id, "blob", sizes[object_id]) or sizes[object_id]
        return found

    def type_of(self, object_id: str) -> str:
        """What the object says it is: not verified, for choosing what to read."""
        self._ask([object_id], "--batch-check")
        return self._header(object_id, "")[0]

    def _sizes(self, ids: Sequence[str]) -> dict[str, int]:
        self._end()
        self._ask(ids, "--batch-check")
        sizes = {object_id: self._header(object_id, "blob")[1] for object_id in ids}
        self._end()
        return sizes

    def _ask(self, ids: Sequence[str], how: str) -> None:
        if self._child is None:
            self._child = GitChild(
                self._git,
                self.repository.git_dir,
                ["cat-file", how],
                environ=self._environ,
                leash=self._leash,
            )
        self._child.send("".join(f"{object_id}\n" for object_id in ids).encode())

    def _answer(self, object_id: str, expected: str, longest: int) -> GitObject | None:
        """What git answers about the object that was asked for next; None, and git ended, when too long."""
        kind, size = self._header(object_id, expected)
        if size > longest:
            self._end()
            return None
        assert self._child is not None
        body = self._child.exactly(size + 1)
        if body is None:
            raise missing_object(self.repository, kind, object_id, self._complaint())
        found = verified(object_id, kind, body[:-1])
        if expected and kind != expected:
            raise RecipeError(
                f"{object_id} is a {kind} where the recipe's commit calls for a {expected}.",
                where=self.repository.git_dir,
                remedy="See what `git fsck` says there.",
            )
        return found

    def _header(self, object_id: str, expected: str) -> tuple[str, int]:
        assert self._child is not None
        line = self._child.line(512)
        if line is None:
            complaint = self._complaint()
            if object_id in complaint:
                raise missing_object(self.repository, expected or "commit", object_id, complaint)
            raise git_failed(self.repository, complaint)
        # The id is compared whole: git completes shorter ones and falls back on refs of such a name.
        match line.decode("utf-8", "replace").split(" "):
            case [answered, kind, size] if answered == object_id and size.isdecimal() and len(size) < 20:
                return kind, int(size)
        raise missing_object(self.repository, expected or "commit", object_id, self._complaint())

    def _complaint(self) -> str:
        return self._child.complaint() if self._child else ""

    def _end(self) -> None:
        if self._child is not None:
            self._child.__exit__()
            self._child = None

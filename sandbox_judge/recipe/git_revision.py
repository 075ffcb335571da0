"""What a person calls a commit, as a full id. Full ids never come here: they mean themselves, whatever branch
is named like one (and a pinned commit is always a full id)."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.git_objects import FULL_ID
from sandbox_judge.recipe.git_process import GitChild
from sandbox_judge.recipe.git_reader import ObjectReader
from sandbox_judge.recipe.git_repository import Repository, git_failed, is_repository_fault
from sandbox_judge.recipe.leash import Leash

_SHORT_ID: Final = re.compile(r"[0-9a-fA-F]{4,63}\Z")
_MAX_IDS: Final = 1_000


def checked_revision(commit: str, pinned: bool) -> str:
    """`commit` in the form that git takes; full ids in lower case, as git itself does."""
    if FULL_ID.match(commit.lower()):
        return commit.lower()
    if pinned:
        raise RecipeError(
            f"{commit[:100]!r} is not a full commit id (40 or 64 hexadecimal digits).",
            where="recipe.commit",
            remedy="Give what `git rev-parse HEAD` prints; other revisions are for dry runs (--dry-run).",
        )
    if not commit or commit.startswith("-") or len(commit) > 1_000 or not commit.isprintable():
        raise RecipeError(f"{commit[:100]!r} is not a git revision.", where="recipe.commit")
    return commit


def resolve(revision: str, repository: Repository, git: str, environ: Mapping[str, str], leash: Leash) -> str:
    """The full id of a revision. An abbreviated id is one before it is the name of a branch."""
    if _SHORT_ID.match(revision):
        ids, _ = _rev_parse([f"--disambiguate={revision}"], repository, git, environ, leash)
        with ObjectReader(git, repository, environ, leash) as reader:
            commits = [found for found in ids if FULL_ID.match(found) and reader.type_of(found) == "commit"]
        if len(commits) > 1:
            raise RecipeError(
                f"{revision} is the beginning of {len(commits)} commit ids.",
                where="recipe.commit",
                remedy="Give more digits.",
            )
        if commits:
            return commits[0]
    ids, complaint = _rev_parse(["--verify", revision], repository, git, environ, leash)
    if len(ids) == 1 and FULL_ID.match(ids[0]):
        return ids[0]
    if is_repository_fault(complaint):
        raise git_failed(repository, complaint)
    raise RecipeError(
        f"the repository {repository.git_dir} has no revision {revision!r}.",
        where="recipe.commit",
        remedy="Fetch it there, or see whether recipe.path and the commit belong together.",
    )


def _rev_parse(
    arguments: Sequence[str], repository: Repository, git: str, environ: Mapping[str, str], leash: Leash
) -> tuple[list[str], str]:
    lines: list[str] = []
    with GitChild(
        git, repository.git_dir, ["rev-parse", *arguments], environ=environ, leash=leash, fed=False
    ) as child:
        while len(lines) < _MAX_IDS and (line := child.line(4_096)) is not None:
            lines.append(line.decode("utf-8", "replace"))
        return lines, child.complaint()

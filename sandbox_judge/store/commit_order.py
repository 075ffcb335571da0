"""Versions in the order in which they came: by the repository where there is one, else as first seen."""

import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from sandbox_judge.errors import RecipeError
from sandbox_judge.recipe.git_process import GitChild, find_git
from sandbox_judge.recipe.git_repository import find_repository
from sandbox_judge.recipe.leash import LONGEST_S, Leash

_MAX_COMMITS: Final = 5_000_000


class CommitOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Places of commits in their repository's history; `asked` tells that a repository was given, so that a
    commit without a place is one that it does not know."""

    places: Mapping[str, int] = {}
    asked: bool = False

    def unknown(self, commit: str | None) -> bool:
        return self.asked and commit is not None and commit not in self.places


def order_in(repository: Path, commits: Collection[str], environ: Mapping[str, str]) -> CommitOrder:
    """Where commits stand in a repository's history, ancestors first; those that it does not have are left
    out. Raises RecipeError where it is no repository, or git does not answer."""
    found = find_repository(repository)
    wanted = {commit for commit in commits if commit}
    places: dict[str, int] = {}
    arguments = ["rev-list", "--topo-order", "--reverse", "--ignore-missing", "--stdin"]
    leash = Leash(time.monotonic() + LONGEST_S)
    with GitChild(find_git(environ), found.git_dir, arguments, environ=environ, leash=leash) as child:
        # A blank line ends what rev-list reads, so its input need not be closed.
        child.send("".join(f"{commit}\n" for commit in sorted(wanted)).encode() + b"\n")
        for place in range(_MAX_COMMITS):
            line = child.line(256)
            if line is None:
                break
            commit = line.decode("ascii", "replace")
            if commit in wanted:
                places[commit] = place
        complaint = child.complaint()
    if not places and wanted and complaint and "usage:" not in complaint:
        raise RecipeError(f"git cannot order the versions: {complaint[:300]}", where=str(repository))
    return CommitOrder(places=places, asked=True)


def in_order(first_seen: Mapping[str | None, int], order: CommitOrder) -> list[str | None]:
    """Versions by history; one without a place stands after the last placed one that was seen before it."""
    placed = sorted((v for v in first_seen if v in order.places), key=lambda v: order.places[v or ""])
    rest = sorted((v for v in first_seen if v not in order.places), key=lambda v: (first_seen[v], v or ""))
    result: list[str | None] = list(placed)
    for version in rest:
        before = [i for i, other in enumerate(result) if first_seen[other] <= first_seen[version]]
        result.insert(before[-1] + 1 if before else 0, version)
    return result


def first_seen(moments: Iterable[tuple[str | None, int]]) -> dict[str | None, int]:
    """The earliest moment of each version."""
    found: dict[str | None, int] = {}
    for version, at in moments:
        found[version] = min(at, found.get(version, at))
    return found

"""The judgements of a store, as the lines they came in."""

from collections.abc import Iterator, Mapping

from sandbox_judge.store.database import Database
from sandbox_judge.store.evidence import Choice
from sandbox_judge.store.listing import Sought, every
from sandbox_judge.store.options import reading


def stored_lines(url: str | None, environ: Mapping[str, str], *, recipe_id: str | None) -> Iterator[str]:
    """Every judgement's own line, newest first, a page in memory at a time. Raises InputError, UsageError."""
    with reading(url, environ) as database:
        yield from _bodies(database, recipe_id)


def _bodies(database: Database, recipe_id: str | None) -> Iterator[str]:
    for page in every(database, Sought(choice=Choice(recipe_id=recipe_id)), limit=0):
        for row in page.rows:
            yield row.body

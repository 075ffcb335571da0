"""Recipes for tests, made of a few words: judge files, git repositories, loaded recipes."""

import subprocess
from pathlib import Path

from sandbox_judge.recipe.load import RecipeSource, SourceFile
from sandbox_judge.recipe.loaded import LoadedRecipe, loaded_recipe

JUDGE = """\
name: {name}
instructions: |
  Judge by {name}.
llm:
  model: m
"""


def judge_text(name: str, *, on: str = "", llm: str = "") -> str:
    """A judge file; `on` and `llm` are YAML lines, `llm` indented by two."""
    return JUDGE.format(name=name) + llm + (f"on:\n{on}" if on else "")


def loaded(
    *files: str | tuple[str, str], recipe_id: str = "shop", commit: str | None = "c" * 40
) -> LoadedRecipe:
    """A recipe of judge files without a repository: texts, or pairs of a path and a text."""
    pairs = [
        file if isinstance(file, tuple) else (f"judges/{n:02}.yaml", file) for n, file in enumerate(files)
    ]
    source = RecipeSource(
        folder=Path("/nowhere"),
        commit=commit,
        id_hint=recipe_id,
        id_origin="package.json",
        has_judges=True,
        files=tuple(SourceFile(path=path, content=text.encode()) for path, text in pairs),
    )
    return loaded_recipe(source)


def committed(folder: Path, files: dict[str, str]) -> str:
    """Writes files into a new repository, commits them, and gives the commit's id."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=Test", "-c", "user.email=test@example.test"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "judges"]):
        subprocess.run([*git, *command], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()

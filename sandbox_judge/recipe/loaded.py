"""A recipe ready to judge with: its judge files read, its gates compiled. Made once, used for many runs."""

import time
from collections.abc import Iterable
from typing import Final

import msgspec

from sandbox_judge.gate.language import RegexLiteral
from sandbox_judge.gate.match import CompiledGate, compile_gate
from sandbox_judge.gate.regex import compile_regex
from sandbox_judge.recipe.diagnostics import Diagnostic
from sandbox_judge.recipe.gate_fields import Compile
from sandbox_judge.recipe.judge_file import JudgeFile, duplicate_names, read_judge_file
from sandbox_judge.recipe.load import RecipeSource, SourceFile

UNREADABLE: Final = "judge.unreadable"
# A pattern takes up to 0.1 s to compile, and a hostile recipe can hold thousands. Past this much CPU time
# patterns are not tried here any more: the gate compiles what it needs, within its own bounds.
_COMPILING_S: Final = 1.0


class LoadedJudge(msgspec.Struct, frozen=True, kw_only=True):
    """One judge file. `gate` is there where the definition is valid; `duplicate` where an earlier path has
    the name already, so that nothing may be emitted under it."""

    file: JudgeFile
    gate: CompiledGate | None = None
    duplicate: bool = False

    @property
    def faults(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.file.diagnostics if d.is_error)


class LoadedRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs of a recipe. `recipe_id_guessed`: only the folder's name gave it."""

    source: RecipeSource
    recipe_id: str
    judges: tuple[LoadedJudge, ...]
    recipe_id_guessed: bool = False

    @property
    def commit(self) -> str | None:
        return self.source.commit


def loaded_recipe(
    source: RecipeSource, *, recipe_id: str | None = None, only: Iterable[str] = ()
) -> LoadedRecipe:
    """Reads the judge files of a source. `only` names the judges to keep (all where it is empty)."""
    compiles = _Compiling()
    files = [_read(file, compiles) for file in source.files]
    duplicates = {diagnostic.path: diagnostic for diagnostic in duplicate_names(files)}
    names = frozenset(only)
    judges = [_loaded(file, duplicates.get(file.path)) for file in files if not names or file.name in names]
    return LoadedRecipe(
        source=source,
        recipe_id=recipe_id or source.id_hint,
        recipe_id_guessed=recipe_id is None and source.id_origin == "folder",
        judges=tuple(judges),
    )


class _Compiling:
    """Tries patterns until the time for that is used up."""

    def __init__(self) -> None:
        self._left_s = _COMPILING_S

    def __call__(self, literal: RegexLiteral) -> None:
        if self._left_s <= 0:
            return
        began = time.thread_time()
        try:
            compile_regex(literal)
        finally:
            self._left_s -= time.thread_time() - began


def _read(file: SourceFile, compiles: Compile) -> JudgeFile:
    if file.content is not None:
        return read_judge_file(file.path, file.content, compiles=compiles)
    problem = Diagnostic(code=UNREADABLE, path=file.path, message=f"the file {file.problem}")
    return JudgeFile(path=file.path, definition_hash="", diagnostics=(problem,))


def _loaded(file: JudgeFile, duplicate: Diagnostic | None) -> LoadedJudge:
    if duplicate is not None:
        file = msgspec.structs.replace(file, judge=None, diagnostics=(*file.diagnostics, duplicate))
        return LoadedJudge(file=file, duplicate=True)
    return LoadedJudge(file=file, gate=compile_gate(file.judge.on) if file.judge is not None else None)

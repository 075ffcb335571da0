"""The engine that runs gate regexes: Rust's regex crate, inside pydantic-core's compiled half (design 6).

Only that half is loaded (1 ms); the package around it takes ten times that for schema types that nobody here
needs. A leaf that imports nothing of the package, because `gate.child` runs in an interpreter that has
neither this package nor site-packages on its path.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import module_from_spec
from typing import Any, Final

Search = Callable[[str], bool]
Compile = Callable[[str], Search]

_PACKAGE: Final = "pydantic_core"
_COMPILED: Final = "pydantic_core._pydantic_core"


class Refused(Exception):
    """The engine takes no such pattern; the text is the engine's own, with the place."""


def extension_path() -> str | None:
    """Where the compiled half lies, or None where it is no file of its own (a zip, a frozen program)."""
    package = PathFinder.find_spec(_PACKAGE)
    if package is None or package.submodule_search_locations is None:
        return None
    compiled = PathFinder.find_spec(_COMPILED, package.submodule_search_locations)
    if compiled is None or not isinstance(compiled.loader, ExtensionFileLoader):
        return None
    return compiled.origin


def load(path: str | None) -> Compile:
    """The engine's compile function, from the extension at `path`; imported whole where that is None.

    Loading the extension by path and importing pydantic-core later give the same types: CPython makes such a
    module once a process. Raises ImportError.
    """
    module: Any
    if _PACKAGE in sys.modules or path is None:
        module = import_module(_PACKAGE)
    else:
        loader = ExtensionFileLoader(_COMPILED, path)
        module = module_from_spec(ModuleSpec(_COMPILED, loader, origin=path))
        loader.exec_module(module)

    def compiled(pattern: str) -> Search:
        schema = {"type": "str", "pattern": pattern, "regex_engine": "rust-regex"}
        try:
            # The one call that reports no reason: building an error would cost more than the search.
            search: Search = module.SchemaValidator(schema).isinstance_python
        except module.SchemaError as error:
            raise Refused(str(error).partition("SchemaError: ")[2] or str(error)) from error
        return search

    return compiled

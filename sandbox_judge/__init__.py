"""LLM judges that grade an agent's conversation inside the sandbox it ran in.

The face of the package imports nothing by itself: a name is fetched from its module at first use, so that a
shim which needs one small module does not pay for the rest.
"""

from typing import Any

from sandbox_judge.version import __version__

_FACE = {
    "judge_conversation": "sandbox_judge.api",
    "Envelope": "sandbox_judge.api",
    "RecipeRef": "sandbox_judge.api",
    "Report": "sandbox_judge.api",
    "Settings": "sandbox_judge.settings",
}

__all__ = ["Envelope", "RecipeRef", "Report", "Settings", "__version__", "judge_conversation"]


def __getattr__(name: str) -> Any:
    if name in _FACE:
        from importlib import import_module

        return getattr(import_module(_FACE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

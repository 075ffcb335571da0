"""The exceptions that leave a function on purpose, and the exit code of each family.

    SandboxJudgeError
    ├── UsageError          2   the command line asks for something that cannot be
    ├── InputError          2   the hook input or a conversation cannot be read
    ├── RecipeError         2   the recipe or its commit cannot be read
    │   └── RecipeTampered  2   git objects do not hash to the ids that name them
    ├── SettingsError       2   live settings, the environment or a sink's address
    ├── TrustError          2   a directory or a peer that must be ours is not
    ├── MissingExtra        2   a part that is an optional install is not installed
    ├── CheckFailed         1   a check that the user asked for did not hold
    └── DeliveryError       3   events could not be handed over (they are spooled where a spool is kept)

What an author must fix is exit 2; what may pass on retry is exit 3; anything else that escapes is a bug of
ours and exit 70. Expected outcomes of grading are values (`nulls.Invalid`), never exceptions. A leaf: it
imports nothing of the package.
"""

from typing import ClassVar


class SandboxJudgeError(Exception):
    """An expected failure, told in one paragraph: what, where, and what to do about it.

    `where` names the file, key or address; `remedy` is a full sentence. Both may be empty.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.remedy = remedy

    def paragraph(self) -> str:
        """The whole error as one paragraph of plain text (not yet escaped for a terminal)."""
        where = f"{self.where}: " if self.where else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{where}{self.message}{remedy}"


class UsageError(SandboxJudgeError):
    exit_code = 2


class InputError(SandboxJudgeError):
    exit_code = 2


class RecipeError(SandboxJudgeError):
    exit_code = 2


class RecipeTampered(RecipeError):
    """A git object whose bytes do not hash to the id that its parent names (design, section 4)."""

    code: ClassVar[str] = "recipe_tampered"


class SettingsError(SandboxJudgeError):
    exit_code = 2


class TrustError(SandboxJudgeError):
    exit_code = 2


class MissingExtra(SandboxJudgeError):
    exit_code = 2


class CheckFailed(SandboxJudgeError):
    exit_code = 1


class DeliveryError(SandboxJudgeError):
    exit_code = 3

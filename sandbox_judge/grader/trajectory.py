"""What a grader did, turn by turn: kept in full, and shown again to a last call without tools."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sandbox_judge.lanes.base import Usage
from sandbox_judge.rubric.documents import Document
from sandbox_judge.rubric.outputs_view import Shown, show


class ToolStep(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call: the arguments as the model wrote them, the result as it was shown."""

    name: str
    arguments: str
    result: str
    failed: bool = False


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reply. `seconds` is the model's time, `own_seconds` ours."""

    number: int
    text: str | None = None
    tools: tuple[ToolStep, ...] = ()
    usage: Usage | None = None
    seconds: float = 0.0
    own_seconds: float = 0.0


class Trajectory:
    """The turns so far, and what they cost."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    @property
    def tokens(self) -> int:
        """Input and output of every turn that told its usage."""
        used = [turn.usage for turn in self.turns if turn.usage is not None]
        return sum((one.input_tokens or 0) + (one.output_tokens or 0) for one in used)

    def seen_text(self) -> str:
        """All that the tools showed: an answer that stands in it was planted."""
        return "\n".join(step.result for turn in self.turns for step in turn.tools)

    def shown(self) -> Shown:
        """The turns as one view, each tool call an entry."""
        documents = [
            Document(path=f"{step.name} {step.arguments}"[:200], size=len(step.result), text=step.result)
            for step in self._steps()
        ]
        return show(documents, pictures=False, what="What was looked at")

    def as_json(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(turn) for turn in self.turns]

    def _steps(self) -> Sequence[ToolStep]:
        return [step for turn in self.turns for step in turn.tools]

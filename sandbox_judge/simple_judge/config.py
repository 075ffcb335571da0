"""What a one-step judge is asked (`spec/rubric.md`, simple_judge): parameters, read strictly. Pure."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from sandbox_judge.errors import UsageError
from sandbox_judge.grading.instruments import YES_NO, Instrument, categories, scale
from sandbox_judge.recipe.judge import DEFAULT_PROVIDER, ModelRequest

JudgeType = Literal["categorical", "scale", "binary"]
DEFAULT_CATEGORIES: Final = ("yes", "no")
DEFAULT_RANGE: Final = (1, 5)
MOST_ITEMS: Final = 10_000
_MOST_LABELS: Final = 100
# Keys of older step configurations.
_RENAMED: Final[Mapping[str, str]] = {"explanation_required": "with_explanation"}
_IGNORED: Final = frozenset({"activity", "name", "description"})


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item said outright: a text or a path, never guessed."""

    text: str | None = None
    path: str | None = None


class ScoreRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    min: int
    max: int


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step. `item` and `items` are texts or paths; `item_path` and `items_path` are paths."""

    item: str | Item | None = None
    items: list[str | Item] | None = None
    item_path: str | None = None
    items_path: str | list[str] | None = None
    instruction: str | None = None
    instruction_path: str | None = None
    judge_type: JudgeType = "categorical"
    categories: list[str] | None = None
    scale_range: list[int] | None = None
    score_range: ScoreRange | None = None
    model: str | None = None
    model_provider: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    with_explanation: bool = True
    save_raw_response: bool = True
    system_prompt: str | None = None

    def instrument(self) -> Instrument:
        """The closed answer set. Raises UsageError for one that is none."""
        try:
            if self.judge_type == "scale":
                low, high = self._range()
                return scale(low=low, high=high)
            if self.judge_type == "binary" and self.categories is None:
                return msgspec.structs.replace(YES_NO, key="label")
            return categories(self._labels())
        except ValueError as error:
            raise UsageError(f"{error}.", where=self.judge_type) from error

    def _range(self) -> tuple[int, int]:
        if self.categories is not None:
            raise ValueError("categories belong to judge_type categorical, not to scale")
        if self.scale_range is not None and len(self.scale_range) != 2:
            raise ValueError("scale_range is two whole numbers, such as [1, 5]")
        if self.scale_range is not None:
            return self.scale_range[0], self.scale_range[1]
        return (self.score_range.min, self.score_range.max) if self.score_range else DEFAULT_RANGE

    def _labels(self) -> list[str]:
        if self.scale_range is not None:
            raise ValueError("scale_range belongs to judge_type scale")
        if self.judge_type == "binary" and len(self.categories or ()) != 2:
            raise ValueError("a binary judge has two categories")
        if self.categories is not None:
            if len(self.categories) > _MOST_LABELS:
                raise ValueError(f"more than {_MOST_LABELS} categories are no judgement")
            return self.categories
        if self.score_range is None:
            return list(DEFAULT_CATEGORIES)
        low, high = self.score_range.min, self.score_range.max
        if not low < high or high - low >= _MOST_LABELS:
            raise ValueError(f"a score_range from {low} to {high} gives no labels")
        return [str(number) for number in range(low, high + 1)]

    def all_items(self) -> tuple[str | Item, ...]:
        """Every item, in order. Raises UsageError where there is none, or items come in two ways."""
        given: list[list[str | Item]] = []
        if self.item is not None:
            given.append([self.item])
        if self.items is not None:
            given.append(list(self.items))
        if self.item_path is not None:
            given.append([Item(path=self.item_path)])
        if self.items_path is not None:
            paths = [self.items_path] if isinstance(self.items_path, str) else self.items_path
            given.append([Item(path=path) for path in paths])
        if len(given) != 1 or not given[0]:
            found = "none" if not any(given) else "several ways"
            raise UsageError(
                f"the items to judge were given in {found}.",
                remedy="Give one of item, items, item_path and items_path.",
            )
        if len(given[0]) > MOST_ITEMS:
            raise UsageError(f"{len(given[0]):,} items are more than {MOST_ITEMS:,}.")
        return tuple(given[0])

    def request(self) -> ModelRequest:
        """Raises UsageError for a temperature or a limit that no model takes."""
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UsageError(f"{self.temperature} is no temperature from 0 to 2.", where="temperature")
        if self.max_tokens is not None and not 1 <= self.max_tokens <= 131_072:
            raise UsageError(f"{self.max_tokens} is no limit from 1 to 131072.", where="max_tokens")
        return ModelRequest(
            temperature=0.0 if self.temperature is None else self.temperature,
            temperature_authored=self.temperature is not None,
            max_tokens=self.max_tokens,
        )

    def model_name(self) -> str | None:
        """`PROVIDER/MODEL`, as `--model` takes it; None where the step names no model."""
        if self.model is None or not self.model.strip():
            return None
        if self.model_provider is not None:
            return f"{self.model_provider}/{self.model}"
        return self.model if "/" in self.model else f"{DEFAULT_PROVIDER}/{self.model}"


def step_of(value: Any, *, where: str) -> Step:
    """A step configuration, as JSON built-ins. Raises UsageError, naming the key at fault."""
    if not isinstance(value, dict):
        raise UsageError("a step configuration is a JSON object.", where=where)
    activity = value.get("activity", "simple_judge")
    if activity != "simple_judge":
        raise UsageError(f"the step's activity is {activity!r}, not simple_judge.", where=where)
    renamed = {_RENAMED.get(key, key): given for key, given in value.items() if key not in _IGNORED}
    try:
        return msgspec.convert(renamed, Step)
    except msgspec.ValidationError as error:
        raise UsageError(f"this step cannot be used: {error}.", where=where) from error

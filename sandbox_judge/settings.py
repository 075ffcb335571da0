"""Live settings (`spec/settings.md`): the platform's word on which judges run, how often, and within what.

Pure: the shape, the strict reading of it, how sources combine, and the questions a run asks. Settings can
never alter a definition or a hash.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from sandbox_judge.budget import Budget
from sandbox_judge.errors import SettingsError
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import LocalEndpoint

ANY: Final = "*"
T = TypeVar("T")

Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
# A day: more is a mistake in units.
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=86_400_000)]


class JudgeSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One judge's settings; None where a source says nothing."""

    id: str | None = None
    enabled: bool | None = None
    sample_rate: Rate | None = None


class RecipeSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One recipe's settings: its judges by name (or `*`), and its time budget."""

    judges: dict[str, JudgeSettings] = {}
    budget_ms: Milliseconds | None = None
    reserve_ms: Milliseconds | None = None
    per_judge_ms: Milliseconds | None = None
    concurrency: Count | None = None
    max_judges: Count | None = None
    max_calls: Count | None = None


class ProviderSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How a provider is reached. The key stands in a variable or a file, never here."""

    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    lane: Literal["openai_wire", "litellm"] | None = None


class AllowedEndpoint(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An endpoint that a judge's `llm.local` may name in hook mode, with the only key variable it may use."""

    base_url: str
    api_key_env: str


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All settings of one source."""

    version: Literal[1] = 1
    recipes: dict[str, RecipeSettings] = {}
    providers: dict[str, ProviderSettings] = {}
    endpoints: tuple[AllowedEndpoint, ...] = ()
    sampling_key: str | None = None

    def judge_levels(self, recipe_id: str, name: str) -> list[JudgeSettings]:
        """The entries that speak of one judge, the most particular first: this recipe before any recipe,
        this name before any name."""
        return [
            recipe.judges[judge_key]
            for recipe in self.recipe_levels(recipe_id)
            for judge_key in (name, ANY)
            if judge_key in recipe.judges
        ]

    def recipe_levels(self, recipe_id: str) -> list[RecipeSettings]:
        return [self.recipes[key] for key in (recipe_id, ANY) if key in self.recipes]

    def judge_id(self, recipe_id: str, name: str) -> str | None:
        """An id names one judge, so it is read from entries by name only: one given for many would merge
        their trends."""
        named = [recipe.judges.get(name) for recipe in self.recipe_levels(recipe_id)]
        return _first([entry.id for entry in named if entry is not None], None)


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The sources in order: the first that has a key wins, key by key; `enabled: false` wins wherever it
    stands."""

    sources: tuple[Settings, ...] = ()

    def judge(self, recipe_id: str, name: str) -> JudgeSettings:
        """What is in force for one judge: `enabled` and `sample_rate` always set, `id` where one is given."""
        levels = [level for source in self.sources for level in source.judge_levels(recipe_id, name)]
        return JudgeSettings(
            id=_first([source.judge_id(recipe_id, name) for source in self.sources], None),
            enabled=all(level.enabled is not False for level in levels),
            sample_rate=_first([level.sample_rate for level in levels], 1.0),
        )

    def budget(self, recipe_id: str) -> Budget:
        """The budget in force for a recipe: its own numbers, else those for any, else the defaults."""
        levels = [level for source in self.sources for level in source.recipe_levels(recipe_id)]
        default = Budget()

        def given(key: str) -> Any:
            return _first([getattr(level, key) for level in levels], None)

        def seconds(key: str, otherwise: Any) -> Any:
            return otherwise if given(key) is None else given(key) / 1000

        return Budget(
            total_s=seconds("budget_ms", default.total_s),
            reserve_s=seconds("reserve_ms", default.reserve_s),
            per_judge_s=seconds("per_judge_ms", None),
            concurrency=given("concurrency") or default.concurrency,
            max_judges=given("max_judges") or default.max_judges,
            max_calls=given("max_calls"),
        )

    def provider(self, name: str) -> ProviderSettings:
        """How a provider is reached, key by key. Where its key stands is one thing: a source that names a
        variable is not overruled by a file of a lower one, nor the other way round."""
        found = ProviderSettings()
        for source in self.sources:
            if (more := source.providers.get(name)) is None:
                continue
            taken = [key for key in more.__struct_fields__ if getattr(found, key) is None]
            if found.api_key_env is not None or found.api_key_file is not None:
                taken = [key for key in taken if key not in ("api_key_env", "api_key_file")]
            found = msgspec.structs.replace(found, **{key: getattr(more, key) for key in taken})
        return found

    @property
    def sampling_key(self) -> str:
        return _first([source.sampling_key for source in self.sources], "")

    def refuses(self, local: LocalEndpoint) -> Invalid | None:
        """Why a judge's own endpoint may not be used in hook mode (`not_allowed`), or None if it may.

        A recipe must not be able to send any variable of the sandbox to any host.
        """
        listed = next((source.endpoints for source in self.sources if source.endpoints), ())
        entry = AllowedEndpoint(base_url=local.base_url, api_key_env=local.api_key_env)
        if listed:
            if entry in listed:
                return None
        elif is_loopback(local.base_url) and local.api_key_env.startswith("JUDGE_"):
            return None
        shown = msgspec.json.encode(entry).decode()
        return Invalid(
            type="not_allowed",
            message=f'settings do not allow this endpoint; to allow it add to "endpoints": {shown}',
        )


def is_loopback(url: str) -> bool:
    """Whether a base URL names this machine by one of the three hosts that the judge file knows."""
    try:
        parts = urlsplit(url)
        host, authority = parts.hostname, parts.netloc
    except ValueError:
        return False
    # `[::1].example` splits to the host `::1`, yet names another machine.
    after_bracket = authority.partition("]")[2]
    return host in ("localhost", "127.0.0.1", "::1") and after_bracket.partition(":")[0] == ""


def _first(values: Sequence[T | None], otherwise: T) -> T:
    return next((value for value in values if value is not None), otherwise)


def settings_of(value: Any, *, where: str) -> Settings:
    """Reads the JSON value of one source strictly. Raises SettingsError, naming the key at fault."""
    try:
        settings = msgspec.convert(value, Settings)
    except (msgspec.ValidationError, UnicodeError) as error:  # a lone surrogate is a value of no kind
        raise SettingsError(
            f"these settings cannot be used: {error}.",
            where=where,
            remedy="The keys are listed in docs/settings.md; nothing was graded.",
        ) from error
    for recipe_id, recipe in settings.recipes.items():
        for name, judge in recipe.judges.items():
            rate = judge.sample_rate
            # NaN passes both bounds of a range check.
            if rate is not None and not math.isfinite(rate):
                raise SettingsError(
                    f"sample_rate of judge {name!r} in recipe {recipe_id!r} is not a number from 0 to 1.",
                    where=where,
                    remedy="Nothing was graded.",
                )
    return settings


class InlineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the hook input may set: `enabled`, `sample_rate` and budgets, for all judges or by name."""

    enabled: bool | None = None
    sample_rate: Rate | None = None
    judges: dict[str, JudgeSettings] = {}
    budget_ms: Milliseconds | None = None
    reserve_ms: Milliseconds | None = None
    per_judge_ms: Milliseconds | None = None
    concurrency: Count | None = None
    max_judges: Count | None = None
    max_calls: Count | None = None
    version: Literal[1] = 1
    recipes: dict[str, RecipeSettings] = {}


def inline_settings(value: Any, *, recipe_id: str) -> tuple[Settings, ...]:
    """The `settings` of a hook input as sources of their own, in order, for this run's recipe.

    Flat keys speak of this run; the shape of a settings file is taken too. Raises SettingsError for anything
    that only the platform may set (ids, providers, endpoints, the sampling key).
    """
    where = "settings in the hook input"
    try:
        inline = msgspec.convert(value, InlineSettings)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise SettingsError(
            f"only enabled, sample_rate and budgets may stand there: {error}.",
            where=where,
            remedy="Ids, providers, endpoints and keys belong into the settings file. Nothing was graded.",
        ) from error
    judges = {**inline.judges, ANY: inline.judges.get(ANY, JudgeSettings())}
    every = {"enabled": inline.enabled, "sample_rate": inline.sample_rate}
    for name, judge in judges.items():
        absent = {key: given for key, given in every.items() if getattr(judge, key) is None}
        judges[name] = msgspec.structs.replace(judge, **absent)
    flat = RecipeSettings(
        judges=judges,
        **{key: getattr(inline, key) for key in RecipeSettings.__struct_fields__ if key != "judges"},
    )
    sources = tuple(
        settings_of({"recipes": msgspec.to_builtins(recipes)}, where=where)
        for recipes in ({recipe_id: flat}, inline.recipes)
    )
    for recipe in (recipe for source in sources for recipe in source.recipes.values()):
        if any(judge.id is not None for judge in recipe.judges.values()):
            raise SettingsError(
                "a judge's id cannot be set there.", where=where, remedy="Nothing was graded."
            )
    return sources

"""A judge as its file defines it (`spec/judge-file.md`), and the hashes that name the definition.

Values only; `judge_file.py` makes them out of bytes.
"""

from typing import Any, Final, Literal

import msgspec

from sandbox_judge.canonical import canonical_json, sha256

EventKind = Literal["message", "tool", "feedback"]

DEFAULT_PROVIDER: Final = "openai"


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`llm.request`. `temperature_authored` tells a written 0 from the default 0, which may be dropped."""

    temperature: float = 0.0
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    temperature_authored: bool = False


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """`llm.transport`: one call's limits. Times in milliseconds."""

    timeout_ms: int = 60_000
    max_retries: int = 0
    max_retry_delay_ms: int = 5_000


class LocalEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`llm.local`: an endpoint of the author's, and the NAME of the variable that holds its key."""

    base_url: str
    api_key_env: str


class Llm(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    provider: str = DEFAULT_PROVIDER
    request: ModelRequest = ModelRequest()
    transport: Transport = Transport()
    local: LocalEndpoint | None = None


class Matcher(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `on`. `match` maps field paths to targets as authored (regex literals still as strings);
    None where the entry has no `match`, so that every event of the kind matches."""

    event: EventKind
    match: dict[str, Any] | None = None


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """A valid definition. `on` empty: the judge always applies. `definition_hash` is over the file's exact
    bytes; `path` is relative to the recipe (`judges/tone.yaml`)."""

    name: str
    instructions: str
    llm: Llm
    path: str
    definition_hash: str
    description: str | None = None
    on: tuple[Matcher, ...] = ()
    # The normalised form (as the format's own checker gives it), for `check -o json` and `grading_hash`.
    normalised: dict[str, Any] = {}

    @property
    def grading_hash(self) -> str:
        """Of the normalised form without description, transport and local: tells a cosmetic edit from a real
        one (`spec/events.md`). Never a key of comparison."""
        llm = {k: v for k, v in self.normalised["llm"].items() if k not in ("transport", "local")}
        rest = {k: v for k, v in self.normalised.items() if k not in ("description", "llm")}
        return sha256(canonical_json({**rest, "llm": llm}))

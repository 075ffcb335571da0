"""With which address and key a judge's model is called, or why it may not be (`spec/settings.md`).

Keys are read at each call, so that one that a platform rotates is never stale. No base URL is taken from the
environment.
"""

import os
from collections.abc import Mapping
from typing import Final

from sandbox_judge.lanes.base import Endpoint
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import Llm
from sandbox_judge.settings import LiveSettings

# Providers whose key stands in another variable than <PROVIDER>_API_KEY, by their own documentation.
_KEY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "together-ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
    "fireworks-ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
    "huggingface": ("HF_TOKEN", "HUGGINGFACE_API_KEY"),
    "xai": ("XAI_API_KEY",),
}
# Providers that sign requests with the platform's own credentials, or that want no key at all.
_KEYLESS: Final = frozenset(
    {"bedrock", "sagemaker", "vertex-ai", "ollama", "ollama-chat", "vllm", "lm-studio"}
)
_MOST_KEY_BYTES: Final = 64 * 1024


def endpoint_for(
    llm: Llm, settings: LiveSettings, environ: Mapping[str, str], *, dry_run: bool
) -> Endpoint | Invalid:
    """The endpoint for one call, or the null that says why there is none (`not_allowed`, `auth`)."""
    if llm.local is not None:
        refused = None if dry_run else settings.refuses(llm.local)
        if refused is not None:
            return refused
        key = environ.get(llm.local.api_key_env)
        if not key:
            return _no_key(
                f"the variable {llm.local.api_key_env}, named by llm.local.api_key_env, is not set"
            )
        return Endpoint(base_url=llm.local.base_url, api_key=key)
    provider = settings.provider(llm.provider)
    key_or_null = _provider_key(llm.provider, provider.api_key_env, provider.api_key_file, environ)
    if isinstance(key_or_null, Invalid):
        return key_or_null
    return Endpoint(base_url=provider.base_url, api_key=key_or_null)


def key_variables(provider: str) -> tuple[str, ...]:
    """The variables that may hold a provider's key, in the order in which they are asked."""
    return _KEY_VARIABLES.get(provider, (f"{provider.upper().replace('-', '_')}_API_KEY",))


def _provider_key(
    name: str, variable: str | None, file: str | None, environ: Mapping[str, str]
) -> str | Invalid | None:
    if variable is not None and environ.get(variable):
        return environ[variable]
    if file is not None:
        return _key_in(file)
    if variable is not None:
        return _no_key(f"the variable {variable}, named by the settings of provider {name}, is not set")
    for candidate in key_variables(name):
        if environ.get(candidate):
            return environ[candidate]
    if name in _KEYLESS:
        return None
    return _no_key(f"no key for provider {name}: the variable {key_variables(name)[0]} is not set")


def _key_in(file: str) -> str | Invalid:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            key = os.read(descriptor, _MOST_KEY_BYTES).decode("ascii").strip()
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        return _no_key(f"the key file {file} cannot be read ({type(error).__name__})")
    return key if key else _no_key(f"the key file {file} is empty")


def _no_key(message: str) -> Invalid:
    return Invalid(type="auth", message=message)

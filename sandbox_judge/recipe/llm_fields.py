"""The `llm` block of a judge file: a tree node to the values of `recipe.judge`, with every fault.

A field is valid where both readings of the format's own checker take it: the untyped one (a model `5` is a
number, not text) and the typed one (a temperature `0x1` is no decimal).
"""

import re
from collections.abc import Callable
from typing import Any, Final

from sandbox_judge.recipe.base_url import fault_of
from sandbox_judge.recipe.diagnostics import Findings
from sandbox_judge.recipe.fields import is_faulty, is_text, unknown_fields, value_at
from sandbox_judge.recipe.judge import DEFAULT_PROVIDER, Llm, LocalEndpoint, ModelRequest, Transport
from sandbox_judge.yaml_scalars import WHITE_SPACE, is_decimal
from sandbox_judge.yaml_tree import MappingNode, Node, Scalar

MAX_MODEL_BYTES: Final = 255
MAX_TEMPERATURE: Final = 2
MAX_TOKENS: Final = 131_072
MAX_TIMEOUT_MS: Final = 600_000
MAX_RETRIES: Final = 10
MAX_RETRY_DELAY_MS: Final = 60_000
PROVIDER: Final = re.compile(r"[a-z0-9-]{1,64}")
REASONING_EFFORT: Final = re.compile(r"[a-z-]{1,64}")
VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_llm(node: Node | None, root: MappingNode, findings: Findings) -> Llm | None:
    """The `llm` block, or None where it has a fault."""
    if node is None:
        findings.error(
            "llm_missing", "a judge must say which model judges", root, "add `llm:` with a `model:` below it"
        )
        return None
    if not isinstance(node, MappingNode):
        if not is_faulty(node):
            findings.error(
                "llm_invalid",
                "llm must be a mapping",
                node,
                "write provider, model and, where needed, request, transport and local below it",
            )
        return None
    before = len(findings.found)
    unknown_fields(
        node, ("local", "model", "provider", "request", "transport"), "llm.unknown_field", "llm", findings
    )
    provider = _provider(node.get("provider"), findings)
    model = _model(node, findings)
    request = _block(node, "request", findings, _request, ModelRequest())
    transport = _block(node, "transport", findings, _transport, Transport())
    local = None
    if value_at(node.get("local")) is not None:
        local = _block(node, "local", findings, _local, None)
    if len(findings.found) > before:
        return None
    return Llm(provider=provider, model=model, request=request, transport=transport, local=local)


def _block(
    llm: MappingNode,
    name: str,
    findings: Findings,
    read: Callable[[MappingNode, Findings], Any],
    default: Any,
) -> Any:
    node = llm.get(name)
    if node is None or is_faulty(node):
        return default
    if not isinstance(node, MappingNode):
        findings.error(
            f"llm.{name}_invalid", f"llm.{name} must be a mapping", node, f"remove `{name}` or fill it"
        )
        return default
    return read(node, findings)


def _provider(node: Node | None, findings: Findings) -> str:
    if node is None or is_faulty(node):
        return DEFAULT_PROVIDER
    if isinstance(node, Scalar) and is_text(node) and PROVIDER.fullmatch(node.text):
        return node.text
    findings.error(
        "llm.provider_invalid",
        "llm.provider must be a provider's short name",
        node,
        "write 1-64 lower-case letters, digits or hyphens, or leave it out for openai",
    )
    return DEFAULT_PROVIDER


def _model(llm: MappingNode, findings: Findings) -> str:
    node = llm.get("model")
    if is_faulty(node):
        return ""
    if value_at(node) is None:
        findings.error(
            "llm.model_missing",
            "llm.model is required",
            node or llm,
            "set it to the provider's name of the model",
        )
        return ""
    if isinstance(node, Scalar) and is_text(node) and node.text:
        text = node.text
        if text == text.strip(WHITE_SPACE) and len(text.encode("utf-8", "replace")) <= MAX_MODEL_BYTES:
            return text
    findings.error(
        "llm.model_invalid",
        "llm.model must be text, without blanks at either end",
        node,
        f"write its name, at most {MAX_MODEL_BYTES} bytes; put one that looks like a number in quotes",
    )
    return ""


def _request(node: MappingNode, findings: Findings) -> ModelRequest:
    unknown_fields(
        node,
        ("max_tokens", "reasoning_effort", "temperature"),
        "llm.request.unknown_field",
        "llm.request",
        findings,
    )
    temperature = node.get("temperature")
    return ModelRequest(
        temperature=0.0 if temperature is None else _temperature(temperature, findings),
        max_tokens=_integer(node, "llm.request.max_tokens", 1, MAX_TOKENS, None, findings, nullable=True),
        reasoning_effort=_reasoning_effort(node.get("reasoning_effort"), findings),
        temperature_authored=temperature is not None,
    )


def _temperature(node: Node, findings: Findings) -> float:
    if is_faulty(node):
        return 0.0
    if (
        isinstance(node, Scalar)
        and type(node.value) in (int, float)
        and node.tag in (None, "float")
        and is_decimal(node.text)
        and 0 <= float(node.text) <= MAX_TEMPERATURE
    ):
        return float(node.text)
    findings.error(
        "llm.request.temperature_invalid",
        "llm.request.temperature must be a number between 0 and 2",
        node,
        "write a decimal such as 0.2, without quotes, or leave it out for the default 0",
    )
    return 0.0


def _reasoning_effort(node: Node | None, findings: Findings) -> str | None:
    if value_at(node) is None or is_faulty(node):
        return None
    if isinstance(node, Scalar) and is_text(node) and REASONING_EFFORT.fullmatch(node.text):
        return node.text
    findings.error(
        "llm.request.reasoning_effort_invalid",
        "llm.request.reasoning_effort must be a lower-case word",
        node,
        "write 1-64 lower-case letters or hyphens; put a word such as no or off in quotes",
    )
    return None


def _integer(
    block: MappingNode,
    field: str,
    low: int,
    high: int,
    default: int | None,
    findings: Findings,
    *,
    nullable: bool = False,
) -> int | None:
    node = block.get(field.rpartition(".")[2])
    if node is None or is_faulty(node) or (nullable and value_at(node) is None):
        return default
    if (
        isinstance(node, Scalar)
        and type(node.value) is int
        and not node.text.lstrip(WHITE_SPACE).startswith("-")
        and low <= node.value <= high
    ):
        return node.value
    findings.error(
        f"{field}_invalid",
        f"{field} must be a whole number from {low:,} to {high:,}",
        node,
        "write it without quotes, point or unit",
    )
    return default


def _transport(node: MappingNode, findings: Findings) -> Transport:
    place = "llm.transport"
    unknown_fields(
        node, ("max_retries", "max_retry_delay_ms", "timeout_ms"), f"{place}.unknown_field", place, findings
    )
    default = Transport()
    timeout = _integer(node, f"{place}.timeout_ms", 1, MAX_TIMEOUT_MS, default.timeout_ms, findings)
    retries = _integer(node, f"{place}.max_retries", 0, MAX_RETRIES, default.max_retries, findings)
    delay = _integer(
        node, f"{place}.max_retry_delay_ms", 0, MAX_RETRY_DELAY_MS, default.max_retry_delay_ms, findings
    )
    assert timeout is not None and retries is not None and delay is not None
    return Transport(timeout_ms=timeout, max_retries=retries, max_retry_delay_ms=delay)


def _local(node: MappingNode, findings: Findings) -> LocalEndpoint:
    place = "llm.local"
    unknown_fields(node, ("api_key_env", "base_url"), f"{place}.unknown_field", place, findings)
    url, variable = node.get("base_url"), node.get("api_key_env")
    fault = None if is_faulty(url) else "it must be an http or https address with a host"
    if isinstance(url, Scalar) and is_text(url):
        fault = fault_of(url.text)
    if fault is not None:
        findings.error(
            f"{place}.base_url_invalid",
            f"llm.local.base_url: {fault}",
            url or node,
            "write an https address of an OpenAI-compatible endpoint, or an http one of this machine",
        )
    named = isinstance(variable, Scalar) and is_text(variable) and VARIABLE_NAME.fullmatch(variable.text)
    if not named and not is_faulty(variable):
        findings.error(
            f"{place}.api_key_env_invalid",
            "llm.local.api_key_env must be the NAME of an environment variable",
            variable or node,
            "write letters, digits and underscores, not starting with a digit; never the key itself",
        )
    return LocalEndpoint(base_url=_text(url), api_key_env=_text(variable))


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""

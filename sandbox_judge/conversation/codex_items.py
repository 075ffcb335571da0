"""Codex's response items (a rollout's `response_item` rows, and the bare items of older files). Pure.

Shapes: github.com/openai/codex, `codex-rs/protocol/src/models.rs`. They are OpenAI's Responses items with
Codex's own tools and outputs; rows carry the time.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import parse_json
from sandbox_judge.conversation.model import Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, media
from sandbox_judge.conversation.responses_parts import content_parts

# Calls: the name where the item has none, and where their arguments stand.
_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "tool_search_call": ("tool_search", "arguments"),
    "web_search_call": ("web_search", "action"),
}
_OUTPUTS: Final = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "tool_search_output",
        "function_result",
    }
)
_COMPACTED: Final = ("compaction", "compaction_summary", "context_compaction")
# What the harness writes in the user's name.
_MACHINE: Final = re.compile(
    r"\s*(?:<(environment_context|user_instructions|turn_aborted|user_shell_command|skill|subagent_notification"
    r"|permissions instructions|INSTRUCTIONS)>|(# AGENTS\.md instructions))"
)
_FAILED: Final = re.compile(r"^(?:Exit code:|Process exited with code) (?!0$)-?\d+$", re.MULTILINE)
_HEAD: Final = 500
_ENCRYPTED: Final = "(encrypted by the provider)"
_BOOKKEEPING: Final = ("ghost_snapshot",)


def is_item(row: Mapping[str, Any]) -> bool:
    """Whether a row without a payload is an item by itself, as older files write them."""
    kind = _kind(row)
    return (
        kind in _CALLS
        or kind in _OUTPUTS
        or kind in ("message", "reasoning")
        or isinstance(row.get("role"), str)
    )


def _kind(item: Mapping[str, Any]) -> str | None:
    kind = item.get("type")
    return None if kind is None else as_text(kind)


def machine_name(role: Any, content: Any) -> str | None:
    """What wrote a user message that no user wrote; None for what the user said."""
    if role != "user":
        return None
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    found = _MACHINE.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    return "agents_md" if found[2] else found[1].replace(" ", "_")


def add_item(
    build: ConversationBuilder, item: dict[str, Any], *, agent: Any = None, time: Any = None
) -> bool:
    """The entry of one item; False for one that is only bookkeeping."""
    kind = _kind(item)
    if kind == "message" or (kind is None and "role" in item):
        _message(build, item, agent, time)
    elif kind == "reasoning":
        build.message("assistant", _thoughts(item), agent=agent, time=time)
    elif kind in _CALLS:
        _call(build, item, agent, time)
    elif kind in _OUTPUTS:
        _output(build, item, agent, time)
    elif kind == "image_generation_call":
        _image(build, item, agent, time)
    elif kind == "agent_message":
        author, parts = item.get("author"), _blocks(build, item.get("content"))
        build.message("assistant", parts, name=item.get("recipient"), agent=author or agent, time=time)
    elif kind in _COMPACTED:
        build.message("system", [Unknown(label="compacted", text=_ENCRYPTED)], agent=agent, time=time)
    elif kind in _BOOKKEEPING:
        return False
    else:
        build.message("assistant", [build.unknown(kind, item)], agent=agent, time=time)
    return True


def _message(build: ConversationBuilder, item: dict[str, Any], agent: Any, time: Any) -> None:
    role = item.get("role")
    content = item.get("content", item.get("message"))
    if (machine := machine_name(role, content)) is not None:
        build.message("system", _blocks(build, content), name=machine, agent=agent, time=time)
        return
    build.message(role, _blocks(build, content), name=item.get("name"), agent=agent, time=time)


def _blocks(build: ConversationBuilder, content: Any) -> list[Part]:
    """Content's parts. Codex notes an image that was dropped as one without an address."""
    blocks = content if isinstance(content, list) else [content]
    parts: list[Part] = []
    for block in blocks:
        if isinstance(block, dict) and "encrypted_content" in block:
            parts.append(Unknown(label="encrypted_content"))
        elif (
            isinstance(block, dict) and block.get("type") == "input_image" and block.get("image_url") is None
        ):
            parts.append(media("image", name=block.get("file_id")))
        else:
            parts.extend(content_parts(build, block))
    return parts


def _thoughts(item: dict[str, Any]) -> list[Part]:
    """The text of reasoning: what was kept of its content, else its summary, else that it is encrypted."""
    for key in ("content", "summary"):
        blocks = item.get(key)
        texts = (
            [b.get("text") if isinstance(b, dict) else b for b in blocks if b]
            if isinstance(blocks, list)
            else []
        )
        if any(texts):
            return [Reasoning(text=as_text(text)) for text in texts if text]
    return [Reasoning(text=_ENCRYPTED if item.get("encrypted_content") else as_text(item.get("text")))]


def _id(item: dict[str, Any]) -> Any:
    return item.get("call_id") or item.get("id")


def _call(build: ConversationBuilder, item: dict[str, Any], agent: Any, time: Any) -> None:
    default, key = _CALLS[item["type"]]
    function = item.get("function")
    held = {**item, **function} if isinstance(function, dict) else item
    name, space = as_text(held.get("name")) or default, held.get("namespace")
    if isinstance(space, str) and space:
        name = f"{space}{name}" if space.endswith("_") else f"{space}.{name}"
    arguments = held.get(key, held.get("arguments"))
    if item["type"] == "custom_tool_call" and isinstance(arguments, str) and not _is_json(arguments):
        # Free text by design (a patch, a script): no fault of the call.
        arguments = {key: arguments}
    build.tool_call(name, arguments, id=_id(item), agent=agent, time=time)


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def _output(build: ConversationBuilder, item: dict[str, Any], agent: Any, time: Any) -> None:
    output = next(
        (item[k] for k in ("output", "tools", "result", "content") if item.get(k) is not None), None
    )
    failed = item.get("status") in ("failed", "error", "incomplete")
    if isinstance(output, dict) and "content" in output:
        failed, output = failed or output.get("success") is False, output["content"]
    told = output[0] if isinstance(output, list) and output else output
    told = told.get("text") if isinstance(told, dict) else told
    if isinstance(told, str):
        failed = failed or _exited_badly(told)
    listed = output if isinstance(output, list) else [output]
    plain = item.get("type") == "tool_search_output" or not all(
        isinstance(b, str | dict | None) for b in listed
    )
    build.tool_result(
        [Text(text=as_text(output))] if plain else _blocks(build, output),
        id=_id(item),
        name=item.get("name"),
        error=failed,
        agent=agent,
        time=time,
    )


def _exited_badly(text: str) -> bool:
    """Whether the head of a shell's output, or the JSON that older versions wrote, tells a failure."""
    if text.startswith('{"output"') and '"exit_code"' in text[-_HEAD:]:
        try:
            metadata = parse_json(text).get("metadata")
        except (ValueError, AttributeError):
            return False
        return isinstance(metadata, dict) and metadata.get("exit_code") not in (None, 0)
    return _FAILED.search(text[:_HEAD].partition("\nOutput:")[0]) is not None


def _image(build: ConversationBuilder, item: dict[str, Any], agent: Any, time: Any) -> None:
    prompt, result = item.get("revised_prompt"), item.get("result")
    args = None if prompt is None else {"prompt": prompt}
    build.tool_call("image_generation", args, id=_id(item), agent=agent, time=time)
    if result is not None:
        build.tool_result([media("image", base64=result)], id=_id(item), agent=agent, time=time)

"""Parts of the AI SDK's UI messages: tool parts that hold call and result in one, sources, files, data. Pure.

Shapes: `UIMessage` of the `ai` package, versions 4 (`tool-invocation`) to 6.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.acts import Act, Answered, Called
from sandbox_judge.conversation.dialect_parts import answered, part_acts
from sandbox_judge.conversation.model import Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, media, unknown

_STATES: Final = frozenset(
    {
        "input-streaming",
        "input-available",
        "approval-requested",
        "approval-responded",
        "output-available",
        "output-error",
        "output-denied",
    }
)
_OWN: Final = frozenset(
    {"step-start", "dynamic-tool", "tool-invocation", "source", "source-url", "source-document"}
)
_DENIED: Final = "(the execution was denied)"


def is_ui_part(block: Any) -> bool:
    """Whether a part is one that only UI messages have."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        return False
    if kind in _OWN or kind.startswith("data-"):
        return True
    return kind.startswith("tool-") and block.get("state") in _STATES


def ui_acts(parts: Any) -> Iterator[Act | Part]:
    """What the parts of a UI message hold, in order."""
    for block in parts if isinstance(parts, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str) or kind == "step-start":
            if kind is None:
                yield from part_acts(block, "assistant")
        elif kind == "tool-invocation" and isinstance(block.get("toolInvocation"), dict):
            yield from invocation(block["toolInvocation"])
        elif kind == "dynamic-tool" or (kind.startswith("tool-") and "toolCallId" in block):
            name = block.get("toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")
            yield from _tool(block, as_text(name))
        elif kind.startswith("source"):
            yield _source(block)
        elif kind == "file" and ("url" in block or "data" in block):
            name = block.get("filename")
            mime = block.get("mediaType", block.get("mimeType"))
            yield media(mime=mime, url=block.get("url"), base64=block.get("data"), name=name)
        elif kind.startswith("data-"):
            yield unknown(kind, block.get("data"))
        elif kind == "reasoning":
            yield Reasoning(text=as_text(block.get("text", block.get("reasoning"))))
        elif kind == "text":
            yield Text(text=as_text(block.get("text")))
        else:
            yield from part_acts(block, "assistant")


def invocation(block: dict[str, Any]) -> Iterator[Act]:
    """A tool invocation as version 4 writes it."""
    yield _call(block, as_text(block.get("toolName")), block.get("args"))
    if block.get("state") == "result" or block.get("result") is not None:
        yield answered({**block, "output": None}, block.get("result", ""))


def _tool(block: dict[str, Any], name: str) -> Iterator[Act]:
    state = block.get("state")
    given = block.get("input") if block.get("input") is not None else block.get("rawInput")
    yield _call(block, name, given)
    id = as_text(block.get("toolCallId")) or None
    approval = block.get("approval")
    if state == "output-available":
        found = answered({"toolCallId": id, "toolName": name}, block.get("output"))
        yield Answered(parts=found.parts, id=id, name=name)
    elif state == "output-error":
        yield Answered(parts=(Text(text=as_text(block.get("errorText"))),), id=id, name=name, error=True)
    elif state == "output-denied" or (isinstance(approval, dict) and approval.get("approved") is False):
        reason = approval.get("reason") if isinstance(approval, dict) else None
        yield Answered(parts=(Text(text=as_text(reason) or _DENIED),), id=id, name=name, error=True)


def _call(block: dict[str, Any], name: str, given: Any) -> Called:
    return Called(name=name, arguments=given, id=as_text(block.get("toolCallId")) or None)


def _source(block: dict[str, Any]) -> Unknown:
    held = block["source"] if isinstance(block.get("source"), dict) else block
    words = [as_text(held.get(key)) for key in ("title", "url", "filename", "mediaType")]
    return Unknown(label="source", text=" ".join(filter(None, words)) or None)

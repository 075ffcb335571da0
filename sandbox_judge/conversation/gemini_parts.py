"""Gemini's content parts, which generateContent and the Gemini CLI's sessions share. Pure.

Shapes: ai.google.dev/api/caching#Content, in the REST names (camelCase) and those of the Python SDK.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder, Turn
from sandbox_judge.conversation.model import Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, listed, media

_CAMEL: Final[Mapping[str, str]] = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
# What says how a part is to be read, and is nothing by itself.
_MARGIN: Final = frozenset(
    {"thought", "thoughtSignature", "thought_signature", "videoMetadata", "video_metadata", "partMetadata"}
    | {"mediaResolution", "media_resolution", "part_metadata"}
)
_STEPS: Final = ("functionCall", "executableCode", "toolCall")
_ANSWERS: Final = ("functionResponse", "codeExecutionResult", "toolResponse")
PART_KEYS: Final = frozenset({"text", *_CAMEL, *_CAMEL.values()})
_CODE: Final = "code_execution"
# A response of one of these keys alone is that text.
_PLAIN: Final = ("output", "result", "return_value", "content", "error")


def add_content(
    build: ConversationBuilder,
    role: Any,
    parts: Any,
    *,
    name: Any = None,
    agent: Any = None,
    time: Any = None,
    mark: str | None = None,
    first: tuple[Part, ...] = (),
    answered: Collection[str] = (),
) -> None:
    """The entries of one content. `first` stands before its parts, `mark` after them; results of the calls
    `answered` were shown already."""
    turn = Turn(build, role, first, name=name, agent=agent, time=time)
    for part in listed(parts):
        kind, held = kind_of(part)
        if kind not in _STEPS and kind not in _ANSWERS:
            turn.say(_spoken(build, kind, held, part))
            continue
        if kind in _ANSWERS and answered and isinstance(held, dict) and held.get("id") in answered:
            turn.acted = True
            continue
        turn.act()
        _step(build, kind, held if isinstance(held, dict) else {}, agent, time)
    turn.end(mark)


def kind_of(part: Any) -> tuple[str, Any]:
    """(what a part is, by the REST name; what it holds)."""
    if isinstance(part, str):
        return "text", part
    if not isinstance(part, dict):
        return "", part
    for key, value in part.items():
        named = _CAMEL.get(key, key)
        if value is not None and named in PART_KEYS:
            return named, value
    rest = [key for key, value in part.items() if key not in _MARGIN and value is not None]
    return (rest[0], part) if rest else ("", None)


def answer_parts(build: ConversationBuilder, held: Any) -> tuple[list[Part], bool]:
    """(parts, is it a failure) of what a function gave: its response, and media beside it."""
    if not isinstance(held, dict):
        return ([Text(text=as_text(held))] if held is not None else []), False
    response = held.get("response")
    parts: list[Part] = []
    failed = False
    if isinstance(response, dict):
        failed = response.get("error") is not None and response.get("output") is None
        alone = next(iter(response)) if len(response) == 1 else None
        inner = response[alone] if alone in _PLAIN else response
        if inner is not None and response:
            parts.append(Text(text=as_text(inner)))
    elif response is not None:
        parts.append(Text(text=as_text(response)))
    for part in listed(held.get("parts")):
        parts.extend(_spoken(build, *kind_of(part), part))
    return parts, failed


def result_parts(build: ConversationBuilder, result: Any) -> tuple[list[Part], bool]:
    """(parts, is it a failure) of a recorded result: function responses, with media or text beside them."""
    found: list[Part] = []
    failed = False
    for part in listed(result):
        kind, held = kind_of(part)
        if kind == "functionResponse":
            parts, bad = answer_parts(build, held)
            found.extend(parts)
            failed = failed or bad
        else:
            found.extend(_spoken(build, kind, held, part))
    return found, failed


def _step(build: ConversationBuilder, kind: str, held: dict[str, Any], agent: Any, time: Any) -> None:
    id = held.get("id")
    if kind == "functionCall":
        build.tool_call(
            held.get("name"), held.get("args", held.get("arguments")), id=id, agent=agent, time=time
        )
    elif kind == "executableCode":
        args = {key: held[key] for key in ("language", "code") if held.get(key) is not None}
        build.tool_call(_CODE, args, id=id, agent=agent, time=time)
    elif kind == "toolCall":
        name = held.get("toolType", held.get("tool_type"))
        build.tool_call(name, held.get("args"), id=id, agent=agent, time=time)
    elif kind == "codeExecutionResult":
        outcome = as_text(held.get("outcome"))
        build.tool_result(
            as_text(held.get("output")),
            id=id,
            name=_CODE,
            error=outcome not in ("", "OUTCOME_OK", "OUTCOME_UNSPECIFIED"),
            agent=agent,
            time=time,
        )
    else:
        parts, failed = answer_parts(build, held)
        name = held.get("name", held.get("toolType", held.get("tool_type")))
        build.tool_result(parts, id=id, name=name, error=failed, agent=agent, time=time)


def _spoken(build: ConversationBuilder, kind: str, held: Any, part: Any) -> Iterator[Part]:
    """The parts of what is said or shown; a part that only carries a signature is none."""
    if kind == "text":
        thought = isinstance(part, dict) and part.get("thought") is True
        yield Reasoning(text=as_text(held)) if thought else Text(text=as_text(held))
    elif kind == "inlineData" and isinstance(held, dict):
        yield media(
            _media_kind(held),
            mime=_of(held, "mimeType", "mime_type"),
            base64=held.get("data"),
            name=_of(held, "displayName", "display_name"),
        )
    elif kind == "fileData" and isinstance(held, dict):
        yield media(
            _media_kind(held),
            mime=_of(held, "mimeType", "mime_type"),
            url=_of(held, "fileUri", "file_uri"),
            name=_of(held, "displayName", "display_name"),
        )
    elif kind:
        yield build.unknown(kind, held)
    elif held is not None:
        yield build.unknown("part", held)


def _media_kind(held: dict[str, Any]) -> str | None:
    return None if isinstance(_of(held, "mimeType", "mime_type"), str) else "file"


def _of(held: dict[str, Any], *keys: str) -> Any:
    return next((held[key] for key in keys if held.get(key) is not None), None)


def thought_summary(subject: Any, description: Any) -> Reasoning:
    """A thought as the CLI records it."""
    return Reasoning(text="\n".join(text for text in (as_text(subject), as_text(description)) if text))


NO_RESULT: Final = Unknown(label="not_recorded", text="the tool ran and its result was not recorded")

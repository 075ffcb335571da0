"""The parts of OpenAI's Responses items: content, reasoning, outputs, results of built-in tools. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.model import Part, Reasoning, Text, Unknown
from sandbox_judge.conversation.parts import as_text, listed, media, spoken

_TEXTS: Final = ("input_text", "output_text", "text", "summary_text")
_ENCRYPTED: Final = "(encrypted by the provider)"


def content_parts(build: ConversationBuilder, content: Any) -> list[Part]:
    """The parts of a message's content, or of an output that is made of them."""
    if isinstance(content, str):
        return [Text(text=content)]
    if content is None:
        return []
    return [
        part
        for block in (content if isinstance(content, list) else [content])
        for part in _part(build, block)
    ]


def _part(build: ConversationBuilder, block: Any) -> Iterable[Part]:
    if (said := spoken(block, _TEXTS)) is not None:
        return said
    if not isinstance(block, dict):
        return (build.unknown("part", block),)
    kind = block.get("type")
    if kind == "reasoning_text":
        return (Reasoning(text=as_text(block.get("text"))),)
    if kind in ("input_image", "computer_screenshot", "image_url"):
        url = block.get("image_url")
        return (
            media("image", url=url.get("url") if isinstance(url, dict) else url, name=block.get("file_id")),
        )
    if kind == "input_file":
        return (_file(block),)
    if kind in ("input_audio", "output_audio"):
        return _audio(block)
    return (build.unknown(kind, block),)


def _file(block: dict[str, Any]) -> Part:
    name, data = block.get("filename") or block.get("file_id"), block.get("file_data")
    if isinstance(data, str) and data.startswith("data:"):
        return media("file", url=data, name=name)
    return media("file", base64=data, url=block.get("file_url"), name=name)


def _audio(block: dict[str, Any]) -> Iterator[Part]:
    inner = block.get("input_audio")
    held = inner if isinstance(inner, dict) else block
    form = held.get("format")
    yield media("audio", mime=f"audio/{form}" if isinstance(form, str) else None, base64=held.get("data"))
    if isinstance(said := block.get("transcript"), str) and said:
        yield Text(text=said)


def thoughts_of(item: dict[str, Any]) -> Iterator[Part]:
    """What a reasoning item tells: its content, else the summary of it, else that it is encrypted."""
    for key in ("content", "summary"):
        texts = [b.get("text") if isinstance(b, dict) else b for b in listed(item.get(key))]
        if any(texts):
            yield from (Reasoning(text=as_text(text)) for text in texts if text)
            return
    if item.get("encrypted_content"):
        yield Reasoning(text=_ENCRYPTED)


def output_parts(build: ConversationBuilder, output: Any) -> Iterator[Part]:
    """The parts of an output: content parts, the streams of a shell, or any JSON."""
    for block in listed(output):
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, dict) and ("stdout" in block or "stderr" in block):
            yield from (Text(text=text) for key in ("stdout", "stderr") if (text := as_text(block.get(key))))
            outcome = block.get("outcome")
            if isinstance(outcome, dict) and (outcome.get("exit_code") or outcome.get("type") != "exit"):
                code = outcome.get("exit_code")
                yield Unknown(label=as_text(outcome.get("type")) or "outcome", text=as_text(code) or None)
        elif isinstance(block, str | None) or as_text(kind) in _PART_TYPES:
            yield from _part(build, block)
        else:
            yield Text(text=as_text(block))


_PART_TYPES: Final = frozenset(
    {*_TEXTS, "refusal", "input_image", "computer_screenshot", "image_url", "input_file", "input_audio"}
)


def exited_badly(output: Any) -> bool:
    outcomes = [block.get("outcome") for block in listed(output) if isinstance(block, dict)]
    return any(isinstance(o, dict) and (o.get("exit_code") or o.get("type") == "timeout") for o in outcomes)


def _sources(build: ConversationBuilder, item: dict[str, Any]) -> Iterator[Part]:
    action = item.get("action")
    for source in listed(action.get("sources")) if isinstance(action, dict) else ():
        yield Text(text=as_text(source.get("url", source) if isinstance(source, dict) else source))


def _found(build: ConversationBuilder, item: dict[str, Any]) -> Iterator[Part]:
    for result in listed(item.get("results")):
        if isinstance(result, dict):
            named = as_text(result.get("filename") or result.get("file_id"))
            yield Text(text="\n".join(text for text in (named, as_text(result.get("text"))) if text))
        else:
            yield Text(text=as_text(result))


def _logs(build: ConversationBuilder, item: dict[str, Any]) -> Iterator[Part]:
    for output in listed(item.get("outputs")):
        kind = output.get("type") if isinstance(output, dict) else None
        if kind == "logs":
            yield Text(text=as_text(output.get("logs")))
        elif kind == "image":
            yield media("image", url=output.get("url"))
        else:
            yield build.unknown(kind, output)


def _image(build: ConversationBuilder, item: dict[str, Any]) -> Iterator[Part]:
    if item.get("result") is not None:
        form = item.get("output_format")
        mime = f"image/{form}" if isinstance(form, str) else None
        yield media("image", mime=mime, base64=item["result"])


def _answered(build: ConversationBuilder, item: dict[str, Any]) -> Iterator[Part]:
    if item.get("output") is not None:
        yield Text(text=as_text(item["output"]))


SERVED_RESULTS: Final[Mapping[str, Callable[[ConversationBuilder, dict[str, Any]], Iterator[Part]]]] = {
    "web_search_call": _sources,
    "file_search_call": _found,
    "code_interpreter_call": _logs,
    "image_generation_call": _image,
    "mcp_call": _answered,
}

"""OpenAI's Responses items, as requests, responses and stored conversations hold them. Pure.

Shapes: platform.openai.com/docs/api-reference/responses, `conversations/items`; their built-in tools (web and
file search, code interpreter, computer, shell, patches, images, MCP) are calls of the name they have there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.model import Part, Reasoning, Refusal, Text, Unknown
from sandbox_judge.conversation.parts import as_text, media

# The calls whose results are items of their own: the name where the item has none, and what they ask for.
_CALLS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "function_call": ("", ("arguments",)),
    "custom_tool_call": ("", ("input",)),
    "computer_call": ("computer", ("action", "actions")),
    "local_shell_call": ("local_shell", ("action",)),
    "shell_call": ("shell", ("action",)),
    "apply_patch_call": ("apply_patch", ("operation",)),
    "tool_search_call": ("tool_search", ("arguments",)),
}
# The calls that a server runs, which carry their results.
_SERVED: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "web_search_call": ("web_search", ("action",)),
    "file_search_call": ("file_search", ("queries",)),
    "code_interpreter_call": ("code_interpreter", ("code",)),
    "image_generation_call": ("image_generation", ("revised_prompt",)),
    "mcp_call": ("", ("arguments",)),
}
_TOLD: Final = ("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "compaction")
ITEM_TYPES: Final = frozenset(
    {*_CALLS, *_SERVED, *_TOLD, "reasoning", "item_reference", "compaction_summary"}
    | {f"{kind}_output" for kind in _CALLS}
    | {"tool_search_output"}
)
_TEXTS: Final = ("input_text", "output_text", "text", "summary_text")
_FAILED: Final = ("failed", "error", "incomplete")
_ENCRYPTED: Final = "(encrypted by the provider)"
NOT_RECORDED: Final = Unknown(label="not_recorded", text="the provider ran this and did not give its result")


class ItemReader:
    """Adds items to a conversation, one list after another; remembers which it has seen."""

    def __init__(self, build: ConversationBuilder) -> None:
        self.build = build
        self._seen: set[str] = set()
        # Reasoning that waits for the assistant's message that it led to.
        self._thoughts: list[Part] = []

    def add(self, items: Iterable[Any], *, mark: str | None = None, repeats: bool = False) -> None:
        """Every item of `items`. `mark` says what happened to the last turn (`truncated`). With `repeats`,
        items whose ids were seen in earlier lists are the same ones sent again, and are left out."""
        listed = list(items)
        last = max((n for n, item in enumerate(listed) if _is_speech(item)), default=None)
        before = frozenset(self._seen) if repeats else frozenset()
        for n, item in enumerate(listed):
            key = item.get("id") if isinstance(item, dict) else None
            if isinstance(key, str) and item.get("type") != "item_reference":
                if key in before:
                    continue
                self._seen.add(key)
            self._item(item, mark if n == last else None)
        self._flush()
        if mark is not None and last is None:
            self.build.message("assistant", [self.build.mark(mark)])

    def _item(self, item: Any, mark: str | None) -> None:
        if isinstance(item, str):
            self._flush()
            self.build.message("user", item)
            return
        if not isinstance(item, dict):
            if item is not None:
                self._flush()
                self.build.message("user", [self.build.unknown("item", item)])
            return
        kind = item.get("type")
        if kind == "reasoning":
            self._thoughts.extend(_thoughts(item))
            return
        if kind == "message" or (kind is None and ("role" in item or "content" in item)):
            self._message(item, mark)
            return
        self._flush()
        if not isinstance(kind, str):
            self.build.message("user", [self.build.unknown("item", item)])
        elif kind in _CALLS:
            self._call(item, *_CALLS[kind])
        elif kind in _SERVED:
            self._served(item, kind)
        elif kind == "tool_search_output" or kind.endswith("_call_output"):
            self._output(item)
        else:
            self._told(item, kind)

    def _flush(self) -> None:
        if self._thoughts:
            thoughts, self._thoughts = self._thoughts, []
            self.build.message("assistant", thoughts)

    def _message(self, item: dict[str, Any], mark: str | None) -> None:
        role = item.get("role", "user")
        if role != "assistant":
            self._flush()
        parts, self._thoughts = self._thoughts, []
        parts.extend(content_parts(self.build, item.get("content")))
        if mark is None and item.get("status") == "incomplete":
            mark = "truncated"
        if mark is not None:
            parts.append(self.build.mark(mark))
        self.build.message(role, parts, name=item.get("name"), time=item.get("created_at"))

    def _call(self, item: dict[str, Any], name: str, keys: tuple[str, ...]) -> int:
        return self.build.tool_call(item.get("name") or name, _asked(item, keys), id=call_id(item))

    def _served(self, item: dict[str, Any], kind: str) -> None:
        call = self._call(item, *_SERVED[kind])
        error, status = item.get("error"), item.get("status")
        parts = [*_SERVED_RESULTS[kind](self.build, item)]
        if error is not None:
            parts.append(
                Text(text=as_text(error.get("message", error) if isinstance(error, dict) else error))
            )
        failed = error is not None or status in _FAILED
        if not parts and status in (None, "completed"):
            parts.append(NOT_RECORDED)
        if parts or failed:
            self.build.tool_result(parts, id=call_id(item), call=call, error=failed)

    def _output(self, item: dict[str, Any]) -> None:
        output = item.get("output", item.get("tools"))
        self.build.tool_result(
            output if isinstance(output, str) else list(_outputs(self.build, output)),
            id=call_id(item),
            error=item.get("status") in _FAILED or _exited_badly(output),
        )

    def _told(self, item: dict[str, Any], kind: str) -> None:
        build = self.build
        if kind == "item_reference":
            if as_text(item.get("id")) not in self._seen:
                build.missing(f"the item {as_text(item.get('id'))[:100]!r} is only referred to")
        elif kind in ("compaction", "compaction_summary"):
            if build.next_number == 1:
                build.missing("what came before the compaction is only given encrypted")
            build.message("system", [Unknown(label="compacted", text=as_text(item.get("summary")) or None)])
        elif kind == "mcp_list_tools":
            build.message("system", [Unknown(label=kind, text=_tools_listed(item))])
        elif kind == "mcp_approval_request":
            asked = f"{as_text(item.get('name'))} {as_text(item.get('arguments'))}"
            build.message("assistant", [Unknown(label=kind, text=asked)])
        elif kind == "mcp_approval_response":
            word = "approved" if item.get("approve") is True else "denied"
            build.message("user", [Unknown(label=kind, text=f"{word} {as_text(item.get('reason'))}".strip())])
        else:
            build.message(item.get("role", "assistant"), [build.unknown(kind, item)])


def call_id(item: dict[str, Any]) -> Any:
    """What joins a call and its output: `call_id`, or the item's own id where there is none."""
    return item.get("call_id") or item.get("id")


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
    if isinstance(block, str):
        return (Text(text=block),)
    if not isinstance(block, dict):
        return () if block is None else (build.unknown("part", block),)
    kind = block.get("type")
    if kind in _TEXTS or (kind is None and isinstance(block.get("text"), str)):
        return (Text(text=as_text(block["text"])),) if block.get("text") is not None else ()
    if kind == "refusal":
        return (Refusal(text=as_text(block.get("refusal"))),)
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


def _thoughts(item: dict[str, Any]) -> Iterator[Part]:
    """What a reasoning item tells: its content, else the summary of it, else that it is encrypted."""
    for key in ("content", "summary"):
        texts = [b.get("text") if isinstance(b, dict) else b for b in _listed(item.get(key))]
        if any(texts):
            yield from (Reasoning(text=as_text(text)) for text in texts if text)
            return
    if item.get("encrypted_content"):
        yield Reasoning(text=_ENCRYPTED)


def _asked(item: dict[str, Any], keys: tuple[str, ...]) -> Any:
    held = next((key for key in keys if item.get(key) is not None), None)
    if held in ("arguments", "action", "operation"):
        return item[held]
    # Free text and lists are no arguments by themselves: they stand under their name.
    return None if held is None else {held: item[held]}


def _outputs(build: ConversationBuilder, output: Any) -> Iterator[Part]:
    """The parts of an output: content parts, the streams of a shell, or any JSON."""
    for block in _listed(output):
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


def _exited_badly(output: Any) -> bool:
    outcomes = [block.get("outcome") for block in _listed(output) if isinstance(block, dict)]
    return any(isinstance(o, dict) and (o.get("exit_code") or o.get("type") == "timeout") for o in outcomes)


def _sources(build: ConversationBuilder, item: dict[str, Any]) -> Iterator[Part]:
    action = item.get("action")
    for source in _listed(action.get("sources")) if isinstance(action, dict) else ():
        yield Text(text=as_text(source.get("url", source) if isinstance(source, dict) else source))


def _found(build: ConversationBuilder, item: dict[str, Any]) -> Iterator[Part]:
    for result in _listed(item.get("results")):
        if isinstance(result, dict):
            named = as_text(result.get("filename") or result.get("file_id"))
            yield Text(text="\n".join(text for text in (named, as_text(result.get("text"))) if text))
        else:
            yield Text(text=as_text(result))


def _logs(build: ConversationBuilder, item: dict[str, Any]) -> Iterator[Part]:
    for output in _listed(item.get("outputs")):
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


_SERVED_RESULTS: Final[Mapping[str, Callable[[ConversationBuilder, dict[str, Any]], Iterator[Part]]]] = {
    "web_search_call": _sources,
    "file_search_call": _found,
    "code_interpreter_call": _logs,
    "image_generation_call": _image,
    "mcp_call": _answered,
}


def _tools_listed(item: dict[str, Any]) -> str:
    names = [
        as_text(t.get("name")) if isinstance(t, dict) else as_text(t) for t in _listed(item.get("tools"))
    ]
    told = f": {as_text(item['error'])}" if item.get("error") is not None else ""
    return f"{as_text(item.get('server_label'))}: {', '.join(names)}{told}"


def _is_speech(item: Any) -> bool:
    return (
        isinstance(item, dict) and item.get("type") in ("message", None) and item.get("role") == "assistant"
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]

"""OpenAI's Responses items, as requests, responses and stored conversations hold them. Pure.

Shapes: platform.openai.com/docs/api-reference/responses, `conversations/items`; their built-in tools (web and
file search, code interpreter, computer, shell, patches, images, MCP) are calls of the name they have there.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.model import Part, Text, Unknown
from sandbox_judge.conversation.parts import as_text, error_told, listed
from sandbox_judge.conversation.responses_parts import (
    SERVED_RESULTS,
    content_parts,
    exited_badly,
    output_parts,
    thoughts_of,
)

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
_FAILED: Final = ("failed", "error", "incomplete")
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
        given = list(items)
        last = max((n for n, item in enumerate(given) if _is_speech(item)), default=None)
        before = frozenset(self._seen) if repeats else frozenset()
        for n, item in enumerate(given):
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
            self._thoughts.extend(thoughts_of(item))
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
        parts = [*SERVED_RESULTS[kind](self.build, item)]
        if error is not None:
            parts.append(Text(text=as_text(error_told(error))))
        failed = error is not None or status in _FAILED
        if not parts and status in (None, "completed"):
            parts.append(NOT_RECORDED)
        if parts or failed:
            self.build.tool_result(parts, id=call_id(item), call=call, error=failed)

    def _output(self, item: dict[str, Any]) -> None:
        output = item.get("output", item.get("tools"))
        self.build.tool_result(
            output if isinstance(output, str) else list(output_parts(self.build, output)),
            id=call_id(item),
            error=item.get("status") in _FAILED or exited_badly(output),
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


def _asked(item: dict[str, Any], keys: tuple[str, ...]) -> Any:
    held = next((key for key in keys if item.get(key) is not None), None)
    if held in ("arguments", "action", "operation"):
        return item[held]
    # Free text and lists are no arguments by themselves: they stand under their name.
    return None if held is None else {held: item[held]}


def _tools_listed(item: dict[str, Any]) -> str:
    names = [as_text(t.get("name")) if isinstance(t, dict) else as_text(t) for t in listed(item.get("tools"))]
    told = f": {as_text(item['error'])}" if item.get("error") is not None else ""
    return f"{as_text(item.get('server_label'))}: {', '.join(names)}{told}"


def _is_speech(item: Any) -> bool:
    return (
        isinstance(item, dict) and item.get("type") in ("message", None) and item.get("role") == "assistant"
    )

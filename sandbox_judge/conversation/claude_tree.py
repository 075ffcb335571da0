"""Which rows of a Claude Code session are the conversation: the path through its tree to the latest leaf.

Rows name their parent by `parentUuid`. A prompt that was edited or rewound leaves a branch behind, which is
not the conversation. Two kinds of forks are no such branches: the rows of one API message (one `message.id`),
and the results of tool calls made side by side, each of which hangs on the row of its call. A compaction
starts a new root whose `logicalParentUuid` names what it followed. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

Row = dict[str, Any]

_LEAVES: Final = ("user", "assistant", "system", "attachment", "tool_use", "tool_result")


def on_path(rows: Sequence[Row]) -> set[int]:
    """The indexes of the rows (none of them of a sidechain) that belong to the conversation."""
    leaf = next((i for i in range(len(rows) - 1, -1, -1) if rows[i].get("type") in _LEAVES), None)
    if leaf is None:
        return set()
    parents = _parents(rows)
    path: set[int] = set()
    at: int | None = leaf
    while at is not None and at not in path:
        path.add(at)
        at = parents[at]
    return path | _beside(rows, path)


def _parents(rows: Sequence[Row]) -> list[int | None]:
    """The index of each row's parent. A row that names none (older and trimmed files), or one that is not in
    the file, follows the row before it; an explicit null is a root, if anything is linked at all."""
    index: dict[str, int] = {}
    for i, row in enumerate(rows):
        if isinstance(uuid := row.get("uuid"), str):
            index.setdefault(uuid, i)
    linked = any(isinstance(row.get("parentUuid"), str) and row["parentUuid"] in index for row in rows)
    out: list[int | None] = []
    for i, row in enumerate(rows):
        before = i - 1 if i else None
        named = row.get("parentUuid")
        if named is None:
            named = row.get("logicalParentUuid")
        if isinstance(named, str):
            found = index.get(named)
            out.append(before if found is None or found == i else found)
        elif linked and "parentUuid" in row and row.get("subtype") != "compact_boundary":
            out.append(None)
        else:
            out.append(before)
    return out


def _beside(rows: Sequence[Row], path: set[int]) -> set[int]:
    """The rows beside the path that are no branch: of the same API messages, and results of their calls."""
    messages = {id for i in path if (id := message_id(rows[i])) is not None}
    beside = (
        {i for i, row in enumerate(rows) if message_id(row) in messages and i not in path}
        if messages
        else set()
    )
    calls = {call for i in path | beside for call in _block_ids(rows[i], "tool_use", "id")}
    answered = {call for i in path for call in _block_ids(rows[i], "tool_result", "tool_use_id")}
    for i, row in enumerate(rows):
        if i not in path and row.get("type") == "user":
            results = set(_block_ids(row, "tool_result", "tool_use_id"))
            if results and results <= calls - answered:
                beside.add(i)
    return beside


def message_id(row: Row) -> str | None:
    """The id of the API message that an assistant's row is a piece of."""
    message = row.get("message")
    found = message.get("id") if isinstance(message, dict) and row.get("type") == "assistant" else None
    return found if isinstance(found, str) and found else None


def _block_ids(row: Row, kind: str, key: str) -> Iterator[str]:
    message = row.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == kind and isinstance(block.get(key), str):
            yield block[key]

"""How each kind of host wants to be told of a hook: text in, text out. Pure.

An entry is ours when its command is our shim: every shape finds its own entries by that, takes them out, and
puts them in where they belong.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from sandbox_judge.hosts.host import Host
from sandbox_judge.hosts.jsonc import JsoncError, Node, Refused, parse, with_item, without_item
from sandbox_judge.hosts.notify import with_notify, without_notify

NAME: Final = "sandbox-judge"


def edited(text: str | None, host: Host, command: str, when: str) -> str:
    """The configuration with our entries for `when`, and no others of ours. Raises Refused."""
    return _EDITS[_kind(host)](text, host, command, when)


def cleared(text: str, host: Host, command: str) -> str:
    """The configuration without our entries. Raises Refused."""
    return without_notify(text, command) if _kind(host) == "notify" else _without_entries(text, host, command)


def _kind(host: Host) -> str:
    assert host.wiring is not None, host.name
    return host.wiring.kind


def _json_edit(text: str | None, host: Host, command: str, when: str) -> str:
    assert host.wiring is not None, host.name
    kind = host.wiring.kind
    start = '{\n  "version": 1\n}\n' if kind == "flat" else "{}\n"
    text = start if text is None or not text.strip("\ufeff \t\r\n") else text
    text = _without_entries(text, host, command)
    if kind == "flat" and (root := _root(text)).get("version") is None:
        text = with_item(text, root, 1, name="version")
    for event in host.wiring.events[when]:
        entry, path = _entry(text, kind, host, event, command)
        text = _added(text, path, entry)
    return text


def _entry(text: str, kind: str, host: Host, event: str, command: str) -> tuple[Any, list[str]]:
    """Our entry for one event, and where the list stands that it goes into."""
    assert host.wiring is not None, host.name
    timeout = int(host.limit_s(event) * host.wiring.a_second)
    if kind == "flat":
        return {"command": command, "timeout": timeout}, ["hooks", event]
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": timeout}
    if kind == "named-groups":
        return {"matcher": "*", "hooks": [{"name": NAME, **hook}]}, ["hooks", event]
    if kind == "openhands":
        root = _root(text)
        # Both layouts are read, but not mixed: events in snake case at the top, or Claude Code's.
        if root.get("hooks") is None and root.names:
            return {"matcher": "*", "hooks": [hook]}, [event.lower()]
        return {"matcher": "*", "hooks": [hook]}, ["hooks", event]
    return {"hooks": [hook]}, ["hooks", event]


def _added(text: str, path: list[str], entry: Any) -> str:
    """The text with `entry` at the end of the list at `path`, which is made where it is missing."""
    node = _root(text)
    for depth, name in enumerate(path):
        found = node.get(name)
        last = depth == len(path) - 1
        if found is None:
            value: Any = [entry]
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return with_item(text, node, value, name=name)
        if found.kind != ("array" if last else "object"):
            where = ".".join(path[: depth + 1])
            raise Refused(f"{where} is not {'a list' if last else 'an object'}")
        node = found
    return with_item(text, node, entry)


def _without_entries(text: str, host: Host, command: str) -> str:
    """The text without every entry whose command is ours, and without the lists that this leaves empty."""
    before = text
    while (found := _find(_root(text), command)) is not None:
        parent, index = found
        text = without_item(text, parent, index)
    assert host.wiring is not None, host.name
    events = {event for asked in host.wiring.events.values() for event in asked}
    while text != before and (emptied := _emptied(_root(text), events)) is not None:
        parent, index = emptied
        text = without_item(text, parent, index)
    return text


def _emptied(root: Node, events: set[str]) -> tuple[Node, int] | None:
    for parent in (root.get("hooks") or root, root):
        for index, (name, item) in enumerate(zip(parent.names, parent.items, strict=True)):
            if item.kind == "array" and not item.items and {name, name.title()} & events:
                return parent, index
    return None


def _find(node: Node, command: str) -> tuple[Node, int] | None:
    """The outermost item of a list that holds only our hook."""
    for index, item in enumerate(node.items):
        if node.kind == "array" and _is_ours(item, command):
            return node, index
        if (found := _find(item, command)) is not None:
            return found
    return None


def _is_ours(item: Node, command: str) -> bool:
    if item.kind != "object":
        return False
    for name in ("command", "bash"):
        said = item.get(name)
        if said is not None and said.value == command:
            return True
    inner = item.get("hooks")
    return (
        inner is not None
        and inner.kind == "array"
        and bool(inner.items)
        and all(_is_ours(hook, command) for hook in inner.items)
    )


def _root(text: str) -> Node:
    try:
        root = parse(text)
    except JsoncError as error:
        raise Refused(f"it does not parse ({error})") from error
    if root.kind != "object":
        raise Refused("it is not a JSON object")
    return root


def _copilot_file(_text: str | None, host: Host, command: str, when: str) -> str:
    assert host.wiring is not None, host.name
    hooks = {
        event: [{"type": "command", "bash": command, "timeoutSec": int(host.limit_s(event))}]
        for event in host.wiring.events[when]
    }
    return json.dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"


_EDITS: Final[Mapping[str, Callable[[str | None, Host, str, str], str]]] = {
    "groups": _json_edit,
    "named-groups": _json_edit,
    "flat": _json_edit,
    "openhands": _json_edit,
    "copilot-file": _copilot_file,
    "notify": with_notify,
}

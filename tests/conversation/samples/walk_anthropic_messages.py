"""Texts of Anthropic Messages: the system prompt, the messages, the answer."""

from leaves import leaves


def texts(raw):
    last = raw["interactions"][-1]
    request, answer = last["request"], last.get("response") or {}
    found = _blocks(request.get("system"))
    for message in request["messages"]:
        found += _blocks(message["content"])
    if answer.get("type") == "message":
        found += _blocks(answer["content"])
    return found


def _blocks(content):
    found = []
    for block in [content] if isinstance(content, str) else content or []:
        if isinstance(block, str):
            found.append(block)
        elif block["type"] == "text":
            found.append(block["text"])
        elif block["type"] in ("tool_use", "server_tool_use"):
            found += [block["name"], *leaves(block["input"])]
        elif block["type"] == "tool_result":
            found += _blocks(block.get("content"))
    return found

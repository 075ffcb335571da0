"""Texts of Anthropic Messages: the system prompt, the messages, the answer."""

from leaves import leaves


def texts(raw):
    last = raw["interactions"][-1]
    request, answer = last["request"], last.get("response") or {}
    found = blocks(request.get("system"))
    for message in request["messages"]:
        found += blocks(message["content"])
    if answer.get("type") == "message":
        found += blocks(answer["content"])
    return found


def blocks(content):
    found = []
    for block in [content] if isinstance(content, str) else content or []:
        if isinstance(block, str):
            found.append(block)
        elif block["type"] == "text":
            found.append(block["text"])
        elif block["type"] in ("tool_use", "server_tool_use"):
            found += [block["name"], *leaves(block["input"])]
        elif block["type"] == "tool_result":
            found += blocks(block.get("content"))
    return found

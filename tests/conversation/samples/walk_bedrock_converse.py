"""Texts of Bedrock Converse: the system blocks, the messages, the answer's message."""

from leaves import leaves


def texts(raw):
    last = raw["interactions"][-1]
    request, answer = last["request"], last["response"]
    found = _blocks(request.get("system", []))
    for message in request["messages"]:
        found += _blocks(message["content"])
    return found + _blocks(answer["output"]["message"]["content"])


def _blocks(blocks):
    found = []
    for block in blocks:
        if "text" in block:
            found.append(block["text"])
        elif "toolUse" in block:
            found += [block["toolUse"]["name"], *leaves(block["toolUse"]["input"])]
        elif "toolResult" in block:
            found += _blocks(block["toolResult"]["content"])
        elif "document" in block:
            found.append(block["document"]["name"])
    return found

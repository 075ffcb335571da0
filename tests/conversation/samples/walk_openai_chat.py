"""Texts of chat messages: `messages` of the request, then the choice or message of the answer."""

from leaves import argument_leaves


def texts(raw):
    if isinstance(raw, list) and raw and "traj" in raw[0]:
        return [text for row in raw for text in _messages(row["traj"])]
    last = raw["interactions"][-1] if "interactions" in raw else raw
    if "choices" in last:
        last = {"request": {"messages": []}, "response": last}
    request, answer = last["request"], last.get("response") or {}
    answers = [choice["message"] for choice in answer.get("choices", [])]
    if "message" in answer:
        answers.append(answer["message"])
    return _messages([*request["messages"], *answers])


def _messages(messages):
    found = []
    for message in messages:
        content = message.get("content")
        for block in [content] if isinstance(content, str) else content or []:
            if isinstance(block, str):
                found.append(block)
            elif block.get("type") == "text":
                found.append(block["text"])
        if message.get("refusal"):
            found.append(message["refusal"])
        for call in message.get("tool_calls") or []:
            found.append(call["function"]["name"])
            found += argument_leaves(call["function"]["arguments"])
    return found

"""Texts of Codex rollouts: the base instructions and the response items, which the events only repeat, but
for how a turn ended and what a web search found."""

from leaves import argument_leaves


def texts(raw):
    found = []
    for row in raw:
        payload = row.get("payload")
        if row.get("type") == "session_meta":
            told = payload.get("base_instructions")
            found += [told["text"]] if told else []
        elif row.get("type") == "event_msg":
            found += of_event(payload)
        elif row.get("type") == "response_item" or payload is None:
            found += of_item(payload or row)
    return found


def of_event(event):
    if event["type"] == "turn_aborted":
        return [event["reason"]]
    if event["type"] == "error":
        return [event["message"]]
    # A result's keys stand as they were written.
    found = event["results"] if event["type"] == "web_search_end" else []
    return [text for result in found for text in result.values() if text is not None]


def of_item(item):
    kind = item.get("type", "message")
    if kind in ("message", "agent_message"):
        said = item.get("content", item.get("message"))
        return [said] if isinstance(said, str) else blocks(said)
    if kind == "image_generation_call":
        return ["image_generation", item["revised_prompt"]]
    if kind.endswith("_call"):
        given = next(item[key] for key in ("arguments", "input", "action") if key in item)
        name = item.get("name") or item.get("function", {}).get("name") or kind.removesuffix("_call")
        return [name, *argument_leaves(given)]
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = item["output"]
        return (
            [output] if isinstance(output, str) else blocks(output if isinstance(output, list) else [output])
        )
    if kind == "function_result":
        return [item["result"]]
    if kind == "tool_search_output":
        return [tool["name"] for tool in item["tools"]]
    return []


def blocks(content):
    return [block["text"] for block in content if "text" in block]

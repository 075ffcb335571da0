"""Texts of ADK's sessions (events, with the older ones' system instructions first), eval sets and lists."""

from leaves import leaves


def texts(raw):
    if isinstance(raw, list):
        return [text for row in raw for turn in row.get("data", [row]) for text in asked(turn)]
    if "eval_cases" in raw:
        turns = [turn for case in raw["eval_cases"] for turn in case["conversation"]]
        return [text for turn in turns for text in invocation(turn)]
    logs = raw.get("event_logs", [])
    told = dict.fromkeys(log["model_request"]["config"]["system_instruction"] for log in logs)
    events = (event.get("content") or {} for event in raw["events"])
    return [*told, *(text for content in events for text in parts(content.get("parts")))]


def asked(turn):
    found = [turn["query"]]
    for call in turn["expected_tool_use"]:
        found += [call["tool_name"], *leaves(call["tool_input"])]
    found += [said["text"] for said in turn.get("expected_intermediate_agent_responses", [])]
    return [*found, turn["reference"]]


def invocation(turn):
    found = parts(turn["user_content"]["parts"])
    for call in turn["intermediate_data"]["tool_uses"]:
        found += [call["name"], *leaves(call["args"])]
    for _, said in turn["intermediate_data"]["intermediate_responses"]:
        found += parts(said)
    return found + parts(turn["final_response"]["parts"])


def parts(given):
    found = []
    for part in given or []:
        if part.get("function_call"):
            found += [part["function_call"]["name"], *leaves(part["function_call"]["args"])]
        elif part.get("function_response"):
            found += values(part["function_response"]["response"])
        else:
            found.append(part["text"])
    return found


def values(result):
    """The leaves of a result, which stands in the view with its keys as they were."""
    if isinstance(result, dict | list):
        inner = result.values() if isinstance(result, dict) else result
        return [leaf for value in inner for leaf in values(value)]
    return leaves(result)

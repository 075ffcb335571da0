"""Texts of Copilot's events: a call stands where it is asked for, else where it starts."""

from leaves import argument_leaves


def texts(raw):
    asked = {request["toolCallId"] for row in raw for request in row["data"].get("toolRequests", [])}
    return [text for row in raw for text in of_event(row["type"], row["data"], asked)]


def of_event(kind, data, asked):
    if kind in ("user.message", "system.message", "system.notification"):
        return [data["content"], *(a["displayName"] for a in data.get("attachments", []))]
    if kind == "assistant.message":
        found = [data["content"]]
        for request in data["toolRequests"]:
            found += [request["name"], *argument_leaves(request["arguments"])]
        return found
    if kind == "tool.execution_start" and data["toolCallId"] not in asked:
        return [data["toolName"], *argument_leaves(data["arguments"])]
    if kind == "tool.execution_complete":
        return [data["result"]["content"]]
    if kind == "session.error":
        return [data["message"]]
    return [data["reason"]] if kind == "abort" else []

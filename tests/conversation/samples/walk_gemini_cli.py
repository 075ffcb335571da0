"""Texts of a Gemini CLI session: each record's content, then its calls, each with its result."""

from leaves import leaves
from walk_gemini import parts


def texts(raw):
    if isinstance(raw, list):
        raw = {"messages": [row for row in raw if "type" in row]}
    if "history" in raw:
        return [text for turn in raw["history"] for text in parts(turn["parts"])]
    found = []
    for record in raw.get("messages", [raw]):
        content = record.get("content")
        found += [content] if isinstance(content, str) else parts(content or [])
        for call in record.get("toolCalls", []):
            found += [call["name"], *leaves(call["args"]), *parts(call.get("result") or [])]
    return found

"""Texts of pi's sessions: the messages and the summaries of compactions."""

from leaves import leaves


def texts(raw):
    found = []
    for entry in raw:
        if entry["type"] == "compaction":
            found.append(entry["summary"])
        for block in entry.get("message", {}).get("content", []):
            if block["type"] == "toolCall":
                found += [block["name"], *leaves(block["arguments"])]
            elif block["type"] == "text":
                found.append(block["text"])
    return found

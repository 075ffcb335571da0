"""Texts of a Claude Code session: its user, assistant and system rows, in the order of the file."""

from walk_anthropic_messages import blocks


def texts(raw):
    found = []
    for row in raw:
        kind = row.get("type") if isinstance(row, dict) else None
        if kind in ("user", "assistant") and isinstance(row.get("message"), dict):
            found += blocks(row["message"].get("content"))
        elif kind == "system" and isinstance(row.get("content"), str):
            found.append(row["content"])
    return found

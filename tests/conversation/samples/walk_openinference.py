"""Texts of one OpenInference span: the numbered attributes of its messages, in their order."""

import re

from leaves import argument_leaves

FIELD = re.compile(r"llm\.(input|output)_messages\.(\d+)\.message\.(.+)")


def texts(raw):
    found = []
    for key, value in raw.items():
        field = FIELD.fullmatch(key)
        if field is None:
            continue
        if field[3].endswith(("message_content.text", "function.name")) or field[3] == "content":
            found.append(value)
        elif field[3].endswith("function.arguments"):
            found += argument_leaves(value)
    return found

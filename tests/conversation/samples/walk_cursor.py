"""Texts of Cursor's transcripts, without the tags around what the user typed."""

from leaves import leaves


def texts(raw):
    return [text for row in raw for block in row["message"]["content"] for text in of_block(block)]


def of_block(block):
    kind = block["type"]
    if kind == "thinking":
        return []
    if kind in ("tool_use", "tool_call"):
        return [block["name"], *leaves(block["input"])]
    if kind == "tool-result":
        return [text for inner in block["content"] for text in of_block(inner)]
    return [block["text"].removeprefix("<user_query>\n").removesuffix("\n</user_query>")]

"""Texts of one GenAI span's attributes: the current messages, or the older prompt and completion."""

import json

from leaves import argument_leaves


def texts(raw):
    given = raw.get("gen_ai.input.messages") or raw["gen_ai.prompt"]
    answer = json.loads(raw.get("gen_ai.output.messages") or raw["gen_ai.completion"])
    answers = (
        answer if isinstance(answer, list) else [{"parts": [{"type": "text", "content": answer["text"]}]}]
    )
    return [text for message in [*json.loads(given), *answers] for text in parts(message["parts"])]


def parts(given):
    found = []
    for part in given:
        if part["type"] == "tool_call":
            found += [part["name"], *argument_leaves(part["arguments"])]
        else:
            found.append(part.get("response", part.get("content")))
    return found

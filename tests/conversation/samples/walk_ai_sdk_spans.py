"""Texts of AI SDK spans of one call each: what was asked, then what was answered."""

import json


def texts(raw):
    found = []
    for span in raw:
        held = span["attributes"]
        asked = json.loads(held.get("ai.prompt.messages") or held["ai.prompt"])
        for message in [{"content": asked["prompt"]}] if "prompt" in asked else messages(asked):
            content = message["content"]
            found += [content] if isinstance(content, str) else [part["text"] for part in content]
        found.append(held.get("ai.response.text") or held["ai.response.object"])
    return found


def messages(asked):
    return asked["messages"] if isinstance(asked, dict) else asked

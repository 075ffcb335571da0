"""The leaves of JSON as a view shows them: objects' keys are sorted there."""

import json


def leaves(value):
    """Every text, number and boolean in `value`, in order."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    if value is None:
        return []
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]


def argument_leaves(arguments):
    """The leaves of a call's arguments, which may be JSON text; what is no JSON is one text."""
    if not isinstance(arguments, str):
        return leaves(arguments)
    try:
        return leaves(json.loads(arguments))
    except ValueError:
        return [arguments] if arguments else []


def streamed(text):
    """The JSON payloads of server-sent events."""
    found = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.startswith("data:") and line[5:].strip() not in ("", "[DONE]"):
            found.append(json.loads(line[5:]))
    return found

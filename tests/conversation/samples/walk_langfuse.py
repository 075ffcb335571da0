"""Texts of a Langfuse trace: what each generation was given and answered, by its own messages or by those of
its attributes, in time order; what was said before is not said again. Tools' results come from messages."""

import json
import re

from leaves import argument_leaves

NUMBERED = re.compile(r"llm\.input_messages\.(\d+)\.message\.(role|content)")

PROMPT = re.compile(r"system: (.*)\nuser: (.*)", re.DOTALL)


def texts(raw):
    generations = {o["id"] for o in raw["observations"] if o["type"] == "GENERATION"}
    talking = [
        o
        for o in raw["observations"]
        if o["type"] in ("GENERATION", "AGENT") and o["parentObservationId"] not in generations
    ]
    moments = [(o["startTime"], asked, o) for o in talking]
    moments += [(o["endTime"], answered, o) for o in talking]
    said, found = set(), []
    for _, read, observation in sorted(moments, key=lambda moment: moment[0]):
        for message in read(observation):
            key = re.sub(r"\s", "", json.dumps(message))
            if key not in said:
                said.add(key)
                found += message
    return found


def asked(observation):
    """The texts of each message of the input: names and arguments of calls among them."""
    given = parsed(observation["input"])
    if isinstance(given, dict) and "contents" in given:
        yield [given["config"]["system_instruction"]]
        yield from map(gemini, given["contents"])
    elif isinstance(given, list):
        yield from map(words, given)
    elif isinstance(given, dict) and "prompt" in given:
        yield [given["prompt"]]
    elif isinstance(given, str) and (prompt := PROMPT.fullmatch(given)):
        yield from ([text] for text in prompt.groups())
    else:
        held = (parsed(observation["metadata"]) or {}).get("attributes", {})
        yield from ([v] for k, v in held.items() if (n := NUMBERED.fullmatch(k)) and n[2] == "content")


def answered(observation):
    answer = parsed(observation["output"])
    if isinstance(answer, str) and observation["type"] == "GENERATION":
        yield [answer]
    if isinstance(answer, dict) and "choices" in answer:
        yield from (words(choice["message"]) for choice in answer["choices"])
    elif isinstance(answer, dict) and "content" in answer and "parts" in (answer["content"] or ()):
        yield gemini(answer["content"])
    elif isinstance(answer, dict) and "message" in answer:
        yield words(answer["message"])
    elif isinstance(answer, list):
        yield from map(words, answer)


def words(message):
    if "toolName" in message:
        return [message["toolName"], *argument_leaves(message["input"])]
    found = []
    content = message.get("content", message.get("parts"))
    for part in [content] if isinstance(content, str) else content or []:
        if isinstance(part, str):
            found.append(part)
        elif part["type"] == "tool_call":
            found += [part["name"], *argument_leaves(part["arguments"])]
        else:
            found.append(part.get("text", part.get("content", part.get("result", part.get("response")))))
    for call in message.get("tool_calls") or []:
        found += [call["function"]["name"], *argument_leaves(call["function"]["arguments"])]
    return found


def gemini(content):
    found = []
    for part in content["parts"]:
        if "function_call" in part:
            found.append(part["function_call"]["name"])
        elif "function_response" in part:
            found += part["function_response"]["response"].values()
        else:
            found.append(part["text"])
    return found


def parsed(value):
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value

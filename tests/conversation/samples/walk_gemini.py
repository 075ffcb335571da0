"""Texts of Gemini contents: the system instruction, the contents, the candidates."""

from leaves import leaves, streamed


def texts(raw):
    last = raw["interactions"][-1]
    request, answer = last["request"], last["response"]
    chunks = streamed(answer) if isinstance(answer, str) else [answer]
    found = parts(request.get("systemInstruction", {}).get("parts", []))
    for content in request["contents"]:
        found += parts(content["parts"])
    said = [
        part
        for chunk in chunks
        for candidate in chunk.get("candidates", [])
        for part in candidate.get("content", {}).get("parts", [])
    ]
    return found + parts(_joined(said))


def _joined(pieces):
    """The pieces of a streamed text are one text."""
    whole = []
    for part in pieces:
        if whole and set(part) == {"text"} and set(whole[-1]) == {"text"}:
            whole[-1] = {"text": whole[-1]["text"] + part["text"]}
        else:
            whole.append(part)
    return whole


def parts(listed):
    found = []
    for part in listed:
        if isinstance(part, str):
            found.append(part)
        elif part.get("thought"):
            continue
        elif "functionCall" in part:
            found += [part["functionCall"]["name"], *leaves(part["functionCall"].get("args"))]
        elif "functionResponse" in part:
            found += leaves(part["functionResponse"]["response"])
        elif "text" in part:
            found.append(part["text"])
    return found

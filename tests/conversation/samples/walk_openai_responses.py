"""Texts of Responses items: instructions, input, output; what a request goes on from stands before it."""

from leaves import argument_leaves, streamed


def texts(raw):
    if isinstance(raw, str):
        return _answer(raw)
    if "interactions" in raw:
        links = _chain(raw["interactions"])
    elif "request" in raw:
        links = [raw]
    else:
        links = [{"request": raw}]
    found = []
    for link in links:
        request, answer = link["request"], link.get("response")
        if request.get("instructions"):
            found.append(request["instructions"])
        given = request.get("input", request.get("items", request.get("data")))
        if given is None and "role" in request:
            given = [request]
        found += [given] if isinstance(given, str) else _items(given or [])
        found += _items(request.get("output") or [])
        # Items that come back from a stored conversation are those that were put there.
        found += _answer(answer)
    return found


def _chain(interactions):
    answered = [i for i in interactions if isinstance(i["response"], dict) and "id" in i["response"]]
    by_id = {i["response"]["id"]: i for i in answered}
    chain = [interactions[-1]]
    while (before := chain[0]["request"].get("previous_response_id")) in by_id:
        chain.insert(0, by_id[before])
    return chain


def _answer(answer):
    if isinstance(answer, str):
        ends = ("response.completed", "response.incomplete")
        answer = next(e["response"] for e in streamed(answer) if e["type"] in ends)
    return _items((answer or {}).get("output") or [])


def _items(items):
    found = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            content = item["content"]
            for block in [content] if isinstance(content, str) else content:
                found.append(block if isinstance(block, str) else block.get("text", block.get("refusal")))
        elif kind == "function_call":
            found += [item["name"], *argument_leaves(item["arguments"])]
        elif kind == "function_call_output":
            found.append(item["output"])
        else:
            assert kind == "reasoning", kind
    return found

"""Texts of ATIF trajectories: each step's message, its calls, its observations; a subagent's steps before the
observation that names it, without the context that it copied."""

from leaves import leaves


def texts(raw):
    if "steps" in raw:
        return steps(raw, {}, nested=False)
    known = {trajectory["session_id"]: trajectory for trajectory in raw.values()}
    return steps(raw["parent"], known, nested=False)


def content(value):
    if isinstance(value, str):
        return [value]
    return [block["text"] if block["type"] == "text" else block["source"]["path"] for block in value or []]


def steps(trajectory, known, nested):
    found = []
    for step in trajectory["steps"]:
        if nested and step.get("is_copied_context"):
            continue
        found += content(step.get("message"))
        for call in step.get("tool_calls") or []:
            found += [call["function_name"], *leaves(call["arguments"])]
        for result in (step.get("observation") or {}).get("results", []):
            for reference in result.get("subagent_trajectory_ref") or []:
                if reference["session_id"] in known:
                    found += steps(known[reference["session_id"]], known, nested=True)
                else:
                    found.append(reference["session_id"])
            found += content(result.get("content"))
    return found

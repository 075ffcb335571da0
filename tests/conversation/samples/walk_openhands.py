"""Texts of OpenHands' events: thoughts, calls with their arguments, observations."""

from leaves import argument_leaves


def texts(raw):
    found = []
    for event in raw:
        if event["kind"] == "ActionEvent":
            found += [block["text"] for block in event["thought"]]
            found += [event["tool_name"], *argument_leaves(event["tool_call"]["arguments"])]
        elif event["kind"] == "ObservationEvent":
            found += [block["text"] for block in event["observation"]["content"]]
    return found

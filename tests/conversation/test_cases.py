"""The rows of `cases/conversations.json`: what gates see, and what the view must and must not contain."""

import json
import re

import pytest

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.events import gate_events
from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.grading.view import build_view

IDS = re.findall("..", "0102030508101114161718192122252627293031323638")
# What the specification decides where the rows say "policy".
POLICIES = {"gate role=system text=/brief/": True, "gate role=user text=/refund/": True}
GATES = {
    "gate user text /refund|invoice/i": ("message", {"role": "^user$", "text": "(?i)refund|invoice"}),
    "gate role=user AND text=/refund/": ("message", {"role": "^user$", "text": "refund"}),
    "gate role=user text=/refund/": ("message", {"role": "^user$", "text": "refund"}),
    "gate role=system text=/brief/": ("message", {"role": "^system$", "text": "brief"}),
    "gate tool name f": ("tool", {"name": "^f$"}),
    "gate feedback": ("feedback", {}),
}


@pytest.fixture(scope="module")
def rows(shared):
    return {row["id"]: row for row in json.loads((shared / "cases/conversations.json").read_bytes())}


def test_every_row_is_tried(rows):
    assert sorted(rows) == [f"C{number}" for number in IDS]


@pytest.mark.parametrize("number", IDS)
def test_row(rows, number):
    row = rows[f"C{number}"]
    for message in row["messages"]:
        if isinstance(message.get("content"), str) and (
            found := re.fullmatch(r"@repeat:(.):(\d+)", message["content"])
        ):
            message["content"] = found[1] * int(found[2])
    conversation = read_conversation(json.dumps(row).encode())
    view = build_view(conversation)
    for key, expected in row["expected"].items():
        check(key, expected, conversation, view.text)
    again = read_conversation(canonical_json(conversation))
    assert canonical_json(again) == canonical_json(conversation)
    assert build_view(again).sequence_hash == view.sequence_hash


def check(key, expected, conversation, text):
    if key.startswith("gate "):
        kind, fields = GATES[key]
        matched = any(
            event.kind == kind
            and all(any(re.search(p, str(v)) for v in event.values(f)) for f, p in fields.items())
            for event in gate_events(conversation)
        )
        assert matched is (POLICIES[key] if expected == "policy" else expected == "match")
    elif key == "prompt_contains":
        assert all(part in text for part in expected)
    elif key == "prompt_lacks":
        assert not any(part in text for part in expected)
    elif key == "prompt_marks":
        assert expected in text
    elif key == "prompt_max_chars":
        assert len(text) <= expected
    elif key == "outcome":
        assert "status failed" in text and "401 from provider" in text
    elif key == "request_body":
        assert "\ufffd" in text and text.encode().decode() == text
    elif key == "prompt":
        assert sum(line.startswith("[") for line in text.split("\n")) == len(conversation.entries)
    else:
        assert key in ("no_crash", "note"), key

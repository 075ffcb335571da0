import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_gates import Plain, gate_of

from sandbox_judge.conversation.events import gate_events
from sandbox_judge.conversation.model import (
    SCHEMA,
    Conversation,
    Feedback,
    Message,
    Text,
    ToolCall,
    ToolResult,
)
from sandbox_judge.gate.language import GateSyntaxError
from sandbox_judge.gate.match import json_equal


@pytest.mark.parametrize(
    ("target", "value", "holds"),
    [
        ("late", "late", True),
        ("late", "so late", False),
        ("/late/", "so late", True),
        ("1", 1, False),
        (1, 1, True),
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        (True, 1, False),
        (0, False, False),
        (None, None, True),
        (None, "", False),
        (1, "1", False),
        ("/^1$/", 1, True),
        ("/^true$/", True, True),
        ("/^1\\.5$/", 1.5, True),
        ("/null/", None, False),
        ("/a/", {"a": "a"}, False),
        ({"a": [1, True]}, {"a": [1.0, True]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (["late", "/refund/i"], "a REFUND", True),
        (["late", "/refund/i"], "late", True),
        (["late", "/refund/i"], "later", False),
        ([], "late", False),
        (["x", 3], 3, True),
        ("b", ["a", "b"], True),
        ("/^b/", ["a", "bc"], True),
        ("/^b/", ["a", 1], False),
        (2, [1, 2], True),
        ([["a"]], [["a"]], True),
        ("\ufffd", "\ud800", True),
        ("/^.$/", "\ud800", True),
        ("", "", True),
        ("//", "", True),
    ],
)
def test_targets(target: Any, value: Any, holds: bool) -> None:
    gate = gate_of(("feedback", {"value": target}))
    assert gate.holds([Plain("feedback", 1, {"value": value})]) is holds


def test_all_fields_must_hold_on_one_event() -> None:
    gate = gate_of(("message", {"role": "user", "text": "/refund/"}))
    apart = [
        Plain("message", 1, {"role": "user", "text": "hello"}),
        Plain("message", 2, {"role": "assistant", "text": "a refund"}),
    ]
    assert not gate.holds(apart)
    assert gate.holds([*apart, Plain("message", 3, {"role": "user", "text": "refund"})])


def test_any_entry_suffices_and_kinds_are_kept_apart() -> None:
    gate = gate_of(("tool", {"name": "pay"}), ("feedback", None))
    assert not gate.holds([Plain("message", 1, {"name": "pay"})])
    assert gate.holds([Plain("feedback", 1, {})])
    assert gate.holds([Plain("tool", 1, {"name": "pay"})])


def test_a_missing_field_does_not_match_even_an_empty_pattern() -> None:
    assert not gate_of(("message", {"text": "//"})).holds([Plain("message", 1, {})])


def test_an_absent_gate_applies_to_nothing_at_all() -> None:
    assert gate_of().holds([])


def test_equal_gates_have_equal_keys() -> None:
    one = gate_of(("message", {"role": "user", "text": "/a/"}))
    other = gate_of(("message", {"text": "/a/", "role": "user"}))
    assert one.key == other.key
    assert one.key != gate_of(("message", {"text": "/a/", "role": 1})).key
    assert gate_of(("message", {"x": 1})).key != gate_of(("message", {"x": True})).key


def test_wrong_flags_are_refused_when_the_gate_is_compiled() -> None:
    with pytest.raises(GateSyntaxError):
        gate_of(("message", {"text": ["fine", "/usr/bin"]}))


def test_real_events_are_understood() -> None:
    conversation = Conversation(
        source_format="test",
        status="completed",
        warnings=(),
        schema=SCHEMA,
        entries=(
            Message(n=1, role="user", parts=(Text(text="where is"), Text(text="my order"))),
            ToolCall(n=2, name="lookup", args={"ids": ["A1", "B2"], "limit": 5}),
            ToolResult(n=3, call=2, status="error", parts=(Text(text="no such order"),)),
            Feedback(n=4, name="rating", value=2, properties={"where": {"page": "help"}}),
        ),
    )
    events = list(gate_events(conversation))
    assert gate_of(("message", {"text": "where is\nmy order"})).holds(events)
    assert gate_of(("tool", {"args.ids": "/^B/", "args.limit": 5, "status": "error"})).holds(events)
    assert gate_of(("tool", {"text": "/no such/"})).holds(events)
    assert gate_of(("feedback", {"value": [1, 2], "properties.where.page": "help"})).holds(events)
    assert not gate_of(("message", {"text": "/no such/"})).holds(events)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5]) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def plain_definition(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(plain_definition(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(plain_definition, left, right))
    return bool(left == right)


@given(JSON, JSON)
def test_json_equality(left: Any, right: Any) -> None:
    assert json_equal(left, left)
    assert json_equal(left, right) == json_equal(right, left) == plain_definition(left, right)


def test_numbers_beyond_what_the_interpreter_writes() -> None:
    event = Plain("feedback", 1, {"value": 10**5000})
    assert not gate_of(("feedback", {"value": "/^[0-9]+$/"})).holds([event])
    assert gate_of(("feedback", {"value": 10**5000})).holds([event])
    assert not gate_of(("feedback", {"value": 10**5000 + 1})).holds([event])


def test_json_equality_of_what_is_hostile() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert json_equal(deep, deep)
    assert not json_equal(math.nan, math.nan)
    assert not json_equal(10**400, 1e300)
    while isinstance(deep, list):  # taken apart, because freeing it would recurse
        deep = deep.pop()

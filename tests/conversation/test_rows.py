"""Rows that must be alike, and turns in which calls stand between what is said."""

import pytest

from sandbox_judge.conversation.builder import ConversationBuilder, Turn
from sandbox_judge.conversation.document import read_document
from sandbox_judge.conversation.model import Message, Text, ToolCall
from sandbox_judge.conversation.rows import alike, rows_of, unlike_others
from sandbox_judge.errors import InputError


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (b'{"a": 1}', [""]),
        (b'[{"a": 1}]', [""]),
        (b'[{"a": 1}, {"a": 2}]', ["element 1", "element 2"]),
        (b'{"a": 1}\n\n{"a": 2}', ["line 1", "line 3"]),
        (b"[]", []),
    ],
)
def test_rows_come_with_their_places(data, places):
    document = read_document(data)
    found = list(alike(document, rows_of(document), lambda row: "a" in row, "row"))
    assert [place for place, _ in found] == places
    assert [row for _, row in found] == list(rows_of(document))


@pytest.mark.parametrize(("data", "where"), [(b'[{"a": 1}, 5]', "element 2"), (b'{"a": 1}\n\n5', "line 3")])
def test_a_row_unlike_the_first_is_named_after_those_before_it(data, where):
    document = read_document(data)
    rows = alike(document, rows_of(document), lambda row: isinstance(row, dict), "object")
    assert next(rows)[1] == {"a": 1}
    with pytest.raises(InputError) as told:
        next(rows)
    assert told.value.where == where
    assert str(told.value).startswith(f"{where.capitalize()} is no object, as the first is.")


def test_an_element_stands_where_its_conversation_does():
    assert unlike_others(3, "messages is none").where == "element 3"
    assert unlike_others(3, "messages is none", "line 7").where == "line 7"


def test_a_turn_keeps_the_order_of_words_and_calls():
    build = ConversationBuilder("made")
    turn = Turn(build, "assistant", [Text(text="First.")], name="Ada")
    turn.say([Text(text="Second.")])
    for _ in range(2):
        turn.act()
        build.tool_call("look", {})
    turn.end("truncated")
    Turn(build, "user").end()
    first, _, _, last, empty = entries = build.build().entries
    assert [type(entry) for entry in entries] == [Message, ToolCall, ToolCall, Message, Message]
    assert [part.text for part in first.parts] == ["First.", "Second."] and first.name == last.name == "Ada"
    assert last.parts[0].label == "truncated" and empty.parts == ()

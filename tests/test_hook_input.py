"""The hook input: conversations, ids and where they came from, status, feedback."""

import json

import pytest

from sandbox_judge.canonical import sha256
from sandbox_judge.envelope import Envelope, RecipeRef
from sandbox_judge.errors import InputError
from sandbox_judge.hook_input import read_input

TALK = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


def only(data, **options):
    (subject,) = read_input(data, **options).subjects()
    return subject


def test_a_bare_conversation_is_known_by_the_hash_of_its_bytes():
    data = json.dumps(TALK).encode()
    subject = only(data)
    assert subject.conversation_id == sha256(data)
    assert subject.id_source == "input_hash"
    assert [entry.parts[0].text for entry in subject.conversation.entries] == ["hello", "hi"]


def test_the_formats_own_id_is_second_to_the_given_one():
    assert only({"id": "own", "messages": TALK}).id_source == "format"
    given = only({"conversation": {"id": "own", "messages": TALK}, "conversation_id": "given"})
    assert (given.conversation_id, given.id_source) == ("given", "given")


def test_a_conversation_may_stand_in_the_envelope_as_text():
    subject = only(json.dumps({"conversation": json.dumps(TALK), "status": "aborted"}).encode())
    assert subject.conversation.status == "cancelled"
    assert len(subject.conversation.entries) == 2


def test_a_status_that_is_no_status_is_kept_read_as_failed_and_warned_of():
    conversation = only({"conversation": TALK, "status": "exploded"}).conversation
    assert (conversation.status, conversation.status_detail) == ("failed", "exploded")
    assert any("exploded" in warning.message for warning in conversation.warnings)


def test_feedback_of_the_envelope_is_an_entry():
    conversation = only(
        {"conversation": TALK, "feedback": [{"value": 1, "sentiment": "negative"}]}
    ).conversation
    assert conversation.entries[-1].sentiment == "negative"
    assert conversation.entries[-1].n == 3


def test_flags_supply_what_the_envelope_lacks_and_a_disagreement_is_told():
    taken = read_input(
        {"conversation": TALK, "recipe": {"commit": "abc"}},
        otherwise=[Envelope(recipe=RecipeRef(path="/r", commit="def"))],
    )
    assert taken.envelope.recipe == RecipeRef(path="/r", commit="abc")
    assert any("recipe.commit" in warning for warning in taken.warnings)


def test_several_conversations_want_a_choice_and_have_ids_of_their_own():
    many = [{"traj": TALK, "task_id": 1}, {"traj": TALK[:1], "task_id": 2}]
    taken = read_input(json.dumps(many).encode())
    with pytest.raises(InputError):
        taken.subjects()
    subjects = taken.subjects(every=True)
    assert len({subject.conversation_id for subject in subjects}) == 2
    assert taken.subjects(id="#2")[0].conversation == subjects[1].conversation


@pytest.mark.parametrize("data", [b"", b"  ", b"hello", b'{"a": 1}', b"7", {"conversation": {}}])
def test_what_is_no_conversation_is_a_clear_error(data):
    with pytest.raises(InputError):
        read_input(data).subjects()


def test_a_torn_last_line_is_forgiven_only_where_waiting_was_cut_short():
    rows = b'{"role": "user", "content": "hello"}\n{"role": "assis'
    with pytest.raises(InputError):
        read_input(rows)
    assert any("still open" in warning for warning in read_input(rows, cut_short=True).warnings)


def test_a_named_format_must_be_known_and_must_fit():
    read_input({"messages": TALK}, format="openai_chat")
    for wrong in ("claude_code", "wombat"):
        with pytest.raises(InputError, match=wrong):
            read_input({"messages": TALK}, format=wrong)

"""The envelope around a conversation: told by structure, strict in its values, lenient in its keys."""

import pytest

from sandbox_judge.envelope import (
    Envelope,
    Experiment,
    RecipeRef,
    envelope_of_variables,
    hook_input_of,
    is_envelope,
    supplied,
)
from sandbox_judge.errors import InputError

TALK = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"conversation": TALK}, True),
        ({"conversation": {"messages": TALK}, "status": "failed"}, True),
        ({"conversation": '{"type":"user"}\n'}, True),
        (TALK, False),
        ({"messages": TALK}, False),
        ({"messages": TALK, "conversation": {"id": "c"}}, False),
        ({"model": "m", "input": "hi", "conversation": "conv_1"}, False),
        ({"conversation": None}, False),
        ({"conversation": 7}, False),
    ],
)
def test_an_envelope_is_told_by_structure(value, expected):
    assert is_envelope(value) is expected


def test_unknown_keys_are_warned_of_and_the_rest_is_read():
    taken = hook_input_of(
        {
            "conversation": TALK,
            "conversation_id": "c1",
            "experiment": {"id": "e", "arm_id": "a"},
            "recipe": {"path": "/r", "commit": "HEAD"},
            "colour": "blue",
            "trace_id": None,
        }
    )
    assert taken.conversation == TALK
    assert taken.envelope.experiment == Experiment(id="e", arm_id="a")
    assert taken.envelope.recipe == RecipeRef(path="/r", commit="HEAD")
    assert taken.warnings == ("unknown keys of the envelope are ignored: colour",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"conversation_id": 7},
        {"recipe": "path"},
        {"feedback": {"value": 1}},
        {"budget_ms": "soon"},
        {"environment": "prod"},
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_place(wrong):
    with pytest.raises(InputError):
        hook_input_of({"conversation": TALK, **wrong})


def test_variables_and_flags_supply_only_what_is_absent():
    variables = envelope_of_variables(
        {
            "SANDBOX_JUDGE_CONVERSATION_ID": "from-variable",
            "SANDBOX_JUDGE_COMMIT": "abc",
            "SANDBOX_JUDGE_EXPERIMENT_ID": "exp",
            "SANDBOX_JUDGE_STATUS": "",
            "UNRELATED": "x",
        }
    )
    given = Envelope(conversation_id="from-envelope", recipe=RecipeRef(path="/r"))
    merged, disagree = supplied(given, variables)
    assert merged.conversation_id == "from-envelope"
    assert merged.recipe == RecipeRef(path="/r", commit="abc")
    assert merged.experiment.id == "exp"
    assert merged.status is None
    assert disagree == ("conversation_id",)


def test_an_unknown_environment_in_a_variable_is_refused():
    with pytest.raises(InputError):
        envelope_of_variables({"SANDBOX_JUDGE_ENVIRONMENT": "prod"})

"""What goes out is a function of the call and of what is known to be refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lane_calls import a_call

from sandbox_judge.lanes.base import Endpoint
from sandbox_judge.lanes.failures import Upstream
from sandbox_judge.lanes.negotiation import (
    MAX_REQUESTS,
    Refusal,
    is_reasoning_model,
    plan,
    refusal_in,
    takes_completion_tokens,
)

OWN = Endpoint(api_key="k")
GATEWAY = Endpoint(base_url="https://gateway.example/v1", api_key="k")


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        ("o1", True),
        ("o3-mini", True),
        ("o4-mini-2025-04-16", True),
        ("gpt-5", True),
        ("gpt-5.6-luna", True),
        ("GPT-5-nano", True),
        ("openai/gpt-5.1", True),
        ("ft:gpt-5-mini:org::id", True),
        ("gpt-6", True),
        ("gpt-10-pro", True),
        ("gpt-5-chat-latest", False),
        ("gpt-5.2-chat-latest", False),
        ("gpt-4o", False),
        ("gpt-4.1-mini", False),
        ("gpt-35-turbo", False),
        ("gpt-50x", False),
        ("olmo-2", False),
        ("o200k", False),
        ("my-org/judge-7b", False),
        ("", False),
    ],
)
def test_reasoning_families(model: str, reasons: bool) -> None:
    assert is_reasoning_model(model) is reasons


@pytest.mark.parametrize(
    ("provider", "model", "endpoint", "newer"),
    [
        ("openai", "gpt-4o", OWN, True),
        ("openai", "gpt-4o", Endpoint(base_url="https://api.openai.com/v1"), True),
        ("openai", "gpt-4o", GATEWAY, False),
        ("openai", "gpt-5", GATEWAY, True),
        ("openrouter", "openai/o3", GATEWAY, True),
        ("mistral", "mistral-small", OWN, False),
    ],
)
def test_the_limit_goes_out_under_the_name_that_the_model_takes(
    provider: str, model: str, endpoint: Endpoint, newer: bool
) -> None:
    call = a_call(provider=provider, model=model, endpoint=endpoint)
    assert takes_completion_tokens(call) is newer
    sent = plan(call, set()).sent
    assert ("max_completion_tokens" in sent, "max_tokens" in sent) == (newer, not newer)


def test_an_unauthored_temperature_stays_home_for_reasoning_models_and_an_authored_one_goes_out() -> None:
    default = a_call(model="gpt-5-mini")
    authored = a_call(model="gpt-5-mini", temperature=0.3, temperature_authored=True)
    assert "temperature" not in plan(default, set()).sent
    assert plan(default, set()).dropped == ()
    assert plan(authored, set()).sent["temperature"] == 0.3


def test_a_refused_value_is_left_out_and_another_value_is_not() -> None:
    refused = {Refusal("temperature", "0.0"), Refusal("reasoning_effort", '"minimal"')}
    low = plan(a_call(reasoning_effort="minimal"), refused)
    other = plan(a_call(temperature=0.7, reasoning_effort="low"), refused)
    assert low.dropped == ("temperature", "reasoning_effort")
    assert other.dropped == ()
    assert other.sent["temperature"] == 0.7


def test_the_limit_is_renamed_before_it_is_dropped() -> None:
    call = a_call(endpoint=GATEWAY)
    renamed = plan(call, {Refusal("max_tokens")})
    gone = plan(call, {Refusal("max_tokens"), Refusal("max_completion_tokens")})
    assert renamed.sent["max_completion_tokens"] == 64
    assert renamed.dropped == ()
    assert gone.dropped == ("max_tokens",)
    assert not {"max_tokens", "max_completion_tokens"} & gone.parameters.keys()


def test_the_output_mode_goes_down_the_ladder() -> None:
    call = a_call()
    schema, json = Refusal("output_mode", '"schema"'), Refusal("output_mode", '"json"')
    assert plan(call, set()).parameters["response_format"]["json_schema"]["strict"] is True
    assert plan(call, set()).sent["response_format"] == "json_schema"
    assert plan(call, {schema}).parameters["response_format"] == {"type": "json_object"}
    last = plan(call, {schema, json})
    assert (last.output_mode, last.dropped) == ("text", ("response_format",))
    assert "response_format" not in last.parameters
    assert plan(a_call(schema=None), set()).output_mode == "text"
    assert plan(a_call(schema=None), set()).dropped == ()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            Upstream(
                message="Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.",
                codes=frozenset({"unsupported_parameter"}),
                param="max_tokens",
            ),
            Refusal("max_tokens"),
        ),
        (
            Upstream(
                message="Unsupported value: 'temperature' does not support 0 with this model. "
                "Only the default (1) value is supported.",
                codes=frozenset({"unsupported_value"}),
                param="temperature",
            ),
            Refusal("temperature", "0.0"),
        ),
        (Upstream(message="temperature: Extra inputs are not permitted"), Refusal("temperature")),
        (
            Upstream(message="`temperature` may only be set to 1 when thinking is enabled."),
            Refusal("temperature", "0.0"),
        ),
        (
            Upstream(message="max_tokens is too large: 64. At most 32.", param="max_tokens"),
            Refusal("max_tokens", "64"),
        ),
        (Upstream(message="Unrecognized request argument supplied: max_tokens"), Refusal("max_tokens")),
        (
            Upstream(message="response_format of type json_schema is not supported", param="response_format"),
            Refusal("output_mode", '"schema"'),
        ),
        (
            Upstream(message="Invalid schema for response_format 'judgement'", param="response_format"),
            Refusal("output_mode", '"schema"', lasting=False),
        ),
        (
            Upstream(message="output_format: Extra inputs are not permitted"),
            Refusal("output_mode", '"schema"'),
        ),
        (Upstream(message="'messages' must not be empty", param="messages"), None),
        (Upstream(message="messages[1].content: max_tokens of what?", param="messages[1].content"), None),
        (Upstream(message="something else altogether"), None),
        (Upstream(), None),
        # Not sent, so not what was refused.
        (Upstream(message="unknown parameter reasoning_effort", param="reasoning_effort"), None),
    ],
)
def test_what_a_400_refuses(said: Upstream, expected: Refusal | None) -> None:
    assert refusal_in(said, plan(a_call(endpoint=GATEWAY), set())) == expected


_NAMES = st.sampled_from(["temperature", "max_tokens", "max_completion_tokens", "reasoning_effort"])
_REFUSALS = st.one_of(
    st.builds(Refusal, _NAMES, st.none()),
    st.sampled_from([Refusal("output_mode", '"schema"'), Refusal("output_mode", '"json"')]),
)


@given(st.sets(_REFUSALS), st.booleans(), st.sampled_from(["gpt-4o", "gpt-5", "m"]))
def test_nothing_refused_is_sent_and_what_is_missing_is_told(
    refused: set[Refusal], authored: bool, model: str
) -> None:
    call = a_call(model=model, temperature_authored=authored, reasoning_effort="low")
    made = plan(call, refused)
    assert not {r.parameter for r in refused} & made.parameters.keys()
    assert set(made.sent) == set(made.parameters)
    assert not set(made.dropped) & made.sent.keys()
    if authored:
        assert ("temperature" in made.sent) != ("temperature" in made.dropped)


@given(st.permutations(["temperature", "max_tokens", "max_completion_tokens", "reasoning_effort"]))
def test_a_model_that_refuses_everything_is_settled_within_the_bound(order: list[str]) -> None:
    """Each request loses one thing; the last one goes out bare, within the allowed number of requests."""
    call, refused = a_call(reasoning_effort="low"), set[Refusal]()
    for requests in range(1, MAX_REQUESTS + 1):
        made = plan(call, refused)
        name = next((n for n in [*order, "response_format"] if n in made.parameters), None)
        if name is None:
            assert made.parameters == {}
            return
        found = refusal_in(Upstream(message=f"Unsupported parameter: {name}", param=name), made)
        assert found is not None and found not in refused, (requests, name)
        refused.add(found)
    pytest.fail("not settled within the bound")

"""Live settings: strict reading, the order of sources, and what a run asks of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.budget import Budget
from sandbox_judge.errors import SettingsError
from sandbox_judge.recipe.judge import LocalEndpoint
from sandbox_judge.settings import LiveSettings, inline_settings, is_loopback, settings_of


def live(*values):
    return LiveSettings(sources=tuple(settings_of(value, where="test") for value in values))


def test_an_absent_judge_is_enabled_and_graded_always():
    judge = live({"version": 1}).judge("r", "tone")
    assert (judge.enabled, judge.sample_rate, judge.id) == (True, 1.0, None)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"version": 2}, "version"),
        ({"recipies": {}}, "recipies"),
        ({"recipes": {"r": {"judges": {"tone": {"sample_rate": 1.5}}}}}, "sample_rate"),
        ({"recipes": {"r": {"judges": {"tone": {"sample_rate": "0.5"}}}}}, "sample_rate"),
        ({"recipes": {"r": {"judges": {"tone": {"sample_rate": True}}}}}, "sample_rate"),
        ({"recipes": {"r": {"judges": {"tone": {"sample_rate": math.nan}}}}}, "sample_rate"),
        ({"recipes": {"r": {"judges": {"tone": {"threshold": 1}}}}}, "threshold"),
        ({"providers": {"openai": {"api_key": "x"}}}, "api_key"),
        ({"providers": {"openai": {"lane": "httpx"}}}, "lane"),
        ({"endpoints": [{"base_url": "http://127.0.0.1"}]}, "api_key_env"),
        ([], "array"),
        (None, "null"),
    ],
)
def test_what_is_not_a_setting_is_refused_by_name(value, named):
    with pytest.raises(SettingsError) as caught:
        settings_of(value, where="settings.json")
    assert named in caught.value.message
    assert caught.value.where == "settings.json"


@pytest.mark.parametrize("read", [settings_of, lambda value, where: inline_settings(value, recipe_id="r")])
def test_a_lone_surrogate_is_refused_like_any_other_wrong_value(read):
    for value in ({"\ud800": 1}, {"recipes": {"r": {"\udfff": {}}}}):
        with pytest.raises(SettingsError):
            read(value, where="settings.json")


def test_the_most_particular_entry_wins_key_by_key():
    settings = live(
        {
            "recipes": {
                "*": {"judges": {"*": {"sample_rate": 0.1}, "tone": {"sample_rate": 0.2}}},
                "r": {"judges": {"*": {"sample_rate": 0.3}, "tone": {"enabled": True}}},
            }
        }
    )
    assert settings.judge("r", "tone").sample_rate == 0.3
    assert settings.judge("r", "other").sample_rate == 0.3
    assert settings.judge("else", "tone").sample_rate == 0.2
    assert settings.judge("else", "other").sample_rate == 0.1


def test_an_earlier_source_wins_over_a_more_particular_later_one():
    settings = live(
        {"recipes": {"*": {"judges": {"*": {"sample_rate": 1.0}}}}},
        {"recipes": {"r": {"judges": {"tone": {"sample_rate": 0.0, "id": "7"}}}}},
    )
    assert settings.judge("r", "tone").sample_rate == 1.0
    assert settings.judge("r", "tone").id == "7"


@given(st.permutations(range(4)), st.integers(0, 3))
def test_disabled_anywhere_is_disabled(order, level):
    places = [("r", "tone"), ("r", "*"), ("*", "tone"), ("*", "*")]
    sources = []
    for index in order:
        recipe, judge = places[index]
        sources.append({"recipes": {recipe: {"judges": {judge: {"enabled": index != level}}}}})
    assert live(*sources).judge("r", "tone").enabled is False


def test_an_id_for_any_judge_is_not_taken():
    assert live({"recipes": {"r": {"judges": {"*": {"id": "one"}}}}}).judge("r", "tone").id is None


def test_budget_is_taken_in_milliseconds_and_defaults_stand():
    settings = live({"recipes": {"r": {"budget_ms": 1500, "concurrency": 2}, "*": {"max_calls": 7}}})
    assert settings.budget("r") == Budget(total_s=1.5, concurrency=2, max_calls=7)
    assert settings.budget("other") == Budget(max_calls=7)


def test_a_provider_is_put_together_from_all_sources():
    settings = live(
        {"providers": {"openai": {"base_url": "https://gateway.example/v1"}}},
        {"providers": {"openai": {"base_url": "https://other.example", "api_key_env": "GATEWAY_KEY"}}},
    )
    provider = settings.provider("openai")
    assert (provider.base_url, provider.api_key_env) == ("https://gateway.example/v1", "GATEWAY_KEY")


def test_where_a_key_stands_is_one_thing():
    settings = live(
        {"providers": {"openai": {"api_key_file": "/run/key"}}},
        {"providers": {"openai": {"api_key_env": "LOWER", "base_url": "https://gateway.example"}}},
    )
    provider = settings.provider("openai")
    assert (provider.api_key_file, provider.api_key_env) == ("/run/key", None)
    assert provider.base_url == "https://gateway.example"


def test_inline_settings_may_set_rates_and_budgets_only():
    sources = inline_settings(
        {"enabled": True, "sample_rate": 0.5, "budget_ms": 900, "judges": {"tone": {"enabled": False}}},
        recipe_id="r",
    )
    settings = LiveSettings(sources=sources)
    assert settings.judge("r", "tone").enabled is False
    assert settings.judge("r", "tone").sample_rate == 0.5
    assert settings.judge("r", "other").sample_rate == 0.5
    assert settings.budget("r").total_s == 0.9
    for refused in (
        {"providers": {}},
        {"sampling_key": "x"},
        {"judges": {"tone": {"id": "x"}}},
        {"recipes": {"r": {"judges": {"tone": {"id": "x"}}}}},
        {"endpoints": []},
        7,
    ):
        with pytest.raises(SettingsError):
            inline_settings(refused, recipe_id="r")


def endpoint(url, variable="JUDGE_KEY"):
    return LocalEndpoint(base_url=url, api_key_env=variable)


def test_without_endpoints_only_loopback_with_a_judge_key_is_allowed():
    settings = live({})
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert settings.refuses(endpoint(f"http://{host}:8080/v1")) is None
    for refused in (
        endpoint("https://models.example/v1"),
        endpoint("http://127.0.0.1:8080/v1", "OPENAI_API_KEY"),
        endpoint("http://127.0.0.1.models.example/v1"),
        endpoint("http://user@models.example/v1"),
    ):
        null = settings.refuses(refused)
        assert null is not None
        assert null.type == "not_allowed"
        assert refused.base_url in null.message


def test_a_listed_endpoint_must_equal_the_entry():
    settings = live({"endpoints": [{"base_url": "https://models.example/v1", "api_key_env": "MODELS_KEY"}]})
    assert settings.refuses(endpoint("https://models.example/v1", "MODELS_KEY")) is None
    assert settings.refuses(endpoint("https://models.example/v1", "OTHER_KEY")) is not None
    # With a list, loopback is no longer allowed by itself.
    assert settings.refuses(endpoint("http://127.0.0.1:1/v1")) is not None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1@evil.example/v1", False),
        ("http://LOCALHOST/v1", True),
        ("http://[::1]:80", True),
        ("http://[::1].evil.example", False),
        ("localhost", False),
    ],
)
def test_loopback_is_told_by_the_whole_host(url, expected):
    assert is_loopback(url) is expected

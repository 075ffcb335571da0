"""No key survives in a message; prose, ids and hashes do; and the time is bounded."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.masking import MASK, mask, mask_values, secrets_of

# Put together at run time, so that no scanner takes this file for a leak.
BODY = "Ab3dEf6hIj9kLm2nOp5q"
JWT = "eyJhbGciOiJI." + "eyJzdWIiOiIx" + ".c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + BODY,
        "sk-proj-" + BODY + "_-x",
        "sk-ant-api03-" + BODY,
        "sk-or-v1-" + BODY,
        "sk-abcd" + "*" * 20 + "wxyz",
        "pk-lf-" + BODY,
        "AIza" + BODY,
        "ghp_" + BODY,
        "github_pat_" + BODY,
        "glpat-" + BODY,
        "hf_" + BODY,
        "gsk_" + BODY,
        "xai-" + BODY,
        "xoxb-1234-" + BODY,
        "AKIA" + BODY.upper(),
        JWT,
    ],
)
@pytest.mark.parametrize("around", ["Incorrect API key: {}.", '{{"key": "{}"}}', "({})", "x={}&y=1", "{}"])
def test_key_like_values(secret: str, around: str) -> None:
    masked = mask(around.format(secret))
    assert MASK in masked
    assert secret[8:20] not in masked


@pytest.mark.parametrize(
    ("text", "kept", "gone"),
    [
        ("Authorization: Bearer abc.def/ghi", "Authorization: ", "abc.def"),
        ("authorization: basic dXNlcjpwYXNz", "authorization", "dXNlcjpwYXNz"),
        ("sent header Bearer topsecretvalue to x", "to x", "topsecretvalue"),
        ("GET /v1?api_key=hunter22&model=m", "&model=m", "hunter22"),
        ('{"api-key": "hunter22", "model": "m"}', '"model": "m"', "hunter22"),
        ("x-api-key: hunter22", "x-api-key", "hunter22"),
        ("Incorrect API key provided: hunter22. See docs", "See docs", "hunter22"),
        ("password=hunter22;user=bob", "user=bob", "hunter22"),
        ("https://bob:hunter22@proxy.example:8080/x refused", "proxy.example:8080/x refused", "hunter22"),
        ("http://hunter22@proxy.example/ refused", "proxy.example/ refused", "hunter22"),
        ("aws_secret_access_key = hunter22", "secret_access_key", "hunter22"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIhunter22\n-----END RSA PRIVATE KEY----- after",
            "after",
            "hunter22",
        ),
    ],
)
def test_values_in_context(text: str, kept: str, gone: str) -> None:
    masked = mask(text)
    assert kept in masked and gone not in masked and MASK in masked


@pytest.mark.parametrize(
    "text",
    [
        "Basic authentication is not supported by this endpoint",
        "no reply within 30.0 s, the end of the time budget",
        "model 'gpt-5-mini' not found (request req_0123456789abcdef)",
        "the token limit cut the reply off",
        "max_tokens: 5 is too small, token count 17 > 16",
        "connect to 127.0.0.1:8080 failed: connection refused (https://api.example/v1)",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "set OPENAI_API_KEY in the environment",
        "task-skeleton risk-based ask-me-anything",
    ],
)
def test_prose_stays(text: str) -> None:
    assert mask(text) == text


def test_given_values() -> None:
    assert mask("key plainvalue refused", ["plainvalue"]) == f"key {MASK} refused"
    assert "plain" not in mask("a plainvalue-long b", ["plainvalue", "plainvalue-long"])
    # A short credential may be part of a word.
    assert mask("test of latest: test", ["test"]) == f"{MASK} of latest: {MASK}"
    assert mask("a b", ["", " "]) == "a b"
    assert mask("a.b+c a.b+c", ["a.b+c"]) == f"{MASK} {MASK}"


@given(
    secret=st.text(min_size=8, max_size=40).filter(str.strip), before=st.text(max_size=20), after=st.text()
)
def test_a_given_value_never_survives(secret: str, before: str, after: str) -> None:
    masked = mask(f"{before} {secret} {after}", [secret])
    assert secret not in masked.replace(MASK, "\0") or secret in MASK


def test_values_alone() -> None:
    """Reasoning and quotes are about a conversation: what only looks like a key there stays."""
    text = "The agent printed password=hunter22-secret and api_key=other, in a test."
    assert mask_values(text, ["hunter22-secret", "test"]) == (
        f"The agent printed password={MASK} and api_key=other, in a test."
    )


HOSTILE = [
    "sk-",
    "eyJ-",
    "eyJa.",
    "api_key ",
    "api_key=",
    "http://",
    "a:",
    "token",
    "Bearer ",
    "basic a",
    "-----BEGIN PRIVATE KEY-----",
    "x-amz-",
    "a",
    " ",
    "AKIA",
    "secret_",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_bounded_time(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    began = time.process_time()
    mask(text, ["aaaaaaaab"])
    assert time.process_time() - began < 4


def test_values_of_variables_that_are_named_as_credentials_are():
    environ = {
        "FERN_API_KEY": "plain words here",
        "JUDGE_token": "another value",
        "PGPASSWORD": "hunter2hunter2",
        "GIT_AUTHOR_NAME": "Ada Lovelace",
        "PATH": "/usr/bin:/bin",
        "SHORT_KEY": "abc",
    }
    assert set(secrets_of(environ)) == {"plain words here", "another value", "hunter2hunter2"}

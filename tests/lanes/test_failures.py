"""From statuses and error bodies to error types, and what may stand in a message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lane_calls import KEY

from sandbox_judge.lanes.address import HttpFailure
from sandbox_judge.lanes.failures import decoded, masked, of_status, of_trouble, retry_after, upstream
from sandbox_judge.nulls import RETRYABLE

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


def failure(status: int, body: object = None, **headers: str):
    raw = json.dumps(body).encode() if body is not None else b""
    return of_status(status, upstream(raw), headers=headers, secrets=(KEY,), now=NOW)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "bad_request"),
        (401, "auth"),
        (403, "auth"),
        (404, "model_not_found"),
        (405, "bad_request"),
        (408, "timeout"),
        (409, "bad_request"),
        (413, "context_overflow"),
        (418, "bad_request"),
        (422, "bad_request"),
        (429, "rate_limited"),
        (500, "provider_error"),
        (502, "provider_error"),
        (503, "provider_error"),
        (529, "provider_error"),
        (599, "provider_error"),
    ],
)
def test_each_status_has_its_type(status: int, expected: str) -> None:
    for body in (None, {"error": {"message": "no"}}, {"error": "no"}, [], "no"):
        made = failure(status, body)
        assert made.type == expected
        assert made.retryable is None
        assert str(status) in made.message


@pytest.mark.parametrize(
    ("status", "body", "expected", "retryable"),
    [
        (429, {"error": {"code": "insufficient_quota", "message": "x"}}, "rate_limited", False),
        (429, {"error": {"type": "insufficient_quota"}}, "rate_limited", False),
        (402, {"error": {"message": "Insufficient Balance"}}, "rate_limited", False),
        (429, {"error": {"message": "Rate limit reached for requests"}}, "rate_limited", None),
        (400, {"error": {"code": "context_length_exceeded"}}, "context_overflow", None),
        (400, {"error": {"type": "exceed_context_size_error"}}, "context_overflow", None),
        (
            400,
            {"error": {"message": "This model's maximum context length is 8192 tokens"}},
            "context_overflow",
            None,
        ),
        (
            422,
            {"message": "prompt is too long: 9 tokens > 8 maximum", "object": "error"},
            "context_overflow",
            None,
        ),
        (400, {"error": {"code": "content_filter", "message": "x"}}, "refused", None),
        (400, {"error": {"message": "flagged by our content management policy"}}, "refused", None),
        (400, {"error": {"code": "model_not_found"}}, "model_not_found", None),
        (
            400,
            [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}],
            "auth",
            None,
        ),
        (500, {"error": {"message": "context window of the cache is cold"}}, "provider_error", None),
        (422, {"detail": [{"loc": ["body", "n"], "msg": "bad", "type": "value_error"}]}, "bad_request", None),
        (302, None, "provider_error", False),
    ],
)
def test_the_body_says_more(status: int, body: object, expected: str, retryable: bool | None) -> None:
    made = failure(status, body)
    assert (made.type, made.retryable) == (expected, retryable)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30.0),
        ({"retry-after": "Friday, 15-Jan-2027 08:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        # By the server's own clock, whatever ours says.
        ({"retry-after": "Tue, 01 Jan 2030 00:00:09 GMT", "date": "Tue, 01 Jan 2030 00:00:00 GMT"}, 9.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT", "date": "yesterday"}, 30.0),
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "٧"}, None),
        ({"retry-after": "Fri, 99 Jan 2027 08:00:30 GMT"}, None),
        ({"retry-after": "Fri, 15 Foo 2027 08:00:30 GMT"}, None),
        ({"retry-after": "Fri, 15 Jan 0000 08:00:30 GMT"}, None),
        ({"retry-after": "7, 7"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers, now=NOW) == expected


@given(st.text(max_size=60))
def test_retry_after_never_raises(text: str) -> None:
    found = retry_after({"retry-after": text, "retry-after-ms": text, "date": text}, now=NOW)
    assert found is None or 0 <= found < float("inf")


def test_no_key_in_any_message() -> None:
    for status in (400, 401, 403, 404, 409, 413, 422, 429, 500, 529):
        for text in (f"bad key {KEY}", f"Bearer {KEY}", "key sk-other-key-that-is-not-ours-12345"):
            for body in ({"error": {"message": text}}, {"error": text}, {"detail": text}, text):
                message = failure(status, body).message
                assert "canary" not in message and "not-ours" not in message
                if status in (401, 403):
                    assert "bad" not in message and "key sk" not in message


def test_messages_are_short_and_one_line() -> None:
    message = failure(500, {"error": {"message": "very\nlong " * 5_000}}).message
    assert len(message) < 400 and "\n" not in message


def test_a_secret_cut_by_the_length_is_masked_first() -> None:
    assert "canary" not in masked("x" * 290 + f" {KEY} " + "y" * 500, (KEY,))


@pytest.mark.parametrize(
    ("trouble", "expected", "retryable"),
    [
        ("timeout", "timeout", None),
        ("connection", "connection", None),
        ("bad_reply", "provider_error", None),
        ("redirect", "provider_error", False),
        ("unusable", "connection", False),
    ],
)
def test_an_exchange_without_a_response(trouble: str, expected: str, retryable: bool | None) -> None:
    made = of_trouble(HttpFailure(trouble, "what happened"))
    assert (made.type, made.retryable, made.message) == (expected, retryable, "what happened")
    assert made.type in RETRYABLE


@given(st.binary(max_size=300))
def test_any_body_can_be_an_error_body(body: bytes) -> None:
    made = of_status(400, upstream(body), headers={}, secrets=(), now=NOW)
    assert made.message.startswith("HTTP 400") or made.type == "auth"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "param", "detail", "loc", "msg"]), inner
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_can_be_an_error_body(value: object) -> None:
    made = upstream(json.dumps(value).encode())
    assert isinstance(made.message, str) and isinstance(made.param, str)


def test_nesting_without_end_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        decoded(b"[" * 200_000)
    assert upstream(b"[" * 200_000).codes == frozenset()


def test_lone_surrogates_and_a_byte_order_mark_are_read() -> None:
    assert decoded(b'\xef\xbb\xbf{"a": "\\ud800"}') == {"a": "\ud800"}

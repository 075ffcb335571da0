"""From what a server answered to the error type of a null (`spec/events.md`), for every lane. Pure.

Messages are short and never hold a key: what a server says may echo the one it was sent.
"""

import datetime
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sandbox_judge.lanes.address import HttpFailure, Trouble
from sandbox_judge.lanes.base import ModelFailure
from sandbox_judge.masking import mask
from sandbox_judge.nulls import ErrorType

_SHOWN: Final = 300
# What servers of OpenAI's format say for one thing, in codes first and in words where they have none.
_LENGTH_CODES: Final = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"}
)
_LENGTH_WORDS: Final = re.compile(
    r"(?i)maximum context length|context (?:length|window|size)|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|reduce the length|exceeds? the (?:maximum|limit).{0,40}tokens"
)
_FILTER_CODES: Final = frozenset(
    {"content_filter", "content_policy_violation", "moderation_blocked", "data_inspection_failed"}
)
_FILTER_WORDS: Final = re.compile(r"(?i)content (?:management )?polic|content filter|safety system|flagged")
_QUOTA_CODES: Final = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"}
)
_QUOTA_WORDS: Final = re.compile(r"(?i)insufficient (?:quota|balance|credits?)|credit balance is too low")
_KEY_CODES: Final = frozenset({"invalid_api_key", "authentication_error", "account_deactivated"})
_KEY_WORDS: Final = re.compile(r"(?i)(?:invalid|incorrect) api[ _-]?key|api[ _-]?key not valid")
_MODEL_CODES: Final = frozenset({"model_not_found", "model_not_supported", "unknown_model"})
_BY_STATUS: Final[dict[int, ErrorType]] = {
    401: "auth",
    403: "auth",
    404: "model_not_found",
    408: "timeout",
    410: "model_not_found",
    413: "context_overflow",
    429: "rate_limited",
}
_BY_TROUBLE: Final[dict[Trouble, ErrorType]] = {
    "timeout": "timeout",
    "connection": "connection",
    "bad_reply": "provider_error",
    "redirect": "provider_error",
    "unusable": "connection",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HTTP_DATE: Final = re.compile(
    r"[A-Za-z]{3,9},? (\d{1,2})[ -]([A-Za-z]{3})[ -](\d{4}) (\d\d):(\d\d):(\d\d)(?: GMT| UTC)?", re.ASCII
)


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """What an error body says; every field may be empty. `codes` holds its code, type and status words."""

    message: str = ""
    codes: frozenset[str] = frozenset()
    param: str = ""


def decoded(body: bytes) -> Any:
    """`body` as JSON. Raises ValueError: also for what only nests too deep."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:  # lone surrogates, a byte order mark, numbers that the fast reader refuses
        return json.loads(body.decode("utf-8-sig", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def upstream(body: bytes) -> Upstream:
    """The error in a body of any of the shapes that servers of OpenAI's format send."""
    try:
        value = decoded(body)
    except ValueError:
        text = body[:2_000].decode("utf-8", "replace").strip()
        return Upstream(message="" if text.startswith("<") else text)
    return upstream_of(value)


def upstream_of(value: Any) -> Upstream:
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        return Upstream(message=value)
    if not isinstance(value, dict):
        return Upstream()
    inner = value.get("error")
    if isinstance(inner, str):
        return Upstream(message=inner)
    if isinstance(inner, dict):
        value = inner
    detail = value.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        return _validation(detail[0])
    message = next((v for v in (value.get("message"), detail) if isinstance(v, str)), "")
    codes = (value.get(key) for key in ("code", "type", "status", "reason"))
    param = value.get("param")
    return Upstream(
        message=message,
        codes=frozenset(str(c).lower() for c in codes if isinstance(c, str | int)),
        param=param if isinstance(param, str) else "",
    )


def _validation(first: dict[Any, Any]) -> Upstream:
    """FastAPI's 422: where in the body, and what is wrong with it."""
    place = first.get("loc")
    path = [str(part) for part in place if part != "body"] if isinstance(place, list) else []
    message, kind = first.get("msg"), first.get("type")
    return Upstream(
        message=f"{'.'.join(path)}: {message}" if isinstance(message, str) else "",
        codes=frozenset({kind.lower()}) if isinstance(kind, str) else frozenset(),
        param=".".join(path),
    )


def masked(text: str, secrets: tuple[str | None, ...] = ()) -> str:
    """`text` on one line and cut, without the secrets given and whatever looks like a key."""
    text = mask(" ".join(text.split()), [secret for secret in secrets if secret])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def of_status(
    status: int,
    said: Upstream,
    *,
    headers: Mapping[str, str],
    secrets: tuple[str | None, ...],
    now: float,
) -> ModelFailure:
    """The failure that an error status means. `now` is the wall clock in seconds since the epoch."""
    kind, retryable = _kind(status, said)
    if kind == "auth":  # what the server says of a key may be the key: none of it goes on
        return ModelFailure("auth", f"HTTP {status}: the endpoint does not accept the key")
    text = masked(said.message, secrets)
    return ModelFailure(
        kind,
        f"HTTP {status}: {text}" if text else f"HTTP {status}",
        retry_after_s=retry_after(headers, now=now),
        retryable=retryable,
    )


def _kind(status: int, said: Upstream) -> tuple[ErrorType, bool | None]:
    """The error type, and whether a retry may help where the type alone does not say."""
    codes, words = said.codes, said.message
    if status in (402, 429) and (status == 402 or codes & _QUOTA_CODES or _QUOTA_WORDS.search(words)):
        return "rate_limited", False
    if status in _BY_STATUS:
        return _BY_STATUS[status], None
    if codes & _LENGTH_CODES or (status < 500 and _LENGTH_WORDS.search(words)):
        return "context_overflow", None
    if codes & _FILTER_CODES or (status < 500 and _FILTER_WORDS.search(words)):
        return "refused", None
    if 400 <= status < 500:
        if codes & _KEY_CODES or _KEY_WORDS.search(words):
            return "auth", None
        return ("model_not_found" if codes & _MODEL_CODES else "bad_request"), None
    return "provider_error", None if status >= 500 else False


def of_trouble(failure: HttpFailure) -> ModelFailure:
    """The failure that an exchange without a response means."""
    lasting = failure.trouble in ("redirect", "unusable")
    return ModelFailure(
        _BY_TROUBLE[failure.trouble], masked(failure.message), retryable=False if lasting else None
    )


def retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `retry-after` as seconds or as a date
    (RFC 9110 10.2.3), never below 0. None for nothing and for nonsense. A date is measured against the
    server's own `date` where it gives one: our clock may be wrong."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1_000
    text = headers.get("retry-after", "")
    seconds = _number(text)
    if seconds is not None:
        return seconds
    when = _date(text)
    if when is None:
        return None
    server_now = _date(headers.get("date", ""))
    return max(0.0, when - (now if server_now is None else server_now))


def _number(text: str) -> float | None:
    try:
        value = float(text) if text.isascii() else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _date(text: str) -> float | None:
    found = _HTTP_DATE.fullmatch(text.strip())
    if found is None or found[2].lower() not in _MONTHS:
        return None
    day, year, hour, minute, second = (int(found[i]) for i in (1, 3, 4, 5, 6))
    month = _MONTHS.index(found[2].lower()) + 1
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        return None
    return moment.timestamp()

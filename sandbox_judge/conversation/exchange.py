"""A request with its response, in the wrappers that recorders use. Pure; knows no provider's format."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from sandbox_judge.conversation.document import parse_json

_FIRST_ERROR_STATUS: Final = 400
# Not str.splitlines: JSON may hold U+2028 unescaped.
_LINE: Final = re.compile("\r\n|\n|\r")


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model: the bodies, parsed. `response` is None where there is none; a streamed one is the
    list of its events. `error` tells a response that was a failure."""

    request: Any
    response: Any = None
    error: Any = None


def exchange_of(value: Any) -> Exchange | None:
    """The exchange in `{"request", "response"}`, or the last one of a recorder's `{"interactions": [...]}`,
    which carries the whole conversation so far. None for anything else."""
    if not isinstance(value, dict):
        return None
    interactions = value.get("interactions")
    if isinstance(interactions, list) and interactions:
        value = interactions[-1]
        if not isinstance(value, dict):
            return None
    if "request" not in value or not isinstance(value["request"], dict | list | str):
        return None
    response = body(value.get("response"))
    status = value.get("status")
    failed = isinstance(status, int) and status >= _FIRST_ERROR_STATUS
    error = response.get("error") if isinstance(response, dict) else None
    if failed and error is None:
        error = response if response is not None else f"HTTP {status}"
    return Exchange(request=body(value["request"]), response=response, error=error)


def row_exchange(row: dict[str, Any], is_response: Callable[[Any], bool]) -> Exchange:
    """The exchange that a row is: a recorder's, a response alone, whose request is then empty, or a request
    that may hold its response."""
    if (exchange := exchange_of(row)) is not None:
        return exchange
    if is_response(row):
        return Exchange(request={}, response=row)
    return Exchange(request=row, response=body(row.get("response")))


def may_list(request: Any, key: str) -> bool:
    """Whether a request can be read: a list of messages, or an object whose `key` holds one or nothing."""
    if isinstance(request, dict):
        return isinstance(request.get(key), list | None)
    return isinstance(request, list)


def body(value: Any) -> Any:
    """A body as JSON: an object as it is, JSON text parsed, a stream's text as the list of its events."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith(("data:", "event:", ":")):
        return list(stream_events(value))
    try:
        return parse_json(value)
    except ValueError:
        return value


def stream_events(text: str) -> Iterator[Any]:
    """The JSON payloads of server-sent events, in order; `[DONE]` is none of them."""
    lines: list[str] = []
    for line in [*_LINE.split(text), ""]:
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            with contextlib.suppress(ValueError):
                yield parse_json("\n".join(lines))
            lines = []

"""OpenAI Responses: a request, one with its response (streamed or not), a response alone, bare items, the
stored items of a conversation, the events of a stream; rows of requests, chained by `previous_response_id`.

A request that goes on from an earlier response carries only what is new. Where that earlier exchange is in
the same input, the two are one conversation; where it is not, its content is missing.
Shapes: platform.openai.com/docs/api-reference/responses and /conversations; DeepSeek and others copy them.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.exchange import Exchange, body, exchange_of
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.parts import as_text, error_told
from sandbox_judge.conversation.responses_items import ITEM_TYPES, ItemReader, call_id
from sandbox_judge.conversation.responses_stream import is_stream, response_of
from sandbox_judge.conversation.rows import rows_of, unlike_first
from sandbox_judge.errors import InputError

NAME: Final = "openai_responses"

# Branches share what came before them, which each conversation holds: what such sharing may add up to.
_MOST_HELD: Final = 100_000
_CONTENT: Final = frozenset({"input_text", "output_text", "input_image", "input_file", "summary_text"})
# Of these a chat message may have the texts too.
_CONTENT_ALONE: Final = frozenset({"input_image", "input_file"})


def recognise(document: Document) -> bool:
    first = document.values[0]
    if document.many:
        rows = list(document.values)
        return is_stream(rows) or _is_own(first) or _are_items(rows)
    if isinstance(first, list):
        return is_stream(first) or (bool(first) and _is_own(first[0])) or _are_items(first)
    return _is_own(first) or _is_item(first)


def read(document: Document) -> Iterator[Conversation]:
    rows = list(rows_of(document))
    if is_stream(rows):
        rows = [{"response": rows}]
    elif not _is_own(rows[0]):
        yield _conversation([Exchange(request={"input": rows})], {})
        return
    if len(rows) == 1 and isinstance(rows[0].get("interactions"), list):
        found = [link for one in rows[0]["interactions"] if (link := _exchange(one)) is not None]
        if found:
            yield _conversation(_chain(found, len(found) - 1, _by_id(found)), rows[0])
            return
    links: list[Exchange] = []
    for index, row in enumerate(rows):
        if not _is_own(row) or (link := _exchange(row)) is None:
            told = "is no request or response of OpenAI Responses, as the first is"
            raise unlike_first(document, index, told)
        links.append(link)
    known = _by_id(links)
    continued = {known.get(_previous(link)) for link in links}
    held = 0
    for index, row in enumerate(rows):
        if index not in continued:
            chain = _chain(links, index, known)
            held += len(chain)
            if held > _MOST_HELD + len(links):
                raise InputError(
                    "The requests go on from one another in too many branches to be read.",
                    remedy="Give one chain of requests at a time.",
                )
            yield _conversation(chain, row)


def _exchange(value: Any) -> Exchange | None:
    """The request and response of one row, the response put together where it was streamed."""
    if not isinstance(value, dict):
        return None
    found = exchange_of(value)
    if found is None:
        if _is_response(value):
            response, request = value, value if "input" in value else {}
        else:
            response, request = body(value.get("response")), value
        found = Exchange(request=request, response=response)
    response = response_of(found.response) if is_stream(found.response) else found.response
    return Exchange(request=found.request, response=response, error=found.error)


def _is_own(value: Any) -> bool:
    """A request, a pair, a response or a list object that says by itself whose it is."""
    if not isinstance(value, dict):
        return False
    if _is_response(value):
        return True
    exchange = exchange_of(value) or Exchange(request=value, response=body(value.get("response")))
    if is_stream(exchange.response) or (
        isinstance(exchange.response, dict) and _is_response(exchange.response)
    ):
        return isinstance(exchange.request, dict | list)
    request = exchange.request
    if not isinstance(request, dict) or "messages" in request or "contents" in request:
        return False
    if isinstance(request.get("input"), str):
        return ("model" in request and exchange.response is None) or exchange.error is not None
    return any(_are_items(request.get(key)) for key in ("input", "items")) or _is_list_object(request)


def _is_response(value: dict[str, Any]) -> bool:
    named = value.get("object")
    output = value.get("output")
    if isinstance(named, str):
        return named.startswith("response") and isinstance(output, list | None) and "type" not in value
    return isinstance(output, list) and ("input" in value or "status" in value) and _are_items(output)


def _is_list_object(value: Any) -> bool:
    return isinstance(value, dict) and value.get("object") == "list" and _are_items(value.get("data"))


def _is_item(value: Any) -> bool:
    """One item that only this format has, whatever stands around it."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if isinstance(kind, str) and kind in ITEM_TYPES:
        # Other formats have these words too, but not by these keys.
        if kind == "reasoning":
            return "summary" in value or "encrypted_content" in value
        return kind != "function_call" or "arguments" in value or "name" in value
    content = value.get("content")
    own = _CONTENT if kind == "message" else _CONTENT_ALONE
    return (
        kind in ("message", None)
        and isinstance(value.get("role"), str)
        and isinstance(content, list)
        and any(isinstance(block, dict) and as_text(block.get("type")) in own for block in content)
    )


def _are_items(value: Any) -> bool:
    """Items: each looks like one until the first that only this format has; typed messages alone count."""
    if not isinstance(value, list):
        return False
    typed = False
    for item in value:
        if _is_item(item):
            return True
        if not isinstance(item, dict) or not ("role" in item and "content" in item) or "tool_calls" in item:
            return False
        if item.get("type") not in ("message", None) or item["role"] in ("tool", "function"):
            return False
        typed = typed or item.get("type") == "message"
    return typed


def _by_id(links: list[Exchange]) -> dict[Any, int]:
    """The place of each exchange by the id of its response."""
    return {
        link.response["id"]: index
        for index, link in enumerate(links)
        if isinstance(link.response, dict) and isinstance(link.response.get("id"), str)
    }


def _previous(link: Exchange) -> Any:
    for side in (link.request, link.response):
        if isinstance(side, dict) and isinstance(id := side.get("previous_response_id"), str):
            return id
    return None


def _chain(links: list[Exchange], index: int, known: dict[Any, int]) -> list[Exchange]:
    """The exchange `index` after those that it goes on from, the first of them first."""
    chain, taken, at = [], set[int](), index
    while at not in taken:
        taken.add(at)
        chain.append(links[at])
        at = known.get(_previous(links[at]), at)
    return chain[::-1]


def _conversation(chain: list[Exchange], row: dict[str, Any]) -> Conversation:
    build = ConversationBuilder(NAME, id=_id(chain[-1], row))
    reader = ItemReader(build)
    if (previous := _previous(chain[0])) is not None:
        build.missing(f"the earlier response {previous[:100]!r} is only referred to")
    told: Any = None
    for n, link in enumerate(chain):
        told = _instructions(build, reader, link, told)
        reader.add(_input(link, build), repeats=n > 0)
        _response(build, reader, link.response)
    _outcome(build, chain[-1], row)
    return build.build()


def _id(link: Exchange, row: dict[str, Any]) -> Any:
    for key in ("conversation_id", "session_id"):
        if row.get(key) is not None:
            return row[key]
    held = link.request.get("conversation") if isinstance(link.request, dict) else None
    held = held.get("id") if isinstance(held, dict) else held
    if held is None and isinstance(link.response, dict):
        held = link.response.get("id")
    return held if isinstance(held, str) else None


def _instructions(build: ConversationBuilder, reader: ItemReader, link: Exchange, told: Any) -> Any:
    """The system prompt, where it is another than before; of a stored prompt the response tells it."""
    request = link.request if isinstance(link.request, dict) else {}
    response = link.response if isinstance(link.response, dict) else {}
    given = request.get("instructions") or response.get("instructions")
    if given and given != told:
        if isinstance(given, list):
            reader.add(given)
        else:
            build.message("system", as_text(given))
    elif not given and request.get("prompt") is not None:
        build.missing("the stored prompt is only referred to")
    return given or told


def _input(link: Exchange, build: ConversationBuilder) -> list[Any]:
    request = link.request
    if isinstance(request, list):
        return request
    for held in (link.response, request):
        # Items that were added to a stored conversation come back in the answer, with their ids.
        if _is_list_object(held):
            return _oldest_first(held, build)
    if request.get("conversation") is not None:
        build.warn("stored_conversation", "the stored conversation may hold earlier items, not given here")
    given = request.get("input", request.get("items"))
    return given if isinstance(given, list) else [] if given is None else [as_text(given)]


def _oldest_first(listed: dict[str, Any], build: ConversationBuilder) -> list[Any]:
    items: list[Any] = listed["data"]
    if listed.get("has_more") is True:
        build.missing("the list of items says that there are more")
    if _is_newest_first(items):
        build.warn("order_reversed", "the list of items has the newest first and was turned around")
        return items[::-1]
    return items


def _is_newest_first(items: list[Any]) -> bool:
    """Outputs before their calls tell it; without calls, an answer first and a question last."""
    calls: set[Any] = set()
    outputs: set[Any] = set()
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(kind, str) and isinstance(key := call_id(item), str):
            if kind.endswith("_call"):
                if key in outputs:
                    return True
                calls.add(key)
            elif kind.endswith("_call_output"):
                if key in calls:
                    return False
                outputs.add(key)
    roles = [r for i in items if isinstance(i, dict) and isinstance(r := i.get("role"), str)]
    return len(roles) > 1 and roles[0] == "assistant" and roles[-1] != "assistant"


def _response(build: ConversationBuilder, reader: ItemReader, response: Any) -> None:
    if response is None or _is_list_object(response):
        return
    if not isinstance(response, dict) or not isinstance(response.get("output"), list | None):
        told = ", ".join(list(response)[:8]) if isinstance(response, dict) else as_text(response)[:200]
        build.warn("response_unreadable", f"the response holds no output: {told}")
        return
    if response.get("output") is None:
        if response.get("error") is None and response.get("object") != "conversation":
            build.warn(
                "response_unreadable", f"the response holds no output: {', '.join(list(response)[:8])}"
            )
        return
    reader.add(response["output"], mark=_mark(response))


def _mark(response: dict[str, Any]) -> str | None:
    status = response.get("status")
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return "content_filter" if reason == "content_filter" else "truncated"
    return "interrupted" if status in ("in_progress", "queued") else None


def _outcome(build: ConversationBuilder, link: Exchange, row: dict[str, Any]) -> None:
    """How it ended, as the last response, the recorder and the host tell it; and feedback beside it."""
    response = link.response if isinstance(link.response, dict) else {}
    error = link.error or response.get("error")
    if error is not None or response.get("status") == "failed":
        build.failed(error_told(error))
    elif response.get("status") in ("cancelled", "canceled"):
        build.cancelled()
    if isinstance(status := row.get("status"), str) and not _is_response(row):
        build.status(status)
    for item in row["feedback"] if isinstance(row.get("feedback"), list) else ():
        build.feedback(item)

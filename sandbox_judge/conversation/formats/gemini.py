"""Gemini's generateContent: a list of contents, a request, one with its response (streamed or not), a
response alone, rows of any of these.

Shapes: ai.google.dev/api/generate-content, Vertex AI's twin, and the names of the Python SDK.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.exchange import row_exchange
from sandbox_judge.conversation.gemini_parts import PART_KEYS, add_content
from sandbox_judge.conversation.model import Conversation, Text
from sandbox_judge.conversation.parts import as_text, listed
from sandbox_judge.conversation.rows import alike, rows_of, tell_outcome, unlike_others

NAME: Final = "gemini"

_ENDED_WELL: Final = ("", "STOP", "FINISH_REASON_UNSPECIFIED")
_MARKS: Final = {
    "MAX_TOKENS": "truncated",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"), "content_filter"
    ),
}
_SEARCH: Final = "google_search"
# What a candidate's pieces are put together by.
_JOINED: Final = ("content", "index", "role", "parts")


def recognise(document: Document) -> bool:
    first = document.values[0]
    if not document.many and isinstance(first, list) and first:
        return _is_own(first[0]) or _are_contents(first) or _is_stream(first)
    if document.many and (_are_contents(list(document.values)) or _is_stream(list(document.values))):
        return True
    return _is_own(first)


def read(document: Document) -> Iterator[Conversation]:
    rows = list(rows_of(document))
    if (document.many or isinstance(document.values[0], list)) and _is_stream(rows):
        yield _conversation({"request": {}, "response": rows}, "")
        return
    if not _is_own(rows[0]):
        yield _conversation({"contents": rows}, "")
        return
    for where, row in alike(document, rows, _is_own, "Gemini request or response"):
        yield _conversation(row, where)


def _is_own(value: Any) -> bool:
    """A request, a pair, or a response alone, that says by itself that it is Gemini's."""
    if not isinstance(value, dict):
        return False
    exchange = row_exchange(value, _is_response)
    if _is_response(exchange.response) or _is_stream(exchange.response):
        return isinstance(exchange.request, dict | list)
    request = exchange.request
    return isinstance(request, dict) and "messages" not in request and _are_contents(request.get("contents"))


def _are_contents(value: Any) -> bool:
    """Contents: each has parts, until the first part that only this format has."""
    for content in listed(value):
        if isinstance(content, str):
            continue
        if not isinstance(content, dict) or not isinstance(content.get("parts"), list | dict):
            return False
        if "type" in content or "id" in content:
            return False
        for part in listed(content["parts"]):
            if isinstance(part, dict) and "type" not in part and not PART_KEYS.isdisjoint(part):
                return True
            if not isinstance(part, str):
                return False
    return False


def _is_response(value: Any) -> bool:
    if not isinstance(value, dict) or "choices" in value:
        return False
    candidates = value.get("candidates")
    if isinstance(candidates, list) and candidates:
        return isinstance(candidates[0], dict) and (
            isinstance(candidates[0].get("content"), dict) or "finishReason" in candidates[0]
        )
    return isinstance(value.get("promptFeedback", value.get("prompt_feedback")), dict)


def _is_stream(value: Any) -> bool:
    """Chunks of one response; those of several, told by their ids, are rows."""
    if not (isinstance(value, list) and value and _is_response(value[0])):
        return False
    return len({as_text(chunk.get("responseId")) for chunk in value if isinstance(chunk, dict)}) == 1


def _conversation(row: dict[str, Any], where: str) -> Conversation:
    exchange = row_exchange(row, _is_response)
    request = {"contents": exchange.request} if isinstance(exchange.request, list) else exchange.request
    build = ConversationBuilder(NAME, id=_id(row, exchange.response))
    _system(build, request)
    for index, content in enumerate(listed(request.get("contents")), 1):
        if isinstance(content, str):
            build.message("user", content)
        elif isinstance(content, dict) and "parts" in content:
            add_content(build, content.get("role") or "user", content["parts"])
        else:
            raise unlike_others(index, "contents is no Gemini content: it has no parts", where)
    _response(build, exchange.response)
    # An empty status is none.
    tell_outcome(build, {**row, "status": row.get("status") or None}, exchange.error)
    return build.build()


def _id(row: dict[str, Any], response: Any) -> Any:
    for key in ("conversation_id", "session_id", "id"):
        if row.get(key) is not None:
            return row[key]
    first = response[0] if isinstance(response, list) and response else response
    return first.get("responseId", first.get("response_id")) if isinstance(first, dict) else None


def _system(build: ConversationBuilder, request: dict[str, Any]) -> None:
    config = request.get("config")
    for holder in (request, config if isinstance(config, dict) else {}):
        given = holder.get("systemInstruction", holder.get("system_instruction"))
        if given:
            add_content(build, "system", given.get("parts") if isinstance(given, dict) else given)
        if holder.get("cachedContent", holder.get("cached_content")):
            build.missing("cached content is only referred to")


def _response(build: ConversationBuilder, response: Any) -> None:
    if _is_stream(response):
        response = _joined(response)
    if response is None or (isinstance(response, dict) and "error" in response):
        return
    if not _is_response(response):
        told = ", ".join(list(response)[:8]) if isinstance(response, dict) else as_text(response)[:200]
        build.warn("response_unreadable", f"the response holds no candidate: {told}")
        return
    for index, candidate in enumerate(listed(response.get("candidates"))):
        if isinstance(candidate, dict):
            _candidate(build, candidate, index)
        else:
            build.warn("response_unreadable", f"candidate {index + 1} of the response is no object")
    feedback = response.get("promptFeedback", response.get("prompt_feedback"))
    reason = feedback.get("blockReason", feedback.get("block_reason")) if isinstance(feedback, dict) else None
    if reason:
        build.message("assistant", [build.mark("content_filter", reason)])


def _candidate(build: ConversationBuilder, candidate: dict[str, Any], index: int) -> None:
    name = None
    if index:
        build.warn(
            "alternative",
            f"candidate {index + 1} is an alternative to the first",
            entry=build.next_number,
        )
        name = f"candidate {index + 1}"
    _searched(build, candidate.get("groundingMetadata", candidate.get("grounding_metadata")))
    content = candidate.get("content")
    content = content if isinstance(content, dict) else {}
    reason = as_text(candidate.get("finishReason", candidate.get("finish_reason")))
    mark = None if reason in _ENDED_WELL else _MARKS.get(reason, reason.lower())
    add_content(build, content.get("role") or "model", content.get("parts"), name=name, mark=mark)


def _searched(build: ConversationBuilder, grounding: Any) -> None:
    """A search that the service made for the answer: a call, and the pages that it found."""
    if not isinstance(grounding, dict):
        return
    queries = grounding.get("webSearchQueries", grounding.get("web_search_queries"))
    if not isinstance(queries, list) or not queries:
        return
    call = build.tool_call(_SEARCH, {"queries": queries})
    pages = []
    for chunk in listed(grounding.get("groundingChunks", grounding.get("grounding_chunks"))):
        found = chunk.get("web", chunk.get("retrievedContext", chunk)) if isinstance(chunk, dict) else chunk
        told = (
            " ".join(as_text(found.get(key)) for key in ("title", "uri", "text") if found.get(key))
            if isinstance(found, dict)
            else as_text(found)
        )
        pages.append(Text(text=told))
    build.tool_result(pages, call=call)


def _joined(chunks: list[Any]) -> dict[str, Any]:
    """The response that the chunks of a stream add up to: parts one after another, texts of a kind joined."""
    candidates: dict[int, dict[str, Any]] = {}
    whole: dict[str, Any] = {}
    for chunk in chunks:
        if not isinstance(chunk, dict):
            continue
        whole.update({key: value for key, value in chunk.items() if key != "candidates"})
        for position, piece in enumerate(listed(chunk.get("candidates"))):
            if isinstance(piece, dict):
                index = piece.get("index")
                held = candidates.setdefault(index if isinstance(index, int) else position, {"parts": []})
                held.update({key: value for key, value in piece.items() if key not in _JOINED})
                content = piece.get("content")
                if isinstance(content, dict):
                    held["role"] = content.get("role") or held.get("role")
                    held["parts"].extend(listed(content.get("parts")))
    return {**whole, "candidates": [_whole(candidates[index]) for index in sorted(candidates)]}


def _whole(held: dict[str, Any]) -> dict[str, Any]:
    runs: list[tuple[bool, list[str]] | Any] = []
    for part in held["parts"]:
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            runs.append(part)
            continue
        thought = part.get("thought") is True
        if not (runs and isinstance(runs[-1], tuple) and runs[-1][0] == thought):
            if not text:
                continue
            runs.append((thought, []))
        runs[-1][1].append(text)
    parts = [{"text": "".join(run[1]), "thought": run[0]} if isinstance(run, tuple) else run for run in runs]
    return {**held, "content": {"role": held.get("role"), "parts": parts}}

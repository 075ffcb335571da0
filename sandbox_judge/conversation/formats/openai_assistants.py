"""OpenAI Assistants: messages, runs and run steps of a thread, however they were kept: lists as the API gives
them, one object with `messages`, `runs` and `steps`, JSON Lines, the events of a streamed run.

They are put in the order of their times; a step says which message it made, or which tools were called with
what result. Shapes: platform.openai.com/docs/api-reference/messages, runs, run-steps, assistants-streaming.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sandbox_judge.conversation.assistants_objects import Objects, holds_thread, time_of
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation, Part, Refusal, Text, Unknown
from sandbox_judge.conversation.parts import as_text, error_told, listed, media

NAME: Final = "openai_assistants"

_LOOKED_AT: Final = 50
_FIRST, _RUN, _STEP, _CALLED, _LAST = range(5)
_NOT_RECORDED: Final = Unknown(label="not_recorded", text="the provider ran this and did not give its result")


def recognise(document: Document) -> bool:
    return any(holds_thread(value) for value in document.values[:_LOOKED_AT])


def read(document: Document) -> Iterator[Conversation]:
    objects = Objects()
    for value in document.values:
        objects.take(value)
    threads = objects.threads()
    if len(threads) > 1:
        yield from (_Thread(objects, thread).conversation() for thread in threads)
    else:
        yield _Thread(objects, threads[0] if threads else None).conversation()


class _Thread:
    """One thread on its way into a conversation."""

    def __init__(self, objects: Objects, thread: str | None) -> None:
        self.objects = objects
        self.build = ConversationBuilder(NAME, id=thread)
        self.messages = list(objects.of("thread.message", thread))
        self.runs = list(objects.of("thread.run", thread))
        self.steps = list(objects.of("thread.run.step", thread))
        self.assistants = list(objects.of("assistant", None))
        self.by_id = {m["id"]: m for m in self.messages if isinstance(m.get("id"), str)}
        self.told: Any = None
        self.marked: set[str] = set()

    def conversation(self) -> Conversation:
        build = self.build
        if self.objects.more:
            build.missing("a list says that there are more objects than were given")
        if self.objects.strange:
            build.warn("row_unreadable", f"{self.objects.strange} values are no objects and were left out")
        first = next(
            (o["instructions"] for o in [*self.runs, *self.assistants] if o.get("instructions")), None
        )
        self._instructions(first)
        for kind, value in self._in_order():
            if kind == "run":
                self._instructions(value.get("instructions"), value.get("created_at"))
            elif kind == "step":
                self._step(value)
            elif kind == "asked":
                self._call(value, {})
            else:
                self._message(value)
        self._ending()
        for item in self.objects.feedback:
            build.feedback(item)
        return build.build()

    def _in_order(self) -> list[tuple[str, dict[str, Any]]]:
        """(kind, object) by time; at one time a question stands before its run, that before its answer."""
        placed = {made for step in self.steps if (made := _made(step)) is not None}
        known = {as_text(call.get("id")) for step in self.steps for call in _calls(step)}
        rows: list[tuple[float, int, str, dict[str, Any]]] = []
        for message in self.messages:
            if as_text(message.get("id")) not in placed:
                rank = _LAST if message.get("role") == "assistant" else _FIRST
                rows.append((_time(message, rows), rank, "message", message))
        rows.extend((_time(run, rows), _RUN, "run", run) for run in self.runs)
        rows.extend((_time(step, rows), _STEP, "step", step) for step in self.steps)
        for run in self.runs:
            asked = [call for call in _required(run) if as_text(call.get("id")) not in known]
            rows.extend((_time(run, rows), _CALLED, "asked", call) for call in asked)
        rows.sort(key=lambda row: row[:2])
        return [(kind, value) for _, _, kind, value in rows]

    def _instructions(self, given: Any, time: Any = None) -> None:
        if given and given != self.told:
            self.build.message("system", as_text(given), time=time)
            self.told = given

    def _message(self, message: dict[str, Any]) -> None:
        build, content = self.build, message.get("content")
        parts: list[Part] = []
        if not content and (pieces := self.objects.pieces.get(as_text(message.get("id")))):
            parts.extend(Text(text="".join(pieces[index])) for index in sorted(pieces))
        for block in listed(content):
            parts.extend(_block(build, block))
        for attached in listed(message.get("attachments")):
            parts.append(media("file", name=attached.get("file_id") if isinstance(attached, dict) else None))
        details = message.get("incomplete_details")
        if message.get("status") == "incomplete" or isinstance(details, dict):
            self.marked.add(as_text(message.get("run_id")))
            parts.append(build.mark(_mark(details)))
        elif message.get("status") == "in_progress":
            parts.append(build.mark("interrupted"))
        build.message(message.get("role"), parts, time=message.get("created_at"))

    def _step(self, step: dict[str, Any]) -> None:
        made = _made(step)
        if made is not None:
            if made in self.by_id:
                self._message(self.by_id[made])
            else:
                self.build.missing(f"the message {as_text(made)[:100]!r} of a step is only referred to")
            return
        for call in _calls(step):
            self._call(call, step)

    def _call(self, call: dict[str, Any], step: dict[str, Any]) -> None:
        build, id, time = self.build, call.get("id"), step.get("created_at")
        kind = as_text(call.get("type")) or "function"
        held = call.get(kind)
        held = held if isinstance(held, dict) else {}
        name = held.get("name") if kind == "function" else kind
        number = build.tool_call(name, _asked(kind, held), id=id, time=time)
        parts = list(_results(build, kind, held))
        if not parts and isinstance(id, str) and (given := self.objects.outputs.get(id)) is not None:
            parts = [Text(text=as_text(given))]
        status, error = step.get("status"), step.get("last_error")
        if not parts and error is not None:
            parts = [Text(text=as_text(error_told(error)))]
        if not parts and status in ("cancelled", "expired"):
            parts = [build.mark(status)]
        if not parts and status == "completed":
            parts = [_NOT_RECORDED]
        if parts:
            bad = status in ("failed", "cancelled", "expired")
            build.tool_result(parts, id=id, call=number, error=bad, time=step.get("completed_at", time))

    def _ending(self) -> None:
        """How the last run ended; an earlier one that went wrong is told in a warning."""
        runs = sorted(self.runs, key=lambda run: time_of(run) or 0)
        for run in runs[:-1]:
            if (status := run.get("status")) in ("failed", "cancelled", "expired", "incomplete"):
                self.build.warn("run_ended", f"an earlier run ended as {status}")
        if not runs:
            return
        last, status = runs[-1], runs[-1].get("status")
        if status == "incomplete" and as_text(last.get("id")) not in self.marked:
            self.build.message("assistant", [self.build.mark(_mark(last.get("incomplete_details")))])
        elif status in ("failed", "expired"):
            told = error_told(last.get("last_error"))
            self.build.failed(told if told is not None else status)
        elif status in ("cancelled", "cancelling"):
            self.build.cancelled()


def _time(value: dict[str, Any], rows: list[tuple[float, int, str, dict[str, Any]]]) -> float:
    """The object's time; one without a time follows the one before it."""
    made = time_of(value)
    return made if made is not None else rows[-1][0] if rows else float("-inf")


def _mark(details: Any) -> str:
    reason = details.get("reason") if isinstance(details, dict) else None
    return "content_filter" if reason == "content_filter" else "truncated"


def _made(step: dict[str, Any]) -> str | None:
    """The id of the message that a step made, or None."""
    details = step.get("step_details")
    made = details.get("message_creation") if isinstance(details, dict) else None
    id = made.get("message_id") if isinstance(made, dict) else None
    return id if isinstance(id, str) else None


def _calls(step: dict[str, Any]) -> list[dict[str, Any]]:
    details = step.get("step_details")
    calls = details.get("tool_calls") if isinstance(details, dict) else None
    return [call for call in listed(calls) if isinstance(call, dict)]


def _required(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls that a run waits for."""
    action = run.get("required_action")
    asked = action.get("submit_tool_outputs") if isinstance(action, dict) else None
    calls = asked.get("tool_calls") if isinstance(asked, dict) else None
    return [call for call in listed(calls) if isinstance(call, dict)]


def _asked(kind: str, held: dict[str, Any]) -> Any:
    if kind == "code_interpreter":
        return {"code": held.get("input")}
    return held.get("arguments")


def _results(build: ConversationBuilder, kind: str, held: dict[str, Any]) -> Iterator[Part]:
    if held.get("output") is not None:
        yield Text(text=as_text(held["output"]))
    for output in listed(held.get("outputs")):
        image = output.get("image") if isinstance(output, dict) else None
        if isinstance(image, dict):
            yield media("image", name=image.get("file_id"))
        elif isinstance(output, dict) and "logs" in output:
            yield Text(text=as_text(output["logs"]))
        else:
            yield build.unknown("output", output)
    for result in listed(held.get("results")):
        if isinstance(result, dict):
            texts = [b.get("text") if isinstance(b, dict) else b for b in listed(result.get("content"))]
            named = result.get("file_name") or result.get("file_id")
            yield Text(text="\n".join(as_text(text) for text in (named, *texts) if text))
        else:
            yield Text(text=as_text(result))


def _block(build: ConversationBuilder, block: Any) -> Iterable[Part]:
    if isinstance(block, str):
        return (Text(text=block),)
    if not isinstance(block, dict):
        return () if block is None else (build.unknown("part", block),)
    kind = block.get("type")
    held = block.get(kind) if isinstance(kind, str) else None
    if kind == "text":
        value = held.get("value") if isinstance(held, dict) else held
        return (Text(text=as_text(value)),) if value is not None else ()
    if kind == "refusal":
        return (Refusal(text=as_text(held)),)
    if kind == "image_file" and isinstance(held, dict):
        return (media("image", name=held.get("file_id")),)
    if kind == "image_url":
        return (media("image", url=held.get("url") if isinstance(held, dict) else held),)
    return (build.unknown(kind, block),)

"""Inspect: eval logs (JSON, or the `.eval` archive that `inspect_archive` opens) and their samples.

A log holds many conversations, one a sample and epoch. Scores are a scorer's word about the conversation, not
a part of it, and are left out. Shapes: github.com/UKGovernmentBEIS/inspect_ai, `log/_log.py`.
"""

from collections.abc import Iterator
from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.inspect_messages import Attachments, add_message
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.parts import as_text, error_told
from sandbox_judge.conversation.rows import alike, rows_of
from sandbox_judge.errors import InputError

NAME: Final = "inspect_ai"

_MARKS: Final = {"max_tokens": "truncated", "model_length": "truncated", "content_filter": "content_filter"}
_SHOWN: Final = 5
# How Inspect writes the end of a sample whose run was stopped.
_CANCELLED: Final = "CancelledError"


def recognise(document: Document) -> bool:
    first = document.values[0]
    if not document.many and isinstance(first, list):
        return bool(first) and _is_sample(first[0])
    return _is_own(first)


def read(document: Document) -> Iterator[Conversation]:
    attachments = Attachments()
    for _, row in alike(document, rows_of(document), _is_own, "Inspect sample"):
        if _is_log(row):
            yield from _log(row, attachments)
        else:
            yield _sample(row, "", attachments)


def _is_own(value: Any) -> bool:
    return _is_log(value) or _is_sample(value)


def _is_log(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("eval"), dict)
        and "status" in value
        and any(key in value["eval"] for key in ("task", "run_id", "eval_id", "created", "model"))
    )


def _is_sample(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "epoch" in value
        and "id" in value
        and ("input" in value or isinstance(value.get("messages"), list))
        and any(key in value for key in ("target", "output", "scores", "messages"))
    )


def _log(log: dict[str, Any], attachments: Attachments) -> Iterator[Conversation]:
    samples = log.get("samples")
    if not isinstance(samples, list) or not samples:
        raise InputError(
            "The Inspect log holds no samples: it is the header of one, or its run ended before the first.",
            remedy="Give the whole log (`inspect log dump`), or the .eval file.",
        )
    run = next((log["eval"][k] for k in ("run_id", "eval_id") if isinstance(log["eval"].get(k), str)), "")
    for number, sample in enumerate(samples, 1):
        if not isinstance(sample, dict):
            raise InputError(f"Sample {number} of the log is no object.", where=f"sample {number}")
        yield _sample(sample, run, attachments)


def _sample(sample: dict[str, Any], run: str, attachments: Attachments) -> Conversation:
    """One sample. Its id is Inspect's own unique one; where a log has none, run, sample and epoch."""
    name = "/".join(
        as_text(part) for part in (run or None, sample.get("id"), sample.get("epoch")) if part is not None
    )
    build = ConversationBuilder(NAME, id=sample.get("uuid") or name)
    transcript = sample.get("transcript")
    attachments.of_sample(
        sample.get("attachments"), transcript.get("content") if isinstance(transcript, dict) else None
    )
    messages = attachments.resolved(_messages(sample))
    last = next((n for n in range(len(messages) - 1, -1, -1) if _role(messages[n]) == "assistant"), None)
    mark = _MARKS.get(as_text(_choice(sample).get("stop_reason")))
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise InputError(
                f"Message {number + 1} of sample {as_text(sample.get('id'))[:100]!r} is no object.",
                where=f"message {number + 1}",
            )
        add_message(build, message, mark=mark if number == last else None)
    if attachments.absent:
        names = ", ".join(list(attachments.absent)[:_SHOWN])
        build.missing(f"{len(attachments.absent)} attachments were not given: {names}")
    _outcome(build, sample)
    return build.build()


def _messages(sample: dict[str, Any]) -> list[Any]:
    """The sample's messages; of a sample that never got any, its input; with the answer of a model whose
    solver did not add it."""
    given = sample.get("messages")
    messages = list(given) if isinstance(given, list) else []
    if not messages:
        told = sample.get("input")
        if isinstance(told, list):
            messages = list(told)
        elif told is not None:
            messages = [{"role": "user", "content": told}]
    answer = _choice(sample).get("message")
    if isinstance(answer, dict) and not any(_role(message) == "assistant" for message in messages):
        messages.append({"role": "assistant", **answer})
    return messages


def _choice(sample: dict[str, Any]) -> dict[str, Any]:
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _outcome(build: ConversationBuilder, sample: dict[str, Any]) -> None:
    """How the sample ended: an error, or a limit that stopped it."""
    error, limit = sample.get("error"), sample.get("limit")
    if error:
        told = as_text(error_told(error))
        if told.startswith(_CANCELLED):
            build.cancelled(told)
        else:
            build.failed(told)
    elif limit:
        kind = limit.get("type") if isinstance(limit, dict) else limit
        build.cancelled(f"stopped at the limit of {as_text(kind)}")

"""OpenInference spans: `llm.input_messages` and its kin, numbered (`llm.input_messages.0.message.role`) or
nested, in any of the exports that OpenTelemetry's spans come in, and Phoenix's rows."""

from collections.abc import Iterator
from typing import Final

from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.span_records import records_of, speaks
from sandbox_judge.conversation.span_tree import conversations, spans_of

NAME: Final = "openinference"


def recognise(document: Document) -> bool:
    return speaks(document) == "openinference"


def read(document: Document) -> Iterator[Conversation]:
    yield from conversations(spans_of(records_of(document)), NAME)

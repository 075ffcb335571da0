"""OpenTelemetry GenAI spans: current and older attributes and events, as OTLP JSON, the SDKs' JSON, or bare
attributes; one call or the span trees of many."""

from collections.abc import Iterator
from typing import Final

from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.span_records import records_of, speaks
from sandbox_judge.conversation.span_tree import conversations, spans_of

NAME: Final = "otel_genai"


def recognise(document: Document) -> bool:
    return speaks(document) in ("gen_ai", "otel")


def read(document: Document) -> Iterator[Conversation]:
    yield from conversations(spans_of(records_of(document)), NAME)

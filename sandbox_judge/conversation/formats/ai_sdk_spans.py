"""Spans of the AI SDK's telemetry (`ai.generateText`, `ai.streamText.doStream`, `ai.toolCall` and their kin),
versions 3 to 6."""

from collections.abc import Iterator
from typing import Final

from sandbox_judge.conversation.document import Document
from sandbox_judge.conversation.model import Conversation
from sandbox_judge.conversation.span_records import records_of, speaks
from sandbox_judge.conversation.span_tree import conversations, spans_of

NAME: Final = "ai_sdk_spans"


def recognise(document: Document) -> bool:
    return speaks(document) == "ai_sdk"


def read(document: Document) -> Iterator[Conversation]:
    yield from conversations(spans_of(records_of(document)), NAME)

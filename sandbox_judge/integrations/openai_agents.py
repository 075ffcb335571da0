"""OpenAI Agents SDK: a trace processor. `agents.add_trace_processor(JudgeProcessor(recipe=...))`.

Each model call of a run holds all that was said before it, so the last one holds the conversation. Written
against openai-agents 0.24.
"""

from typing import Any

from agents.tracing import TracingProcessor  # type: ignore[import-not-found, unused-ignore]

from sandbox_judge.integrations.handing import Handing, quiet


class JudgeProcessor(TracingProcessor):  # type: ignore[misc, unused-ignore]
    """Hands each finished trace to the judges of a recipe; arguments are those of `Handing`."""

    def __init__(self, **options: Any) -> None:
        self._handing = Handing(**options)
        self._last: dict[str, tuple[Any, Any]] = {}
        self._failed: set[str] = set()

    def on_trace_start(self, trace: Any) -> None:
        return

    def on_span_start(self, span: Any) -> None:
        return

    @quiet
    def on_span_end(self, span: Any) -> None:
        kind = getattr(span.span_data, "type", None)
        if kind in ("response", "generation"):
            self._last[span.trace_id] = _said(span.span_data)
        if kind == "agent" and span.error is not None:
            self._failed.add(span.trace_id)

    @quiet
    def on_trace_end(self, trace: Any) -> None:
        said = self._last.pop(trace.trace_id, None)
        failed = trace.trace_id in self._failed
        self._failed.discard(trace.trace_id)
        if said is not None:
            group = getattr(trace, "group_id", None)  # one conversation over several runs
            self._handing.hand(
                group or trace.trace_id, lambda: _document(*said), status="failed" if failed else ""
            )

    def shutdown(self) -> None:
        self._handing.flush()

    def force_flush(self) -> None:
        self._handing.flush()


def _said(data: Any) -> tuple[Any, Any]:
    """What one call was asked and what it said; lists are copied, for the run goes on with its own."""
    asked = data.input if isinstance(data.input, str) else list(data.input or ())
    return (asked, data.response) if data.type == "response" else (asked, list(data.output or ()))


def _document(asked: Any, said: Any) -> Any:
    """The call as chat messages, or as a request with its response."""
    if isinstance(said, list):
        return [_plain(message) for message in (*asked, *said)]
    given = asked if isinstance(asked, str) else [_plain(item) for item in asked]
    return {"request": {"input": given}, "response": _plain(said)}


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value

"""Judgements to an OpenTelemetry collector, by OpenTelemetry's own SDK and exporter (the extra `otlp`).

`otlp:URL`, where URL is the logs endpoint (`http://127.0.0.1:4318/v1/logs`); headers (a token, say) come from
OTEL_EXPORTER_OTLP_HEADERS, which the exporter reads itself. One log record a judgement; the ledger has no
place in the conventions and is not sent.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.errors import DeliveryError, MissingExtra, SettingsError
from sandbox_judge.lanes.threads import in_daemon_thread
from sandbox_judge.sinks.base import Line, Taken
from sandbox_judge.sinks.otlp_event import EVENT_NAME, OtlpEvent, otlp_event
from sandbox_judge.version import __version__

try:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExportResult
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
except ImportError as error:
    raise MissingExtra(
        "the otlp: sink is an optional install, which is not there.",
        where="--sink",
        remedy="Install it: pip install 'sandbox-judge[otlp]'.",
    ) from error

_REQUEST_S: Final = 10.0
_SCOPE: Final = InstrumentationScope("sandbox_judge", __version__)


class OtlpSink:
    """`address` as the user wrote it. Raises SettingsError for one that is no http(s) URL."""

    spooled = True
    takes_ledger = False

    def __init__(self, address: str) -> None:
        url = address.partition(":")[2]
        scheme, separator, rest = url.partition("://")
        if scheme not in ("http", "https") or not separator or not rest or "@" in rest.partition("/")[0]:
            raise SettingsError(
                "is no address of an OTLP logs endpoint.",
                where="otlp:",
                remedy="Write otlp:http://HOST:4318/v1/logs; headers come from OTEL_EXPORTER_OTLP_HEADERS.",
            )
        self.name = f"otlp:{url}"
        self._url = url
        self._exporter: OTLPLogExporter | None = None

    async def send(self, lines: Sequence[Line], *, deadline: float, taken: Taken) -> None:
        left = min(_REQUEST_S, deadline - anyio.current_time())
        if left <= 0:
            raise DeliveryError("no time was left.", where=self.name)
        events = [otlp_event(msgspec.json.decode(line.data)) for line in lines]
        with anyio.CancelScope(deadline=deadline) as scope:
            ok = await in_daemon_thread(lambda: self._export(events, left), name="otlp export")
        if scope.cancelled_caught:
            raise DeliveryError("no answer before the deadline.", where=self.name)
        if not ok:
            raise DeliveryError("the collector did not take what was sent.", where=self.name)
        for line in lines:
            taken(line.event_id)

    async def finish(self, *, deadline: float, taken: Taken) -> None:
        """Every request was settled by its answer."""

    async def aclose(self) -> None:
        # `shutdown` may wait for a request in flight: that is left to the thread that makes it.
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            threading.Thread(target=exporter.shutdown, daemon=True).start()

    def _export(self, events: Sequence[OtlpEvent], timeout_s: float) -> bool:
        if self._exporter is None:
            # What it has to say of a failure is said by the delivery, once.
            logging.getLogger("opentelemetry.exporter.otlp.proto.http").setLevel(logging.CRITICAL)
            self._exporter = OTLPLogExporter(endpoint=self._url, timeout=timeout_s)
        result = self._exporter.export([_record(event) for event in events])
        return bool(result is LogRecordExportResult.SUCCESS)


def _parent(event: OtlpEvent) -> Context:
    """The agent's span, which the judgement is parented on where its ids were given."""
    span = SpanContext(
        event.trace_id, event.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
    return set_span_in_context(NonRecordingSpan(span), Context()) if event.trace_id else Context()


def _record(event: OtlpEvent) -> ReadableLogRecord:
    resource: dict[str, Any] = {} if event.service_name is None else {"service.name": event.service_name}
    return ReadableLogRecord(
        log_record=LogRecord(
            timestamp=event.timestamp_ns,
            observed_timestamp=event.timestamp_ns,
            context=_parent(event),
            severity_number=SeverityNumber.INFO,
            severity_text="INFO",
            attributes=event.attributes,
            event_name=EVENT_NAME,
        ),
        resource=Resource(resource),
        instrumentation_scope=_SCOPE,
    )

"""The otlp: sink against a receiver that decodes what really came over the wire."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import anyio
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.base import Line
from sandbox_judge.sinks.otlp import OtlpSink
from sandbox_judge.sinks.otlp_event import otlp_event

pytestmark = pytest.mark.anyio

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def judgement(result="fail", **more):
    payload = {
        "judge_name": "tone",
        "judge_id": "j-1",
        "judgement_id": "m-1",
        "result": result,
        "reasoning": "because",
        "definition_hash": "sha256:0",
        "sampling": {"rate": 0.5},
        **({} if result else {"error": {"type": "timeout", "message": "late", "retryable": True}}),
    }
    return {
        "id": "e-1",
        "timestamp": "2026-11-30T21:00:00.123456Z",
        "event_name": "introspection.judgement",
        "conversation_id": "c-1",
        "service_name": "shop",
        "trace_id": TRACE,
        "span_id": SPAN,
        "payload": payload,
        **more,
    }


class Receiver:
    """OTLP over HTTP, one request after another; `status` is what it answers."""

    def __init__(self):
        self.status = 200
        self.requests = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, ExportLogsServiceRequest.FromString(body)))
                self.send_response(receiver.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportLogsServiceResponse().SerializeToString())

            def log_message(self, *_): ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/logs"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


def value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


async def sent(sink, *events, within=5):
    taken = []
    lines = [Line(event["id"], json.dumps(event).encode()) for event in events]
    await sink.send(lines, deadline=anyio.current_time() + within, taken=taken.append)
    await sink.finish(deadline=anyio.current_time() + within, taken=taken.append)
    return taken


async def test_one_record_a_judgement_under_the_agents_span(receiver):
    sink = OtlpSink(f"otlp:{receiver.url}")
    assert await sent(sink, judgement(), judgement(None, id="e-2")) == ["e-1", "e-2"]
    await sink.aclose()
    ((path, request),) = receiver.requests
    assert path == "/v1/logs"
    records = [r for group in request.resource_logs for scope in group.scope_logs for r in scope.log_records]
    verdict, null = sorted(records, key=lambda r: "error.type" in {a.key for a in r.attributes})
    attributes = {a.key: value(a.value) for a in verdict.attributes}
    assert verdict.event_name == "gen_ai.evaluation.result"
    assert attributes["gen_ai.evaluation.name"] == "tone"
    assert attributes["gen_ai.evaluation.score.label"] == "fail"
    assert attributes["gen_ai.evaluation.explanation"] == "because"
    assert attributes["gen_ai.conversation.id"] == "c-1"
    assert attributes["introspection.judge.id"] == "j-1"
    assert attributes["introspection.judgement.id"] == "m-1"
    assert verdict.trace_id.hex() == TRACE
    assert verdict.span_id.hex() == SPAN
    assert verdict.time_unix_nano == 1_796_072_400_123_456_000
    errors = {a.key: value(a.value) for a in null.attributes}
    assert errors["error.type"] == "timeout"
    assert "gen_ai.evaluation.score.label" not in errors
    resources = {a.key: value(a.value) for g in request.resource_logs for a in g.resource.attributes}
    assert resources["service.name"] == "shop"


async def test_what_is_refused_stays_ours(receiver):
    receiver.status = 400
    sink = OtlpSink(f"otlp:{receiver.url}")
    with pytest.raises(DeliveryError):
        await sent(sink, judgement())
    await sink.aclose()


async def test_nobody_there_is_over_by_the_deadline():
    sink = OtlpSink("otlp:http://127.0.0.1:9/v1/logs")
    began = anyio.current_time()
    with pytest.raises(DeliveryError):
        await sent(sink, judgement(), within=0.4)
    assert anyio.current_time() - began < 2
    await sink.aclose()


def test_ids_that_are_none_are_kept_as_attributes():
    event = otlp_event(judgement(trace_id="not hex", span_id=SPAN, timestamp="never"))
    assert (event.trace_id, event.span_id, event.timestamp_ns) == (0, 0, 0)
    assert event.attributes["introspection.trace_id"] == "not hex"

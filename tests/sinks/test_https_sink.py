"""NDJSON over real HTTP: what is taken, what may pass, what is refused, and where no secret goes."""

import json

import anyio
import pytest

from sandbox_judge.errors import DeliveryError
from sandbox_judge.sinks.base import SinkRefused
from sandbox_judge.sinks.delivery import delivering
from sandbox_judge.sinks.https import HttpsSink
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.testing import answers
from sandbox_judge.testing.model_server import ModelServer

pytestmark = pytest.mark.anyio

TOKEN = "canary-token-0123456789"


def address(server):
    return server.base_url.rstrip("/") + "/ingest#token_env=COLLECTOR_TOKEN"


def sink_to(server):
    return HttpsSink(address(server), environ={"COLLECTOR_TOKEN": TOKEN})


async def sent(sink, *lines, seconds=5.0):
    taken = []
    try:
        await sink.send(lines, deadline=anyio.current_time() + seconds, taken=taken.append)
    except DeliveryError as error:
        return taken, error
    finally:
        await sink.aclose()
    return taken, None


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_one_post_for_several_lines(event, status):
    with ModelServer(answers.raw(b"", status=status)) as server:
        assert await sent(sink_to(server), event(1), event(2)) == (["1", "2"], None)
    (request,) = server.requests
    assert request.method == "POST"
    assert request.target.endswith("/ingest")
    assert request.headers["content-type"] == "application/x-ndjson"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.body == event(1).data + b"\n" + event(2).data + b"\n"


@pytest.mark.parametrize("status", [401, 403, 404, 410, 422])
async def test_a_refusal_carries_the_answer_but_never_the_token(event, status):
    with ModelServer(answers.raw(f"no: {TOKEN}\n\nbad".encode(), status=status)) as server:
        taken, error = await sent(sink_to(server), event(1))
    assert taken == []
    assert isinstance(error, SinkRefused)
    assert f"the collector answered {status}: no:" in error.message
    assert TOKEN not in error.paragraph()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_what_may_pass_is_no_refusal(event, status):
    with ModelServer(answers.raw(b"", status=status)) as server:
        taken, error = await sent(sink_to(server), event(1))
    assert taken == []
    assert type(error) is DeliveryError


async def test_a_redirect_elsewhere_is_refused_and_the_token_stays(event):
    with ModelServer(answers.raw(b"")) as other, ModelServer(answers.redirect(other.base_url)) as server:
        taken, error = await sent(sink_to(server), event(1))
    assert isinstance(error, SinkRefused)
    assert taken == []
    assert other.requests == []


async def test_one_bad_line_does_not_hold_up_the_rest_of_its_batch(event):
    def picky(line):
        bad = b'"id":"2"' in line.request.body
        answers.raw(b"line 2", status=422 if bad else 200)(line)

    with ModelServer(picky) as server:
        taken, error = await sent(sink_to(server), event(1), event(2), event(3))
    assert taken == ["1", "3"]
    assert isinstance(error, SinkRefused)


async def test_silence_costs_the_deadline_and_no_more(event):
    with ModelServer(answers.hang) as server, anyio.fail_after(2):
        taken, error = await sent(sink_to(server), event(1), seconds=0.2)
    assert taken == []
    assert type(error) is DeliveryError


async def test_no_collector(event):
    with ModelServer(answers.raw(b"")) as server:
        gone = sink_to(server)
    taken, error = await sent(gone, event(1))
    assert taken == []
    assert type(error) is DeliveryError


async def test_a_run_over_http_keeps_what_is_refused_and_no_secret_anywhere(event, tmp_path):
    def picky(line):
        bad = b'"id":"1"' in line.request.body
        answers.raw(f"token {TOKEN} may not".encode(), status=400 if bad else 200)(line)

    spool = Spool(tmp_path)
    with ModelServer(picky) as server:
        async with delivering([sink_to(server)], spool=spool, deadline=anyio.current_time() + 5) as delivery:
            await delivery.deliver_many([event(number) for number in range(4)])
            report = await delivery.finish()
    assert (report.delivered, report.spooled) == (3, 1)
    (file,) = tmp_path.iterdir()
    records = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert any(record.get("refused") and "answered 400" in record["why"] for record in records)
    assert TOKEN.encode() not in file.read_bytes()
    assert TOKEN not in "".join(report.messages)
    spool.close()

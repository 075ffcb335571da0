"""The Python call, on both event loops: the same judgements, and nothing left behind in the host."""

import json
import logging
import os
import signal
import threading

import anyio
import pytest
from recipes import committed, judge_text

import sandbox_judge
from sandbox_judge.errors import InputError, RecipeError
from sandbox_judge.settings import ProviderSettings
from sandbox_judge.sinks.base import Line
from sandbox_judge.testing.answers import hang, verdict
from sandbox_judge.testing.model_server import ModelServer
from sandbox_judge.testing.scripted import Say, ScriptedModel

pytestmark = pytest.mark.anyio

TALK = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
PASS = json.dumps({"reasoning": "because", "evidence": [], "verdict": "pass"})


class Kept:
    """A sink of a host's own."""

    name = "kept"
    spooled = False
    takes_ledger = True

    def __init__(self):
        self.lines: list[Line] = []

    async def send(self, lines, *, deadline, taken):
        for line in lines:
            self.lines.append(line)
            taken(line.event_id)

    async def finish(self, *, deadline, taken): ...

    async def aclose(self): ...


@pytest.fixture
def recipe(tmp_path):
    files = {
        "judges/a.yaml": judge_text("a"),
        "judges/b.yaml": judge_text("b"),
        "package.json": '{"name": "shop"}',
    }
    return sandbox_judge.RecipeRef(path=str(tmp_path / "r"), commit=committed(tmp_path / "r", files))


@pytest.fixture
def environ(tmp_path):
    return {
        "OPENAI_API_KEY": "sk-test-000000000000",
        "SANDBOX_JUDGE_STATE_DIR": str(tmp_path / "state"),
        "SANDBOX_JUDGE_CONFIG_DIR": str(tmp_path / "config"),
    }


def settings_for(server):
    provider = ProviderSettings(base_url=server.base_url)
    return sandbox_judge.Settings(providers={"openai": provider})


async def test_a_conversation_is_judged_and_every_sink_gets_all(recipe, environ):
    sink = Kept()
    with ModelServer(verdict("fail")) as server:
        report = await sandbox_judge.judge_conversation(
            TALK,
            recipe=recipe,
            envelope=sandbox_judge.Envelope(conversation_id="c", environment="development"),
            settings=settings_for(server),
            sinks=[sink],
            environ=environ,
        )
    assert [event["payload"]["result"] for event in report.events] == ["fail", "fail"]
    assert {event["conversation_id"] for event in report.events} == {"c"}
    assert report.ledger["counts"] == {"verdict": 2}
    assert [json.loads(line.data)["event_name"] for line in sink.lines] == [
        "introspection.judgement",
        "introspection.judgement",
        "sandbox_judge.ledger",
    ]
    assert report.delivery.exit_code == 0


async def test_without_settings_given_the_platforms_own_hold(recipe, environ, tmp_path):
    tmp_path.joinpath("settings.json").write_text(
        json.dumps({"recipes": {"*": {"judges": {"a": {"enabled": False}}}}})
    )
    report = await sandbox_judge.judge_conversation(
        TALK,
        recipe=recipe,
        environ=environ | {"SANDBOX_JUDGE_SETTINGS": str(tmp_path / "settings.json")},
        models={"openai_wire": ScriptedModel([PASS])},
    )
    assert report.ledger["counts"] == {"disabled": 1, "verdict": 1}


async def test_a_hosts_own_model_can_be_put_in(recipe, environ):
    model = ScriptedModel([PASS, PASS])
    report = await sandbox_judge.judge_conversation(
        {"messages": TALK}, recipe=recipe, environ=environ, models={"openai_wire": model}
    )
    assert len(report.events) == len(model.calls) == 2


async def test_the_deadline_is_the_whole_budget(recipe, environ):
    model = ScriptedModel(lambda _: Say(text=PASS, delay_s=30))
    began = anyio.current_time()
    report = await sandbox_judge.judge_conversation(
        TALK, recipe=recipe, environ=environ, models={"openai_wire": model}, deadline_s=0.5
    )
    assert anyio.current_time() - began < 2
    assert [event["payload"]["error"]["type"] for event in report.events] == ["timeout", "timeout"]


async def test_a_cancelled_host_still_gets_its_nulls_into_the_sinks(recipe, environ):
    sink = Kept()
    with ModelServer(hang) as server, anyio.move_on_after(1) as scope:
        await sandbox_judge.judge_conversation(
            TALK, recipe=recipe, settings=settings_for(server), sinks=[sink], environ=environ
        )
    assert scope.cancelled_caught
    errors = [json.loads(line.data)["payload"]["error"]["type"] for line in sink.lines]
    assert errors == ["cancelled", "cancelled"]


async def test_nothing_of_the_hosts_changes(recipe, environ):
    def state():
        handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        log = logging.getLogger()
        return handlers, dict(os.environ), log.level, list(log.handlers), len(os.listdir("/proc/self/fd"))

    async def once():
        await sandbox_judge.judge_conversation(
            TALK, recipe=recipe, environ=environ, models={"openai_wire": ScriptedModel([PASS, PASS])}
        )

    await once()
    before = state()
    for _ in range(3):
        await once()
    assert state() == before


async def test_many_at_once(recipe, environ):
    reports = []

    async def one(number):
        reports.append(
            await sandbox_judge.judge_conversation(
                TALK,
                recipe=recipe,
                envelope=sandbox_judge.Envelope(conversation_id=str(number)),
                environ=environ,
                models={"openai_wire": ScriptedModel([PASS, PASS])},
            )
        )

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(one, number)
    assert {report.ledger["conversation_id"] for report in reports} == set("01234")


async def test_bad_input_is_an_exception_of_ours_and_not_a_group(recipe, environ):
    with pytest.raises(InputError):
        await sandbox_judge.judge_conversation({"wombat": 1}, recipe=recipe, environ=environ)
    with pytest.raises(RecipeError):
        ref = sandbox_judge.RecipeRef(path=recipe.path, commit="0" * 40)
        await sandbox_judge.judge_conversation(TALK, recipe=ref, environ=environ)


def test_from_a_thread(recipe, environ):
    reports = []

    def work():
        async def call():
            return await sandbox_judge.judge_conversation(
                TALK, recipe=recipe, environ=environ, models={"openai_wire": ScriptedModel([PASS, PASS])}
            )

        reports.append(anyio.run(call))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert len(reports[0].events) == 2

"""The hook in order, in virtual time with a scripted model: applicable judges = verdicts + nulls, always."""

import functools
import json
from contextlib import asynccontextmanager

import anyio
import jsonschema
import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from recipes import judge_text, loaded

from sandbox_judge.admission import ModelOverride
from sandbox_judge.budget import Budget
from sandbox_judge.event_schema import event_schema, ledger_schema
from sandbox_judge.hook_input import read_input, unread_input
from sandbox_judge.lanes.base import ModelFailure
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.nulls import Invalid
from sandbox_judge.run import run_conversation
from sandbox_judge.run_ports import OwnSlots, Ports, RunOptions
from sandbox_judge.settings import LiveSettings, settings_of
from sandbox_judge.testing.scripted import Say, ScriptedModel

TALK = [
    {"role": "user", "content": "I want a refund"},
    {"role": "assistant", "content": "Done, reference 12."},
]
ENVIRON = {"OPENAI_API_KEY": "sk-test-000000000000"}


def reply(verdict="pass"):
    return json.dumps({"reasoning": "because", "evidence": [], "verdict": verdict})


class Bench:
    """A run's surroundings, and what came out of it."""

    def __init__(self, script, *, environ=ENVIRON):
        self.model = ScriptedModel(script)
        self.environ = environ
        self.delivered = []
        self.crashes = []
        self.stop = anyio.Event()

    @asynccontextmanager
    async def ports(self, concurrency):
        async def deliver(line, event_id):
            assert json.loads(line)["id"] == event_id
            self.delivered.append(json.loads(line))

        def crashed(error):
            self.crashes.append(error)
            return "crash-1"

        async with anyio.create_task_group() as tasks:
            yield Ports(
                tasks=tasks,
                lanes=Lanes(self.environ, given={"openai_wire": self.model, "litellm": self.model}),
                slots=OwnSlots(concurrency),
                environ=self.environ,
                deliver=deliver,
                crashed=crashed,
                stop=self.stop,
            )
            tasks.cancel_scope.cancel()

    async def run(self, recipe, *, talk=TALK, settings=None, budget=None, options=None, **envelope):
        (subject,) = read_input({"conversation": talk, **envelope}).subjects()
        budget = budget or Budget()
        live = LiveSettings(sources=(settings_of(settings or {}, where="test"),))
        async with self.ports(budget.concurrency) as ports:
            report = await run_conversation(
                subject,
                recipe,
                live,
                budget=budget,
                started=anyio.current_time(),
                options=options or RunOptions(),
                ports=ports,
            )
        check(report, self.delivered, recipe)
        return report


def check(report, delivered, recipe):
    """What holds of every run."""
    assert list(report.events) == delivered
    for event in report.events:
        jsonschema.validate(event, event_schema())
    jsonschema.validate(report.ledger, ledger_schema())
    lines = report.ledger["judges"]
    assert len(lines) == sum(report.ledger["counts"].values()) == len(recipe.judges)
    emitted = [line for line in lines if line["outcome"] == "verdict" or line.get("error_type")]
    assert sorted(line["judge_id"] for line in emitted) == sorted(
        event["payload"]["judge_id"] for event in report.events
    )


def outcomes(report):
    return {
        event["payload"]["judge_name"]: event["payload"]["result"] or event["payload"]["error"]["type"]
        for event in report.events
    }


def virtual(test):
    """Runs an async test in trio's virtual time."""

    def run(*args, **kwargs):
        clock = trio.testing.MockClock(autojump_threshold=0)
        return anyio.run(lambda: test(*args, **kwargs), backend="trio", backend_options={"clock": clock})

    return functools.wraps(test)(run)


@virtual
async def test_each_applicable_judge_gives_one_event_and_the_rest_a_line():
    recipe = loaded(
        judge_text("always"),
        judge_text("refunds", on="  - {event: message, match: {role: user, text: /refund/i}}\n"),
        judge_text("tools", on="  - event: tool\n"),
    )
    bench = Bench([reply("pass"), reply("fail")])
    report = await bench.run(recipe)
    assert sorted(outcomes(report).values()) == ["fail", "pass"]
    assert report.ledger["counts"] == {"verdict": 2, "gate_miss": 1}
    refunds = next(line for line in report.ledger["judges"] if line["name"] == "refunds")
    assert (
        refunds["matched"] == {"entry": 1, "event": "message", "field": "role, text"}
        or refunds["matched"]["entry"] == 1
    )


@virtual
async def test_events_come_as_judges_end_and_not_at_the_end():
    recipe = loaded(judge_text("slow"), judge_text("fast"))
    times = []
    bench = Bench(
        lambda call: Say(text=reply(), delay_s=9 if "by slow" in call.messages[-1]["content"] else 1)
    )
    original = bench.delivered.append
    bench.delivered = type(
        "L", (list,), {"append": lambda self, x: (times.append(anyio.current_time()), list.append(self, x))}
    )()
    del original
    started = anyio.current_time()
    report = await bench.run(recipe)
    assert [event["payload"]["judge_name"] for event in report.events] == ["fast", "slow"]
    assert [round(at - started) for at in times] == [1, 9]


@virtual
async def test_the_deadline_settles_what_is_in_flight_and_what_never_began():
    recipe = loaded(*(judge_text(f"j{n}") for n in range(5)))
    bench = Bench(lambda _: Say(text=reply(), delay_s=6))
    started = anyio.current_time()
    report = await bench.run(recipe, budget=Budget(total_s=10, reserve_s=0.5, concurrency=2))
    assert anyio.current_time() - started == pytest.approx(9.5, abs=0.1)
    assert sorted(outcomes(report).values()) == ["budget_exhausted", "pass", "pass", "timeout", "timeout"]


@virtual
async def test_no_budget_means_no_call_and_a_null_each():
    for total in (0.0, -5.0):
        bench = Bench([])
        report = await bench.run(loaded(judge_text("a"), judge_text("b")), budget=Budget(total_s=total))
        assert set(outcomes(report).values()) <= {"budget_exhausted", "gate_timeout"}
        assert len(report.events) == 2
        assert bench.model.calls == []


@virtual
async def test_of_a_conversation_that_was_not_read_no_gate_is_asked_and_each_judge_gets_a_null():
    recipe = loaded(judge_text("always"), judge_text("tools", on="  - event: tool\n"))
    bench = Bench([])
    (subject,) = unread_input(b"[1, 2").subjects()
    assert subject.id_source == "input_hash"
    async with bench.ports(8) as ports:
        report = await run_conversation(
            subject,
            recipe,
            LiveSettings(sources=()),
            budget=Budget(),
            started=anyio.current_time(),
            options=RunOptions(unread=True),
            ports=ports,
        )
    check(report, bench.delivered, recipe)
    assert outcomes(report) == dict.fromkeys(("always", "tools"), "budget_exhausted")


@virtual
async def test_a_stop_is_the_deadline_now():
    bench = Bench(lambda _: Say(text=reply(), delay_s=20))

    async def stop_later():
        await anyio.sleep(3)
        bench.stop.set()

    started = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(stop_later)
        report = await bench.run(
            loaded(*(judge_text(f"j{n}") for n in range(3))), budget=Budget(concurrency=1)
        )
    assert set(outcomes(report).values()) == {"cancelled"}
    assert anyio.current_time() - started == pytest.approx(3, abs=0.1)


@virtual
async def test_cancellation_by_the_host_emits_the_nulls_first():
    bench = Bench(lambda _: Say(text=reply(), delay_s=20))
    with anyio.move_on_after(2) as scope:
        await bench.run(loaded(judge_text("a"), judge_text("b")))
    assert scope.cancelled_caught
    assert [event["payload"]["error"]["type"] for event in bench.delivered] == ["cancelled", "cancelled"]


@virtual
async def test_a_bug_in_one_judge_is_its_internal_null_and_nobody_elses():
    def script(call):
        if "by broken" in call.messages[-1]["content"]:
            raise ZeroDivisionError("a bug")
        return Say(text=reply(), delay_s=1)

    bench = Bench(script)
    report = await bench.run(loaded(judge_text("broken"), judge_text("fine")))
    assert outcomes(report) == {"broken": "internal", "fine": "pass"}
    assert isinstance(bench.crashes[0], ZeroDivisionError)
    assert "crash-1" in report.events[0]["payload"]["error"]["message"]


@virtual
async def test_a_bug_in_the_gates_is_an_internal_null_for_each(monkeypatch):
    async def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("sandbox_judge.run.decide", broken)
    bench = Bench([])
    report = await bench.run(loaded(judge_text("a"), judge_text("b")))
    assert outcomes(report) == {"a": "internal", "b": "internal"}


@virtual
async def test_a_broken_definition_never_stops_the_others():
    recipe = loaded(
        judge_text("fine"),
        "name: broken\ninstructions: x\nllm: {model: m, speed: 9}\n",
        ("judges/03.yaml", judge_text("fine")),
        ("judges/04.yaml", ": : ["),
        ("judges/05.yaml", "type: offline\n" + judge_text("elsewhere")),
    )
    report = await Bench([reply()]).run(recipe)
    assert outcomes(report) == {"fine": "pass", "broken": "definition_invalid"}
    assert report.ledger["counts"] == {"verdict": 1, "definition_invalid": 3, "not_online": 1}


@virtual
async def test_settings_switch_off_and_sample_only_in_production():
    recipe = loaded(judge_text("idle"), judge_text("rare"), judge_text("busy"))
    settings = {"recipes": {"shop": {"judges": {"idle": {"enabled": False}, "rare": {"sample_rate": 0.0}}}}}
    report = await Bench([reply()]).run(recipe, settings=settings, environment="production")
    assert report.ledger["counts"] == {"disabled": 1, "not_sampled": 1, "verdict": 1}
    for environment in ("development", "staging", None):
        report = await Bench([reply()] * 2).run(recipe, settings=settings, environment=environment)
        assert outcomes(report) == {"rare": "pass", "busy": "pass"}
        assert all(event["payload"]["sampling"] == {"rate": 1.0} for event in report.events)
    report = await Bench([reply()] * 3).run(
        recipe, settings=settings, environment="production", options=RunOptions(dry_run=True)
    )
    assert len(report.events) == 3
    assert all(event["payload"]["dry_run"] is True for event in report.events)


@virtual
async def test_what_a_hostile_recipe_can_spend_is_bounded():
    recipe = loaded(*(judge_text(f"j{n}") for n in range(6)))
    bench = Bench(lambda _: reply())
    report = await bench.run(recipe, budget=Budget(max_judges=4))
    assert sorted(outcomes(report).values()) == ["budget_exhausted"] * 2 + ["pass"] * 4
    bench = Bench(lambda _: reply())
    report = await bench.run(recipe, budget=Budget(max_calls=3))
    assert sorted(outcomes(report).values()) == ["budget_exhausted"] * 3 + ["pass"] * 3
    assert len(bench.model.calls) == 3


@virtual
async def test_a_conversation_without_words_is_missing_context_for_each_judge_that_applies():
    recipe = loaded(
        judge_text("always"), judge_text("users", on="  - {event: message, match: {role: user}}\n")
    )
    report = await Bench([]).run(recipe, talk=[])
    assert outcomes(report) == {"always": "missing_context"}
    assert report.ledger["counts"] == {"null": 1, "gate_miss": 1}


@virtual
async def test_keys_and_endpoints_are_asked_of_settings():
    local = '  local: {base_url: "https://models.example/v1", api_key_env: AWS_SECRET_ACCESS_KEY}\n'
    bench = Bench([], environ={"AWS_SECRET_ACCESS_KEY": "x"})
    report = await bench.run(loaded(judge_text("a", llm=local), judge_text("b")))
    assert outcomes(report) == {"a": "not_allowed", "b": "auth"}
    not_allowed = next(e for e in report.events if e["payload"]["judge_name"] == "a")
    assert '"base_url":"https://models.example/v1"' in not_allowed["payload"]["error"]["message"]


@virtual
async def test_explain_calls_no_model_and_says_why():
    recipe = loaded(
        judge_text("always"),
        judge_text("near", on="  - {event: message, match: {role: assistant, text: /refund/}}\n"),
        "name: broken\n",
    )
    bench = Bench([])
    report = await bench.run(recipe, options=RunOptions(dry_run=True, explain=True))
    assert report.events == ()
    assert report.ledger["counts"] == {"would_run": 1, "gate_miss": 1, "definition_invalid": 1}
    near = next(line for line in report.ledger["judges"] if line["name"] == "near")
    assert near["nearest_miss"]


@virtual
async def test_another_model_for_a_dry_run():
    bench = Bench([reply()])
    options = RunOptions(dry_run=True, model=ModelOverride(model="other", provider="mistral"))
    report = await bench.run(loaded(judge_text("a")), options=options)
    assert outcomes(report) == {"a": "auth"}
    bench = Bench([reply()], environ={"MISTRAL_API_KEY": "key-for-mistral"})
    report = await bench.run(loaded(judge_text("a")), options=options)
    assert (bench.model.calls[0].provider, bench.model.calls[0].model) == ("mistral", "other")
    assert report.events[0]["payload"]["llm"]["model"] == "other"


@virtual
async def test_a_key_that_a_server_echoes_is_masked():
    key = ENVIRON["OPENAI_API_KEY"]
    failure = ModelFailure("bad_request", f"no access with {key}")
    report = await Bench([failure]).run(loaded(judge_text("a")))
    assert key not in json.dumps(report.events)


@given(
    delays=st.lists(st.floats(0, 40), min_size=1, max_size=6),
    total=st.floats(0, 30),
    concurrency=st.integers(1, 4),
    stop=st.none() | st.floats(0, 30),
    faults=st.sets(st.integers(0, 5)),
)
def test_applicable_judges_are_verdicts_and_nulls_whatever_happens(delays, total, concurrency, stop, faults):
    @virtual
    async def once():
        def script(call):
            text = call.messages[-1]["content"]
            number = next(n for n in range(len(delays)) if f"by j{n}." in text)
            failure = ModelFailure("provider_error", "down") if number in faults else None
            return Say(text=reply(), failure=failure, delay_s=delays[number])

        bench = Bench(script)

        async def stop_later():
            await anyio.sleep(stop)
            bench.stop.set()

        async with anyio.create_task_group() as group:
            if stop is not None:
                group.start_soon(stop_later)
            report = await bench.run(
                loaded(*(judge_text(f"j{n}") for n in range(len(delays)))),
                budget=Budget(total_s=total, concurrency=concurrency),
            )
            group.cancel_scope.cancel()
        assert len(report.events) == len(delays)
        assert len({event["payload"]["judge_id"] for event in report.events}) == len(delays)

    once()


def test_nulls_are_of_the_closed_list():
    assert Invalid(type="cancelled", message="").may_pass_on_retry is False

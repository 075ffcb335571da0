"""Every fault of a model's endpoint through the hook as a process: the right null, in time, and no key."""

import json
import os

import model_faults
import pytest
from fault_bench import KEY, SLACK_S, Sandbox, by_judge, hold_account, own_folder, told

HANGING = [name for name, result in model_faults.results().items() if result == "timeout" and name != "408"]
HANGING = [name for name in HANGING if os.geteuid() == 0 or name not in model_faults.NAMES]


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """One run with a judge for each fault, all at once."""
    folder = tmp_path_factory.mktemp("f")
    with model_faults.Endpoints(folder) as endpoints, model_faults.name_server(folder) as world:
        sandbox = Sandbox(folder / "s", files=model_faults.files(), providers=endpoints.providers)
        done = sandbox.run("--concurrency", "100", "--budget", "30s", "--report", "json", within=world)
        yield sandbox, endpoints, done, world


@pytest.mark.parametrize("name", model_faults.results())
def test_each_fault_is_the_null_that_it_should_be(staged, name):
    _, _, done, world = staged
    event = by_judge(done)[f"f-{name}"]
    if name in model_faults.NAMES and not world:
        pytest.skip("only root can make a world with a name server of its own")
    assert told(event) == model_faults.results()[name], event["payload"].get("error")
    timing = event["payload"]["timing"]
    if name in HANGING:
        assert timing["duration_ms"] < model_faults.OWN_TIMEOUT_MS + SLACK_S * 1000


def test_the_account_adds_up_and_the_run_ends_in_time(staged):
    _, _, done, _ = staged
    events = hold_account(done, len(model_faults.results()))
    assert done.code == 0
    verdicts = sum(event["payload"]["result"] is not None for event in events)
    assert done.ledger["counts"] == {"verdict": verdicts, "null": len(events) - verdicts}
    assert done.seconds < 30


def test_no_fault_is_retried_unless_asked_and_no_host_but_the_endpoint_gets_a_request(staged):
    _, endpoints, _, _ = staged
    asked = [request.json["model"] for request in endpoints.main.requests]
    repaired = {
        "length",
        "cut-off",
        "only-tool-calls",
        "only-reasoning",
        "prose",
        "another-word",
        "both-ways",
    }
    for name in model_faults.OVER_THE_WIRE:
        # A connection that had been kept and was closed under the request is tried anew, once.
        again = {"hang-up", "reset"}
        most = {"redirect-loop": 4}.get(name, 2 if name in repaired | again else 1)
        assert 1 <= asked.count(name) <= most, name
    assert endpoints.elsewhere.requests == []


def test_a_quote_that_is_not_in_the_view_is_unverified(staged):
    _, _, done, _ = staged
    evidence = by_judge(done)["f-quotes"]["payload"]["evidence"]
    assert [(one["quote"], one["verified"]) for one in evidence] == [("hello", True), ("never said", False)]


def test_what_servers_echo_of_the_key_is_nowhere(staged):
    sandbox, _, done, _ = staged
    written = [done.out, done.err.encode()]
    written += [path.read_bytes() for path in sandbox.state.rglob("*") if path.is_file()]
    assert not any(b"canary" in text for text in written)


def test_everything_that_hangs_ends_with_the_budget(staged):
    """Without a timeout of its own each judge has what is left; a resolver's thread holds no process."""
    _, endpoints, _, world = staged
    with own_folder() as folder:
        long = {
            path: text.replace(str(model_faults.OWN_TIMEOUT_MS), "60000")
            for path, text in model_faults.files().items()
            if path.removeprefix("judges/").removesuffix(".yaml") in HANGING
        }
        hung = Sandbox(folder, files=long, providers=endpoints.providers)
        done = hung.run("--concurrency", "100", "--budget", "2500ms", within=world)
    hold_account(done, len(long))
    assert done.results == {"timeout": len(long)}
    assert done.code == 0
    assert done.seconds < 2.5 + SLACK_S


@pytest.mark.cold_litellm
def test_the_other_lane_through_one_cold_process(staged):
    """litellm's own exceptions, through the whole process: same types, nothing on stdout but events."""
    _, endpoints, _, _ = staged
    names = [
        "reset", "html-under-200", "half-the-json", "401", "404", "413", "429-in-an-hour", "500",
        "529", "refusal", "length", "another-word", "thinking-first", "no-choices", "redirect-loop", "filter",
    ]  # fmt: skip
    files = {
        f"judges/{name}.yaml": model_faults.judge(name, None).replace("provider: openai", "provider: groq")
        for name in names
    }
    providers = {"groq": {"base_url": endpoints.main.base_url, "api_key_env": "OPENAI_API_KEY"}}
    with own_folder() as folder:
        done = Sandbox(folder, files=files, providers=providers).run(
            "--concurrency", "20", "--budget", "33s", patience=60
        )
    events = hold_account(done, len(names))
    assert done.code == 0
    for event in events:
        name = event["payload"]["judge_name"].removeprefix("f-")
        assert told(event) == model_faults.results()[name], event["payload"].get("error")
        assert event["payload"]["llm"].get("lane") in ("litellm", None)
    assert KEY not in json.dumps(events)
    assert KEY not in done.err

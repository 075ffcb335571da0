"""Budgets from evidence: what is read and estimated, what is said where nothing is known, what is written."""

import json
import math
import random
import subprocess
import sys
import uuid
from xml.dom import minidom

import anyio
import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from recipes import judge_text, loaded

from sandbox_judge.budget import reserve_for
from sandbox_judge.coverage.advice import advise
from sandbox_judge.coverage.observed import Observation, read_lines
from sandbox_judge.coverage.plot import svg_plot, text_plot
from sandbox_judge.coverage.rehearsal import RehearsalModel, SimulatedKeys
from sandbox_judge.coverage.report import json_of, settings_of_advice, text_of
from sandbox_judge.coverage.schedule import Arrivals, Job, Replay, with_reserve
from sandbox_judge.coverage.survival import survival_of
from sandbox_judge.lanes.base import Call, Endpoint, ModelFailure

PYTHON = [sys.executable, "-I", "-m", "sandbox_judge"]


def event(judge="tone", *, seconds=None, error=None, conversation="c", recipe="shop", started=0.0, **more):
    timing = {"budget_ms": 30000, "attempts": 0 if seconds is None else 1}
    if seconds is not None:
        timing |= {"started_ms": round(started * 1000), "duration_ms": round(seconds * 1000)}
    payload = {
        "judgement_id": str(uuid.uuid4()),
        "judge_id": str(uuid.uuid5(uuid.NAMESPACE_OID, judge)),
        "judge_name": judge,
        "recipe_id": recipe,
        "result": None if error else "pass",
        "timing": timing,
        **({"error": {"type": error, "message": "", "retryable": True}} if error else {}),
        **more,
    }
    return {
        "id": str(uuid.uuid4()),
        "event_name": "introspection.judgement",
        "conversation_id": conversation,
        "payload": payload,
    }


def lines(*events):
    return [json.dumps(one).encode() for one in events]


def observed(latencies, cut_off=(), judge="tone"):
    kinds = [("verdict", s) for s in latencies] + [("cut_off", s) for s in cut_off]
    return [
        Observation(
            recipe_id="shop", judge=judge, conversation_id=f"c{n}", kind=kind, seconds=s, started_s=0.0
        )
        for n, (kind, s) in enumerate(kinds)
    ]


def test_what_each_event_tells_about_time():
    read = read_lines(
        lines(
            event(seconds=2.0),
            event(seconds=9.5, error="timeout"),
            event(seconds=1.0, error="cancelled"),
            event(error="cancelled"),
            event(error="budget_exhausted"),
            event(seconds=0.1, error="auth"),
            event(seconds=3.0, error="malformed_output"),
        )
    )
    assert [(one.kind, one.seconds) for one in read.observations] == [
        ("verdict", 2.0),
        ("cut_off", 9.5),
        ("cut_off", 1.0),
        ("not_started", None),
        ("not_started", None),
        ("failed", 0.1),
        ("failed", 3.0),
    ]


def test_what_does_not_count_is_left_out():
    twice = event(seconds=1.0)
    read = read_lines(
        [
            *lines(twice, twice, event(seconds=1.0, dry_run=True), event(seconds=1.0, regrade=True)),
            *lines(event(seconds=1.0, recipe="other"), {"event_name": "sandbox_judge.ledger", "id": "x"}),
            b"",
            b"{",
            b"\xff",
            b"[1]",
            b'{"event_name": "introspection.judgement", "payload": {"judgement_id": 3}}',
            b"[" * 100_000,
        ],
        recipe_id="shop",
    )
    assert (len(read.observations), read.left_out, read.unreadable) == (1, 4, 5)


@pytest.mark.parametrize("duration", [-1, 1e300, 90_000_000])
def test_impossible_times_are_no_latencies(duration):
    one = event(seconds=1.0)
    one["payload"]["timing"]["duration_ms"] = duration
    (found,) = read_lines(lines(one)).observations
    assert (found.kind, found.seconds) == ("failed", None)


def test_the_estimate_by_hand():
    # Kaplan and Meier: at 1 s 4 are at risk, at 3 s 2 are (one was cut off at 2), the last at 4 s alone.
    curve = survival_of([1.0, 3.0, 4.0], [2.0])
    assert curve.times == (1.0, 3.0, 4.0)
    assert curve.shares == pytest.approx((1 / 4, 1 - 3 / 4 * 1 / 2, 1.0))
    assert (curve.quantile(0.25), curve.quantile(0.5), curve.quantile(1.0)) == (1.0, 3.0, 4.0)
    assert (curve.share_by(0.5), curve.share_by(3.5)) == (0.0, pytest.approx(0.625))


def test_beyond_the_last_observed_time_nothing_is_known():
    curve = survival_of([1.0, 2.0], [5.0, 5.0])
    assert curve.known_share == pytest.approx(0.5)
    assert curve.quantile(0.6) is None
    assert curve.last_s == 5.0
    assert math.isinf(curve.beyond(5.0, 0.5))
    assert survival_of([], [5.0]).quantile(0.01) is None


def test_leaving_out_what_was_cut_off_would_be_wrong():
    chance = random.Random(3)
    true = sorted(chance.lognormvariate(1.0, 0.6) for _ in range(4000))
    limits = [chance.uniform(1, 12) for _ in true]
    chance.shuffle(limits)
    whole = [t for t, limit in zip(true, limits, strict=True) if t <= limit]
    cut = [limit for t, limit in zip(true, limits, strict=True) if t > limit]
    for share in (0.5, 0.75, 0.9):
        exact = true[int(share * len(true))]
        assert survival_of(whole, cut).quantile(share) == pytest.approx(exact, rel=0.08)
    naive = sorted(whole)[int(0.9 * len(whole))]
    assert naive < 0.85 * true[int(0.9 * len(true))]


def test_slots_are_reckoned_with():
    conversations = [Replay(0.0, (Job(2, True), Job(2, True), Job(2, True), Job(1, False)))]
    assert Arrivals(conversations, concurrency=1).times == [2, 4, 6]
    assert Arrivals(conversations, concurrency=2).times == [2, 2, 4]
    assert Arrivals(conversations, concurrency=8).times == [2, 2, 2]
    assert Arrivals(conversations, concurrency=1, per_judge_s=1).times == [math.inf] * 3
    assert Arrivals(conversations, concurrency=1).total_for(1.0) == pytest.approx(6.5)
    assert Arrivals([], concurrency=1).total_for(0.5) is None


@given(st.floats(0.001, 1000))
def test_the_reserve_of_a_budget_leaves_what_was_asked_for(grading_s):
    total = with_reserve(grading_s)
    assert total - reserve_for(total) == pytest.approx(grading_s)


def test_a_recommendation_covers_what_was_wished():
    chance = random.Random(1)
    ones = observed([chance.lognormvariate(1, 0.5) for _ in range(500)])
    for wished in (0.5, 0.9, 0.99):
        advice = advise(ones, recipe_id="shop", wished=wished)
        half, said, double = advice.costs
        assert wished <= said.coverage <= wished + 0.03
        assert half.coverage < said.coverage <= double.coverage
        assert half.mean_used_s <= said.mean_used_s
    assert advice.concurrency == 1


def test_more_at_once_only_where_it_helps():
    ones = [
        Observation(
            recipe_id="shop",
            judge=f"j{k}",
            conversation_id=f"c{n}",
            kind="verdict",
            seconds=2.0,
            started_s=0.0,
        )
        for n in range(20)
        for k in range(6)
    ]
    advice = advise(ones, recipe_id="shop", wished=0.9)
    assert advice.concurrency == 6
    assert advice.total_s == pytest.approx(2.5)
    assert dict(advice.options)[1] == pytest.approx(12.5)


def test_what_is_not_known_is_said():
    advice = advise(observed([1.0, 2.0] * 20, [6.0] * 10), recipe_id="shop", wished=0.99)
    assert advice.total_s is None
    assert advice.at_least_s == 6.5
    assert advice.try_s == 13.0
    text = "\n".join(text_of(advice))
    assert "not known from these runs; it takes at least 6.5 s" in text
    assert "coverage at least 0.8" in text
    assert json_of(advice)["recommended"] is None
    known = advise(observed([1.0, 2.0] * 20, [6.0] * 10), recipe_id="shop", wished=0.5)
    assert known.total_s is not None


def test_judges_that_never_started_make_room_but_no_latency():
    ones = observed([1.0] * 50)
    never = [
        Observation(recipe_id="shop", judge="tone", conversation_id=f"n{n}", kind="not_started", error="x")
        for n in range(50)
    ]
    advice = advise([*ones, *never], recipe_id="shop", wished=0.9)
    assert advice.judges[0].quantiles["p99"] == 1.0
    assert advice.judges[0].not_started == 50
    assert advice.total_s == pytest.approx(1.3)  # its reserve is a fifth, rounded up
    only = advise(never, recipe_id="shop", wished=0.9)
    assert only.total_s is None
    assert only.try_s


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["verdict", "cut_off", "not_started", "failed"]),
            st.floats(0, 100),
            st.sampled_from(["a", "b", "\ud800", "x\x1b[31m"]),
            st.integers(0, 5),
        ),
        min_size=1,
        max_size=30,
    ),
    st.floats(0.01, 0.99),
)
def test_any_past_gives_an_answer(rows, wished):
    ones = [
        Observation(
            recipe_id="r",
            judge=judge,
            conversation_id=str(conversation),
            kind=kind,
            seconds=None if kind == "not_started" else seconds,
        )
        for kind, seconds, judge, conversation in rows
    ]
    advice = advise(ones, recipe_id="r<&\x00", wished=wished)
    assert advice.budget_s
    assert (advice.total_s is None) == (advice.try_s is not None)
    if advice.total_s is not None:
        assert advice.costs[1].coverage >= wished - 1e-9
    assert all(0 <= share <= 1 for _, share in advice.curve)
    shares = [share for _, share in advice.curve]
    assert shares == sorted(shares)
    json.dumps(json_of(advice), allow_nan=False)
    assert "\x1b" not in "".join(text_of(advice))
    assert list(text_plot(advice))
    minidom.parseString(svg_plot(advice).encode())
    assert settings_of_advice(advice)["budget_ms"] >= 500


def virtual(test):
    def run():
        clock = trio.testing.MockClock(autojump_threshold=0)
        return anyio.run(test, backend="trio", backend_options={"clock": clock})

    run.__name__ = test.__name__
    return run


@virtual
async def test_a_rehearsal_takes_the_time_of_the_past():
    recipe = loaded(judge_text("quick"), judge_text("slow"), judge_text("new"), judge_text("stuck"))
    past = [
        *observed([1.0] * 5, judge="quick"),
        *observed([7.0] * 5, judge="slow"),
        *observed([], [3.0] * 5, judge="stuck"),
    ]
    model = RehearsalModel(past, recipe)
    assert model.unknown == ["new"]

    async def took(name, within=60):
        message = {"role": "user", "content": f"... Judge by {name}.\n ..."}
        call = Call(provider="p", model="m", endpoint=Endpoint(), messages=(message,))
        started = anyio.current_time()
        try:
            await model.complete(call, deadline=started + within)
        except ModelFailure as failure:
            assert failure.type == "timeout"
        return round(anyio.current_time() - started, 3)

    assert [await took(name) for name in ("quick", "slow", "new", "stuck")] == [1, 7, 0, 60]


def test_a_rehearsal_needs_no_keys():
    keys = SimulatedKeys({"A_KEY": "mine", "B": "x"})
    assert (keys["A_KEY"], keys.get("OPENAI_API_KEY"), keys.get("PATH")) == ("mine", "simulated", None)


class TestCommand:
    """`budget` as a process."""

    def run(self, folder, *words, code=0):
        folder.chmod(0o700)
        done = subprocess.run(
            [*PYTHON, "budget", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            env={"HOME": str(folder), "PATH": "/usr/bin:/bin", "USER": "olga"},
        )
        assert done.returncode == code, done.stderr
        return done

    def events(self, folder, *events):
        (folder / "events").write_bytes(b"\n".join(lines(*events)) + b"\n")

    def test_it_writes_what_it_recommends_and_only_that(self, tmp_path):
        known = [event(seconds=1 + n % 10 / 10, conversation=str(n)) for n in range(200)]
        self.events(tmp_path, *known)
        before = {
            "version": 1,
            "recipes": {"shop": {"judges": {"a": {"enabled": False}}, "budget_ms": 9, "max_judges": 7}},
        }
        settings = tmp_path / "settings.json"
        settings.write_text(json.dumps(before))
        settings.chmod(0o600)
        done = self.run(
            tmp_path, "--events", "events", "--apply", "--settings", "settings.json", "-o", "json",
            "--svg", "plot.svg", "--why", "slow nights",
        )  # fmt: skip
        recommended = json.loads(done.stdout)["recommended"]
        assert recommended["budget_ms"] == 2400
        after = json.loads(settings.read_text())["recipes"]["shop"]
        assert after == {"judges": {"a": {"enabled": False}}, "max_judges": 7, **recommended}
        (line,) = (tmp_path / "settings.history.jsonl").read_text().splitlines()
        history = json.loads(line)
        assert (history["who"], history["why"], history["before"]) == (
            "olga",
            "slow nights",
            {"budget_ms": 9},
        )
        assert (tmp_path / "plot.svg").read_text().startswith("<svg")

    def test_what_is_not_known_is_not_written(self, tmp_path):
        self.events(tmp_path, event(seconds=1.0), event(seconds=4.0, error="timeout", conversation="d"))
        done = self.run(tmp_path, "--events", "events", "--apply", "--settings", "settings.json", code=1)
        assert "not known" in done.stderr
        assert not (tmp_path / "settings.json").exists()
        self.run(tmp_path, "--events", "events", "--apply", "--try", "--settings", "settings.json")
        assert json.loads((tmp_path / "settings.json").read_text())["recipes"]["shop"]["budget_ms"] == 9000

    def test_faults_are_told(self, tmp_path):
        self.events(tmp_path, event(seconds=1.0), event(seconds=1.0, recipe="other"))
        assert "several recipes" in self.run(tmp_path, "--events", "events", "--apply", code=2).stderr
        assert "no judgements" in self.run(tmp_path, "--events", "events", "--recipe", "x", code=2).stderr
        assert "cannot be read" in self.run(tmp_path, "--events", "nowhere", code=2).stderr
        for wrong in ("0", "1", "nan", "-3"):
            self.run(tmp_path, "--events", "events", "--coverage", wrong, code=2)

    def test_it_reads_a_store(self, tmp_path):
        known = [event(seconds=1 + n % 10 / 10, conversation=str(n)) for n in range(20)]
        for number, one in enumerate(known):
            one["timestamp"] = f"2026-11-30T21:00:{number:02}.000000Z"
            one["payload"] |= {
                "definition_hash": "sha256:" + "0" * 64,
                "contract_version": "1",
                "sequence_hash": "sha256:" + "1" * 64,
                "grading_key": str(uuid.uuid4()),
            }
        self.events(tmp_path, *known)
        collect = [*PYTHON, "collect", "--store", str(tmp_path / "s.db"), str(tmp_path / "events")]
        subprocess.run(collect, check=True, capture_output=True)
        of_store = self.run(tmp_path, "--store", str(tmp_path / "s.db"), "-o", "json").stdout
        of_file = self.run(tmp_path, "--events", "events", "-o", "json").stdout
        assert json.loads(of_store)["recommended"] == json.loads(of_file)["recommended"]
        assert json.loads(of_store)["judges"] == json.loads(of_file)["judges"]

    def test_a_recommendation_can_be_rehearsed(self, tmp_path):
        self.events(tmp_path, event("quick", seconds=0.05), event("slow", seconds=9.0))
        (tmp_path / "judges").mkdir()
        for name in ("quick", "slow"):
            (tmp_path / "judges" / f"{name}.yaml").write_text(judge_text(name))
        words = ["run", "--recipe", str(tmp_path), "--recipe-id", "shop", "--worktree", "--budget", "1500ms"]
        done = subprocess.run(
            [*PYTHON, *words, "--simulate-budget", str(tmp_path / "events")],
            input=b'[{"role": "user", "content": "hi"}]',
            capture_output=True,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        payloads = [json.loads(line)["payload"] for line in done.stdout.splitlines()]
        found = {p["judge_name"]: p["result"] or p["error"]["type"] for p in payloads}
        assert found == {"quick": "not_applicable", "slow": "timeout"}, done.stderr
        assert all(payload["dry_run"] for payload in payloads)

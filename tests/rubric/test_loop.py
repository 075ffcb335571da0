"""The rubric loop with agents that improve, get worse, crash, hang, and lie about their scores."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from rubric_scripts import runbook

from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.rubric.agent_run import Agent, agent_environ
from sandbox_judge.rubric.loop import run_loop
from sandbox_judge.rubric.scores import Score

BOOK = runbook(head="---\nprimary_outputs: [report.md]\n---\n")
# What every scripted agent starts with: its round, and how to leave a report.
PRELUDE = """
import json, os, pathlib, sys, time
round = int(os.environ["RUBRIC_ROUND"])
results = pathlib.Path(os.environ["RESULTS_DIR"])
def leave(text, **scores):
    (results / "report.md").write_text(text)
    checks = [{"kind": "judge", "id": k, "name": k, "status": "pass", "score": v} for k, v in scores.items()]
    whole = {"version": 2, "verdict": "pass", "checks": checks}
    (results / "validation_report.json").write_text(json.dumps(whole))
def report(text):
    (results / "report.md").write_text("x")
    (results / "validation_report.json").write_text(text)
"""


class Loop:
    def __init__(self, folder):
        self.folder = folder
        self.results = folder / "results"
        self.results.mkdir()

    def run(self, code, *, seconds=30.0, scorer=None, most_s=None, environ=None):
        script = self.folder / "agent.py"
        script.write_text(PRELUDE + code)
        handover = self.folder / "handover"
        handover.mkdir(exist_ok=True)
        agent = Agent(
            argv=(sys.executable, str(script)),
            environ=environ or {"PATH": os.environ["PATH"]},
            cwd=self.folder,
            results=self.results,
            runbook=self.folder / "RUNBOOK.md",
            handover=handover,
            most_s=most_s,
        )

        async def story():
            return await run_loop(
                BOOK, agent, deadline=anyio.current_time() + seconds, scoring_s=0.0, scorer=scorer
            )

        return anyio.run(story)

    @property
    def report(self):
        return (self.results / "report.md").read_text()


@pytest.fixture
def loop(tmp_path):
    return Loop(tmp_path)


def means(outcome):
    return [None if one.standing is None else float(one.standing.mean) for one in outcome.rounds]


def test_an_agent_that_improves_stops_when_it_passes(loop):
    outcome = loop.run("leave(f'v{round}', accuracy=3 + round, completeness=3, clarity=4)")
    assert means(outcome) == [pytest.approx(11 / 3), 4.0]
    assert (outcome.passed, outcome.best.number, loop.report) == (True, 2, "v2")


def test_the_weakest_are_handed_back_lowest_first(loop):
    outcome = loop.run(
        "if round > 1:\n"
        "    (results.parent / f'got{round}').write_text(open(os.environ['RUBRIC_FEEDBACK']).read())\n"
        "leave('x', accuracy=3, completeness=1, clarity=2)"
    )
    assert len(outcome.rounds) == 3
    given = json.loads((loop.folder / "got2").read_text())
    assert [one["id"] for one in given["rework"]] == ["completeness", "clarity", "accuracy"]
    assert (given["overall_score"], given["pass_threshold"], given["round"]) == (2.0, 4.0, 2)
    assert given["rework"][0]["anchors"]["5"] == "all receipts have a row"


def test_an_agent_that_gets_worse_leaves_its_best_version(loop):
    outcome = loop.run(
        "(results / f'extra{round}.txt').write_text('x')\n"
        "leave(f'v{round}', accuracy=4 - round, completeness=4, clarity=3)"
    )
    assert len(outcome.rounds) == 3
    assert (outcome.passed, outcome.best.number, loop.report) == (False, 1, "v1")
    assert sorted(p.name for p in loop.results.iterdir()) == [
        "extra1.txt",
        "report.md",
        "validation_report.json",
    ]


def test_of_equals_the_first_is_kept(loop):
    outcome = loop.run("leave(f'v{round}', accuracy=3, completeness=3, clarity=3)")
    assert (outcome.best.number, loop.report) == (1, "v1")


def test_a_crash_is_no_version_and_what_it_left_is_put_back(loop):
    outcome = loop.run(
        "if round == 2:\n"
        "    (results / 'report.md').write_text('half')\n"
        "    sys.stderr.write('boom')\n"
        "    sys.exit(7)\n"
        "seen = (results / 'report.md').read_text() if round == 3 else ''\n"
        "leave(f'v{round}{seen}', accuracy=2 + round // 3, completeness=3, clarity=3)"
    )
    assert outcome.rounds[1].problem == "the agent ended with code 7: boom"
    assert not outcome.rounds[1].scores
    assert (outcome.best.number, loop.report) == (3, "v3v1")


def test_an_agent_that_only_crashes_has_no_score_and_no_pass(loop):
    outcome = loop.run("sys.exit(1)")
    assert (len(outcome.rounds), outcome.best, outcome.passed) == (3, None, False)
    outcome = loop.run("os.kill(os.getpid(), 9)")
    assert outcome.rounds[0].problem == "the agent was ended by signal 9"


def test_an_agent_that_hangs_is_killed_within_its_time(loop):
    outcome = loop.run("leave('x', accuracy=5, completeness=5, clarity=5)\ntime.sleep(60)", most_s=0.7)
    assert (len(outcome.rounds), outcome.passed) == (3, False)
    assert "killed with its children" in outcome.rounds[0].problem
    outcome = loop.run("time.sleep(60)", seconds=1.0)
    assert len(outcome.rounds) == 1
    assert outcome.notes == ("no time was left for round 2",)


LIES = {
    "strings": "leave('x', accuracy='5', completeness='5', clarity='5')",
    "out of range": "leave('x', accuracy=50, completeness=5, clarity=5)",
    "not a number": "leave('x', accuracy=float('nan'), completeness=5, clarity=5)",
    "omission": "leave('x', accuracy=5)",
    "other criteria": "leave('x', beauty=5, charm=5)",
    "no report": "(results / 'report.md').write_text('x')",
    "no JSON": "report('pass')",
    "no outputs": "leave('', accuracy=5, completeness=5, clarity=5)",
    "twice": "one = {'kind': 'judge', 'id': 'accuracy', 'status': 'pass', 'score': 5}\n"
    "two = [{**one, 'id': 'completeness'}, {**one, 'id': 'clarity'}]\n"
    "report(json.dumps({'version': 2, 'checks': [one, {**one, 'score': 1}, *two]}))",
    "verdict only": "report(json.dumps({'version': 2, 'verdict': 'pass', 'checks': []}))",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_no_pass(loop, lie):
    outcome = loop.run(LIES[lie])
    assert not outcome.passed
    assert len(outcome.rounds) == 3


def test_a_report_from_before_is_not_this_runs(loop):
    checks = [{"kind": "judge", "id": c.id, "status": "pass", "score": 5} for c in BOOK.criteria]
    (loop.results / "validation_report.json").write_text(json.dumps({"version": 2, "checks": checks}))
    outcome = loop.run("(results / 'report.md').write_text('x')")
    assert outcome.best is None
    assert "left from before" in outcome.rounds[0].problem


def test_version_1_scores_count_as_the_agents_own(loop):
    outcome = loop.run(
        "scores = {'Accuracy': {'score': 5, 'notes': 'n'}, 'Completeness': {'score': 4}, 'Clarity': 4}\n"
        "report(json.dumps({'rubric_scores': scores}))"
    )
    assert outcome.passed


def judged(*rounds):
    """An independent scorer that gives each round's scores in turn."""
    left = iter(rounds)

    async def scorer():
        values = next(left)
        if isinstance(values, Exception):
            raise values
        return tuple(
            Score(id=c.id, name=c.name, source="judge", score=v)
            for c, v in zip(BOOK.criteria, values, strict=True)
        )

    return scorer


def test_an_independent_judge_counts_and_praise_does_not(loop):
    praise = "leave(f'v{round}', accuracy=5, completeness=5, clarity=5)"
    outcome = loop.run(praise, scorer=judged((3, 3, 3), (4, 4, 3), (2, 2, 2)))
    assert means(outcome) == [3.0, pytest.approx(11 / 3), 2.0]
    assert (outcome.passed, outcome.best.number, loop.report) == (False, 2, "v2")
    outcome = loop.run(praise, scorer=judged(InputError("holds no outputs."), (5, 5, 5)))
    assert (outcome.rounds[0].problem, outcome.passed) == ("holds no outputs.", True)


def test_what_the_agent_gets(loop):
    loop.run(
        "import pathlib; (results.parent / 'env').write_text(json.dumps(dict(os.environ)))\n"
        "leave('x', accuracy=5, completeness=5, clarity=5)"
    )
    env = json.loads((loop.folder / "env").read_text())
    assert env["RESULTS_DIR"] == str(loop.results)
    assert (env["RUBRIC_ROUND"], env["RUBRIC_ROUNDS"]) == ("1", "3")
    assert "RUBRIC_FEEDBACK" not in env


def test_judge_keys_are_withheld_by_name_and_by_value():
    environ = {"PATH": "/bin", "OPENAI_API_KEY": "sk-1", "COPY": "sk-1", "JUDGE_KEY": "k",
               "SANDBOX_JUDGE_SETTINGS": "s", "EMPTY": "", "MINE": "m"}  # fmt: skip
    kept, withheld = agent_environ(environ, key_names=["OPENAI_API_KEY"], keys=["sk-1", ""], granted=["COPY"])
    assert kept == {"PATH": "/bin", "COPY": "sk-1", "EMPTY": "", "MINE": "m"}
    assert withheld == ("JUDGE_KEY", "OPENAI_API_KEY", "SANDBOX_JUDGE_SETTINGS")


def test_an_agent_that_cannot_start_is_a_usage_error(loop):
    agent = Agent(argv=("/no/such/agent",), environ={}, cwd=Path("/"), results=loop.results,
                  runbook=Path("/r"), handover=loop.folder)  # fmt: skip

    async def story():
        await run_loop(BOOK, agent, deadline=anyio.current_time() + 5, scoring_s=0.0, scorer=None)

    with pytest.raises(UsageError, match="cannot be started"):
        anyio.run(story)

"""`calibrate` as a person uses it: a real server, a set on disk, the guard of the test split."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from calibration.made_rows import row, write_set
from recipes import judge_text
from surfaces import run_main

from sandbox_judge.testing.answers import chat, error
from sandbox_judge.testing.model_server import ModelServer

# What the scripted judge says by a word of the conversation.
SAYS = {"Yes": "pass", "No": "fail", "Maybe": "pass", "Never": "fail"}
LABELS = (
    ("a", "Yes, you may.", "pass"), ("b", "No, you may not.", "fail"), ("c", "Maybe you may.", "fail"),
    ("d", "Never do that.", "fail"), ("e", "Yes, of course.", "pass"),
    ("f", "Yes, gladly.", "not_applicable"),
)  # fmt: skip


def answer(verdict):
    quotes = [{"entry": 2, "quote": "you may"}]
    return chat(
        json.dumps({"reasoning": f"It \x1b[31mreads {verdict}.", "evidence": quotes, "verdict": verdict})
    )


def says(request):
    content = request.json["messages"][-1]["content"]
    said = re.search(r"message assistant: (\w+)", content)[1]
    return error(400, "no") if said == "Broken" else answer(SAYS[said])


class Shop:
    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        (folder / "judges").mkdir()
        self.judge = folder / "judges" / "tone.yaml"
        self.judge.write_text(judge_text("tone"))
        (folder / "package.json").write_text('{"name": "shop"}')
        (folder / "settings.json").write_text(
            json.dumps({"providers": {"openai": {"base_url": server.base_url}}})
        )
        self.record_path = folder / "judges" / "tone.calibration.record.json"
        self.rows([row(id, said, label, "dev") for id, said, label in LABELS])

    def rows(self, rows):
        write_set(self.folder / "judges" / "tone.calibration.jsonl", rows)

    def test_rows(self, labels=LABELS):
        self.rows([row(id, said, label, "test") for id, said, label in labels])

    @property
    def record(self):
        return json.loads(self.record_path.read_text())

    def run(self, *more, judge="tone"):
        environ = {
            "OPENAI_API_KEY": "sk-canary-0123456789abcdef",
            "SANDBOX_JUDGE_STATE_DIR": str(self.folder / "state"),
            "SANDBOX_JUDGE_CONFIG_DIR": str(self.folder / "config"),
        }
        words = ["--settings", "settings.json", "--insecure"]
        return run_main("calibrate", judge, *words, *more, environ=environ, cwd=self.folder)

    def json(self, *more):
        done = self.run("-o", "json", *more)
        assert done.out, done.err
        return json.loads(done.out)


@pytest.fixture
def shop(tmp_path):
    with ModelServer(says, by_request=True) as server:
        yield Shop(tmp_path, server)


def test_figures_of_a_dev_run(shop):
    found = shop.json()
    assert (found["judge"], found["split"], found["look"], found["n"]) == ("tone", "dev", None, 6)
    assert found["confusion"] == {
        "pass": {"pass": 2, "fail": 0, "not_applicable": 0, "invalid": 0},
        "fail": {"pass": 1, "fail": 2, "not_applicable": 0, "invalid": 0},
        "not_applicable": {"pass": 1, "fail": 0, "not_applicable": 0, "invalid": 0},
    }
    assert found["fail_recall"] == pytest.approx(2 / 3) and found["pass_recall"] == 1.0
    assert found["fail_precision"] == 1.0 and found["agreement"] == pytest.approx(4 / 6)
    assert found["counts"]["fail_recall"] == [2, 3]
    low, high = found["intervals"]["fail_recall"]
    assert low < 2 / 3 < high
    assert [(d["id"], d["expected"], d["verdict"]) for d in found["disagreements"]] == [
        ("c", "fail", "pass"), ("f", "not_applicable", "pass"),
    ]  # fmt: skip
    cited = found["disagreements"][0]
    assert cited["entries"] == [{"n": 2, "text": "[2] message assistant: Maybe you may."}]
    assert cited["evidence"] == [{"quote": "you may", "verified": True, "entry": 2}]
    assert not shop.record_path.exists()


def test_text_is_for_a_terminal_and_says_what_a_person_needs(shop):
    done = shop.run()
    assert done.code == 0, done.err
    assert "fail recall         0.667  [0." in done.out and "2 of 3" in done.out
    assert "c: labelled fail by Ada Example, judged pass" in done.out
    assert "[2] message assistant: Maybe you may." in done.out
    assert "\\x1b[31m" in done.out and "\x1b" not in done.out


def test_the_hooks_own_prompt_is_sent(shop):
    shop.run()
    content = shop.server.requests[0].json["messages"][1]["content"]
    assert content.startswith("TRANSCRIPT ") and "Judge by tone." in content and "REPLY FORMAT" in content


def test_verdicts_are_reused_until_the_definition_changes(shop):
    shop.run()
    assert len(shop.server.requests) == 6
    done = shop.run()
    assert len(shop.server.requests) == 6 and "6 verdicts were had already" in done.err
    shop.run("--fresh")
    assert len(shop.server.requests) == 12
    shop.judge.write_text(judge_text("tone") + "description: Other bytes.\n")
    shop.run()
    assert len(shop.server.requests) == 18
    shop.run("--model", "other")
    assert len(shop.server.requests) == 24


def test_too_many_nulls_leave_no_figure(shop):
    shop.rows([row("a", "Yes.", "pass", "dev"), row("b", "Broken.", "fail", "dev")])
    done = shop.run("-o", "json")
    found = json.loads(done.out)
    assert done.code == 1 and found["invalid"] == {"bad_request": 1}
    assert found["agreement"] is None and "1 of 2 trials gave no verdict" in found["undefined"]["kappa"]
    assert found["disagreements"] == [] and found["confusion"] == {}
    found = shop.json("--max-invalid", "50%")
    assert found["agreement"] == 1.0 and found["n"] == 1
    assert found["confusion"]["fail"]["invalid"] == 1
    assert found["undefined"] == {
        "fail_recall": "no row is labelled fail",
        "fail_precision": "the judge never said fail",
        "kappa": "labels and verdicts are all one same word, so that chance alone agrees",
    }


def test_repeats_count_flips(shop):
    found = shop.json("--repeats", "3")
    assert len(shop.server.requests) == 18
    assert found["stability"]["rows"] == 6 and found["stability"]["flipped"] == 0


def test_floors_set_the_exit_code(shop):
    assert shop.run("--min-fail-recall", "0.6").code == 0
    done = shop.run("--min-fail-recall", "70%")
    assert done.code == 1 and "floor not reached: fail_recall is 0.6667, below the floor of 0.7" in done.out


def test_a_look_at_the_test_split_spends_it(shop):
    shop.test_rows()
    found = shop.json("--split", "test", "--min-fail-recall", "0.5")
    assert found["look"] == 1 and found["passed"]
    record = shop.record
    assert [len(look["rows"]) for look in record["looks"]] == [6]
    (result,) = record["results"]
    assert result["passed"] and result["figures"]["pass_recall"] == 1.0
    assert result["llm"] == {
        "provider": "openai", "model": "m", "response_model": "scripted-1",
        "endpoint": result["llm"]["endpoint"],
    }  # fmt: skip
    assert result["floors"] == {"min_fail_recall": 0.5, "certify": False}

    done = shop.run("--split", "test")
    assert done.code == 2 and "6 rows of the test split were looked at before" in done.err
    shop.judge.write_text(judge_text("tone") + "description: Tuned.\n")
    assert shop.run("--split", "test").code == 2
    assert len(shop.record["looks"]) == 1

    assert shop.run("--split", "test", "--certify", "--min-fail-recall", "0.1", "--again", "x").code == 2
    found = shop.json("--split", "test", "--again", "The wording was changed")
    assert found["look"] == 2
    assert shop.record["looks"][1]["reason"] == "The wording was changed"
    assert [result["look"] for result in shop.record["results"]] == [1, 2]


def test_a_changed_label_or_split_after_a_look_is_refused(shop):
    shop.test_rows()
    shop.run("--split", "test")
    fresh = [row("z", "Never again.", "fail", "test")]
    old = [row(id, said, label, "dev") for id, said, label in LABELS]
    shop.rows([*old, *fresh])
    done = shop.run("--split", "test")
    assert done.code == 2 and "6 rows moved into or out of the test split" in done.err
    relabelled = row("c", "Maybe you may.", "pass", "test")
    shop.rows([*fresh, relabelled])
    done = shop.run("--split", "test")
    assert "the label of 1 rows changed after they were looked at: c" in done.err
    shop.rows(fresh)
    assert shop.json("--split", "test")["look"] == 1


def test_a_row_under_another_id_is_the_same_row(shop):
    shop.test_rows()
    shop.run("--split", "test")
    shop.test_rows([("new-a", "Yes, you may.", "pass")])
    assert "1 rows of the test split were looked at before: new-a" in shop.run("--split", "test").err


def test_a_look_without_a_result_goes_on(shop):
    shop.test_rows([*LABELS, ("g", "Broken.", "pass")])
    done = shop.run("--split", "test")
    assert done.code == 1 and "no figure is stated" in done.err
    assert len(shop.record["looks"]) == 1 and shop.record["results"] == []
    calls = len(shop.server.requests)
    found = shop.json("--split", "test", "--max-invalid", "0.5")
    assert found["look"] == 1 and len(shop.server.requests) == calls + 1
    assert len(shop.record["looks"]) == 1 and len(shop.record["results"]) == 1


def test_certifying_asks_the_lower_bound(shop):
    shop.test_rows()
    done = shop.run("--split", "test", "--certify", "--min-pass-recall", "0.9")
    assert done.code == 1 and "the lower bound of pass_recall is" in done.out
    assert shop.record["results"][0]["passed"] is False


def test_nothing_is_recorded_where_the_model_cannot_be_asked(shop):
    shop.test_rows()
    shop.judge.write_text(judge_text("tone", llm="  provider: anthropic\n"))
    done = shop.run("--split", "test")
    assert done.code == 2 and "ANTHROPIC_API_KEY" in done.err
    assert not shop.record_path.exists()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--split", "train"], "no labelled row stands in the split train"),
        (["--certify"], "only floors on the test split"),
        (["--max-invalid", "6"], "no share"),
        (["--again", " "], "blank reason"),
        (["--repeats", "0"], "repeats cannot be"),
        (["--concurrency", "-1"], "cannot be"),
        (["--dataset", "none.jsonl"], "cannot be read"),
        (["--probes", "settings.json"], "not what `probe -o json` prints"),
    ],
)
def test_what_cannot_be_is_told(shop, argv, told):
    done = shop.run(*argv)
    assert done.code == 2 and told in done.err
    assert shop.server.requests == []


def test_rows_that_the_gate_lets_pass_by_are_told(shop):
    gate = '  - {event: message, match: {role: assistant, text: "/^Yes/"}}\n'
    shop.judge.write_text(judge_text("tone", on=gate))
    assert "3 of 6 rows never reach this judge in the hook" in shop.json()["warnings"][0]


def test_rows_without_an_approver_are_refused(shop):
    shop.rows([row("a", "Yes.", "pass", "dev", approved_by=None)])
    done = shop.run()
    assert done.code == 2 and "a has a label and nobody who approves it" in done.err


def test_a_torn_record_is_never_written_over(shop):
    shop.test_rows()
    shop.record_path.write_text('{"judge": "tone", "looks": [')
    assert "the calibration record is not valid" in shop.run("--split", "test").err
    assert shop.record_path.read_text() == '{"judge": "tone", "looks": ['


def test_reports(shop):
    done = shop.run("--html", "r.html", "--markdown", "r.md", "--junit", "r.xml")
    assert done.code == 0
    page = (shop.folder / "r.html").read_text()
    assert "default-src 'none'" in page.replace("&#x27;", "'") and "<script" not in page
    assert "Maybe you may." in page and "labelled <strong>fail</strong>" in page
    assert "| fail recall | 0.667 |" in (shop.folder / "r.md").read_text()
    assert 'failures="2"' in (shop.folder / "r.xml").read_text()


def test_the_live_rate_is_corrected_by_the_record(shop):
    shop.test_rows()
    shop.run("--split", "test")
    result = shop.record["results"][0]
    found = shop.json("--split", "test", "--again", "to have the id")
    events = []
    for number in range(40):
        llm = {"endpoint": result["llm"]["endpoint"], "response_model": "scripted-1" if number else "other"}
        payload = {
            "judge_id": found["judge_id"], "judgement_id": f"j{number}", "grading_key": f"g{number}",
            "definition_hash": result["definition_hash"], "contract_version": "1", "llm": llm,
            "result": "pass" if number % 2 else "fail",
        }  # fmt: skip
        events.append(json.dumps({"event_name": "introspection.judgement", "payload": payload}))
    (shop.folder / "events.jsonl").write_text("\n".join([*events, "{torn", "[]"]))
    live = shop.json("--correct", "events.jsonl")
    assert (live["n"], live["left_out"], live["observed"]) == (39, 1, pytest.approx(20 / 39))
    # Of the test rows, passes are always passed and two of three fails are failed.
    assert live["corrected"] == pytest.approx((20 / 39 + 2 / 3 - 1) / (1 + 2 / 3 - 1))
    assert live["interval"][0] <= live["corrected"] <= live["interval"][1]


def test_an_interrupted_run_goes_on_where_it_ended(shop):
    shop.test_rows()
    slow = []

    def answer_or_wait(request):
        return says(request) if len(server.requests) <= 3 or not slow else chat("{}", delay_s=30)

    environ = {
        **os.environ,
        "OPENAI_API_KEY": "sk-canary-0123456789abcdef",
        "SANDBOX_JUDGE_STATE_DIR": str(shop.folder / "state"),
        "SANDBOX_JUDGE_CONFIG_DIR": str(shop.folder / "config"),
    }
    words = ["--split", "test", "--concurrency", "1"]
    with ModelServer(answer_or_wait, by_request=True) as server:
        slow.append(True)
        (shop.folder / "settings.json").write_text(
            json.dumps({"providers": {"openai": {"base_url": server.base_url}}})
        )
        command = [sys.executable, "-m", "sandbox_judge", "calibrate", "tone", "--insecure"]
        child = subprocess.Popen(
            [*command, "--settings", "settings.json", *words],
            cwd=shop.folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until = time.monotonic() + 40
        while len(server.requests) < 4 and time.monotonic() < until:
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=20)
        assert child.returncode == 130, err
        assert "what was graded is kept" in err and "Traceback" not in err
        assert len(shop.record["looks"]) == 1 and shop.record["results"] == []
        slow.clear()
        asked = len(server.requests)
        found = shop.json(*words)
    assert found["look"] == 1 and found["n"] == 6
    assert len(server.requests) == asked + 3
    assert len(shop.record["looks"]) == 1 and len(shop.record["results"]) == 1

"""The state of a judge in the hook: at the pinned commit, on events and in the ledger."""

import json
import subprocess

import pytest
from calibration.made_rows import row, write_set
from cli.surfaces import run_main
from recipes import committed, judge_text

from sandbox_judge.testing.answers import chat, error
from sandbox_judge.testing.model_server import ModelServer

TALK = [{"role": "user", "content": "May I?"}, {"role": "assistant", "content": "You may."}]
ANSWER = json.dumps({"reasoning": "It holds.", "evidence": [], "verdict": "pass"})
GIT = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.test"]


class Shop:
    """A recipe with two judges, one of them calibrated at its first commit."""

    def __init__(self, folder, server, floors=("--min-pass-recall", "0.5")):
        self.folder, self.server, self.model = folder, server, "m-1"
        self.recipe = folder / "recipe"
        committed(
            self.recipe,
            {
                "judges/tone.yaml": judge_text("tone"),
                "judges/facts.yaml": judge_text("facts"),
                "package.json": '{"name": "shop"}',
            },
        )
        (folder / "settings.json").write_text(
            json.dumps({"providers": {"openai": {"base_url": server.base_url}}})
        )
        (folder / "talk.json").write_text(json.dumps(TALK))
        write_set(self.dataset, [row("a", "Yes", "pass", "test"), row("b", "Sure", "pass", "test")])
        assert self.main("calibrate", "tone", "--split", "test", "--recipe", self.recipe, *floors).code == 0

    @property
    def dataset(self):
        return self.recipe / "judges" / "tone.calibration.jsonl"

    def main(self, *argv):
        environ = {
            "OPENAI_API_KEY": "sk-canary-0123456789abcdef",
            "SANDBOX_JUDGE_STATE_DIR": str(self.folder / "state"),
            "SANDBOX_JUDGE_CONFIG_DIR": str(self.folder / "config"),
            "PATH": "/usr/bin:/bin:/usr/local/bin",
        }
        settings = ["--settings", self.folder / "settings.json", "--insecure"]
        return run_main(*argv, *settings, environ=environ, cwd=self.folder)

    def commit(self):
        for command in (["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "calibrated"]):
            subprocess.run([*GIT, "-C", str(self.recipe), *command], check=True)
        done = subprocess.run(
            ["git", "-C", str(self.recipe), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def run(self, *more, commit=None):
        """The states by judge, of the events and of the ledger."""
        words = ["--recipe", self.recipe, "--report", "json", *more]
        if "--worktree" not in more:
            words += ["--commit", commit or self.commit()]
        done = self.main("run", "talk.json", *words)
        events = [json.loads(line)["payload"] for line in done.lines]
        ledger = json.loads(done.err.splitlines()[-1])
        told = {line["name"]: line.get("calibration") for line in ledger["judges"]}
        assert told == {event["judge_name"]: event.get("calibration") for event in events}
        return told


@pytest.fixture
def shop(tmp_path):
    def answer(request):
        return chat(ANSWER, model=made.model) if made.model else error(400, "no")

    with ModelServer(answer, by_request=True) as server:
        made = Shop.__new__(Shop)
        made.model = "m-1"
        made.__init__(tmp_path, server)
        yield made


def test_a_judge_is_calibrated_at_the_commit_that_holds_its_record(shop):
    assert shop.run() == {"tone": "calibrated", "facts": "uncalibrated"}
    first = subprocess.run(
        ["git", "-C", str(shop.recipe), "rev-list", "--max-parents=0", "HEAD"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert shop.run(commit=first.stdout.strip())["tone"] == "uncalibrated"


def test_another_definition_set_or_model_makes_it_stale(shop):
    shop.model = "m-2"
    assert shop.run()["tone"] == "stale"
    shop.model = "m-1"
    assert shop.run()["tone"] == "calibrated"
    write_set(shop.dataset, [row("a", "Yes", "pass", "test")])
    assert shop.run()["tone"] == "stale"
    shop.dataset.unlink()
    assert shop.run()["tone"] == "stale"


def test_a_changed_definition_is_stale_and_a_dry_run_reads_the_disk(shop):
    assert shop.run("--worktree")["tone"] == "calibrated"
    (shop.recipe / "judges" / "tone.yaml").write_text(judge_text("tone") + "description: New words.\n")
    assert shop.run("--worktree")["tone"] == "stale"
    assert shop.run() == {"tone": "stale", "facts": "uncalibrated"}


def test_a_record_that_cannot_be_read_proves_nothing(shop):
    (shop.recipe / "judges" / "tone.calibration.record.json").write_text("{")
    assert shop.run()["tone"] == "uncalibrated"


def test_nulls_have_no_state(shop):
    shop.model = None
    assert shop.run() == {"tone": None, "facts": None}


def test_check_says_the_state(shop):
    def checked():
        done = run_main("check", shop.recipe, "-o", "json")
        return json.loads(done.out)["calibration"], done

    assert checked()[0] == {"tone": "calibrated", "facts": "uncalibrated"}
    assert "tone: calibrated" in run_main("check", shop.recipe).out
    (shop.recipe / "judges" / "tone.yaml").write_text(judge_text("tone") + "description: New words.\n")
    assert checked()[0]["tone"] == "stale"
    (shop.recipe / "judges" / "tone.calibration.record.json").write_text("{")
    states, done = checked()
    assert states["tone"] == "uncalibrated" and "record is not valid" in done.err


def test_a_look_without_a_floor_is_recorded_and_proves_nothing(tmp_path):
    with ModelServer(chat(ANSWER, model="m-1")) as server:
        shop = Shop(tmp_path, server, floors=())
        assert (shop.recipe / "judges" / "tone.calibration.record.json").exists()
        assert shop.run()["tone"] == "uncalibrated"

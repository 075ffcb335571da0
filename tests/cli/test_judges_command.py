"""`judges`: live settings are shown and changed, never a definition; a change is kept with who and why."""

import json
import threading

import pytest
from recipes import committed, judge_text
from surfaces import run_main


class Place:
    def __init__(self, folder):
        self.folder = folder
        self.recipe = folder / "recipe"
        self.commit = committed(
            self.recipe,
            {
                "judges/a.yaml": judge_text("a"),
                "judges/b.yaml": judge_text("b"),
                "package.json": '{"name": "shop"}',
            },
        )
        self.environ = {
            "SANDBOX_JUDGE_CONFIG_DIR": str(folder / "config"),
            "SANDBOX_JUDGE_RECIPE": str(self.recipe),
            "USER": "operator",
        }
        self.settings = folder / "config" / "settings.json"
        self.history = folder / "config" / "settings.history.jsonl"

    def run(self, *words):
        return run_main("judges", *words, environ=self.environ, cwd=self.folder)

    def listed(self):
        return {row["name"]: row for row in json.loads(self.run("list", "-o", "json").out)["judges"]}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_list_shows_what_is_in_force(place):
    rows = place.listed()
    assert set(rows) == {"a", "b"}
    assert rows["a"]["enabled"] is True
    assert rows["a"]["sample_rate"] == 1.0
    assert rows["a"]["calibration"] == "uncalibrated"
    assert rows["a"]["definition_hash"].startswith("sha256:")
    assert place.commit in place.run("list").out


def test_a_change_is_written_read_back_and_kept(place):
    before = place.listed()["a"]
    done = place.run("disable", "a", "--why", "too noisy")
    assert done.code == 0, done.err
    after = place.listed()["a"]
    assert after == {**before, "enabled": False}
    (entry,) = map(json.loads, place.history.read_text().splitlines())
    assert (entry["judge"], entry["change"], entry["was"], entry["why"]) == (
        "a",
        {"enabled": False},
        {"enabled": True},
        "too noisy",
    )
    assert entry["who"].startswith("operator")
    assert place.settings.stat().st_mode & 0o077 == 0


def test_everything_else_in_the_file_stays(place):
    place.run("disable", "a")
    value = json.loads(place.settings.read_text())
    value["providers"] = {"openai": {"api_key_env": "GATEWAY_KEY"}}
    place.settings.write_text(json.dumps(value))
    assert place.run("sample-rate", "b", "0.25").code == 0
    written = json.loads(place.settings.read_text())
    assert written["providers"] == value["providers"]
    assert written["recipes"]["shop"]["judges"] == {"a": {"enabled": False}, "b": {"sample_rate": 0.25}}


def test_an_uncalibrated_judge_is_not_let_onto_live_traffic_without_a_reason(place):
    place.run("disable", "a")
    place.run("sample-rate", "b", "0")
    for words in (["enable", "a"], ["sample-rate", "b", "0.5"]):
        done = place.run(*words)
        assert done.code == 1
        assert "calibrate" in done.err
    assert place.listed()["a"]["enabled"] is False
    assert place.run("enable", "a", "--uncalibrated", "a trial").code == 0
    assert json.loads(place.history.read_text().splitlines()[-1])["why"] == "a trial"
    assert place.run("sample-rate", "a", "0.5").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["disable", "nobody"],
        ["sample-rate", "a", "2"],
        ["sample-rate", "a", "nan"],
        ["sample-rate", "a", "x"],
        ["set"],
    ],
)
def test_what_cannot_be_changes_nothing(place, words):
    assert place.run(*words).code == 2
    assert not place.settings.exists()


def test_settings_in_yaml_are_not_rewritten(place):
    place.run("disable", "a")
    place.settings.write_text("version: 1  # by hand\n")
    done = place.run("disable", "b")
    assert done.code == 2
    assert place.settings.read_text() == "version: 1  # by hand\n"


def test_two_changes_at_once_are_both_kept(place):
    threads = [threading.Thread(target=place.run, args=("disable", name)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {name: row["enabled"] for name, row in place.listed().items()} == {"a": False, "b": False}
    assert len(place.history.read_text().splitlines()) == 2


def test_a_link_to_settings_stays_a_link_and_its_file_is_changed(place):
    real = place.folder / "real" / "settings.json"
    real.parent.mkdir(mode=0o700)
    real.write_text('{"version": 1}')
    link = place.folder / "link.json"
    link.symlink_to(real)
    assert place.run("disable", "a", "--settings", link).code == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["recipes"]["shop"]["judges"]["a"] == {"enabled": False}


def test_what_is_no_file_is_not_replaced(place):
    assert place.run("disable", "a", "--settings", "/dev/null").code == 2
    assert place.run("disable", "a", "--settings", place.folder).code == 2

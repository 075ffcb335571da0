"""Installing: by parsers, in others' files, shown, twice without a difference, undone to the byte."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.hosts.host import NAMES, host_named
from sandbox_judge.hosts.jsonc import JsoncError, Refused, parse, with_item, without_item
from sandbox_judge.hosts.shapes import cleared, edited

COMMENTED = """\
\ufeff// mine
{
\t/* kept */ "model": "x", // and this
\t"hooks": {
\t\t"Stop": [
\t\t\t{"hooks": [{"type": "command", "command": "other"}]} // theirs
\t\t],
\t},
}
"""
COMMAND = "/data/hooks/shim"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON, st.sampled_from([None, 2, "\t"]))
def test_every_document_reads_as_json_has_it(value, indent):
    assert parse(json.dumps(value, indent=indent)).plain() == value


@given(st.text(alphabet='{}[]",:/*\\n1a \n', max_size=40))
def test_no_text_is_read_otherwise_than_json_reads_it(text):
    try:
        mine = parse(text).plain()
    except JsoncError:
        with pytest.raises(ValueError):
            json.loads(text)
        return
    without = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    try:
        assert json.loads(without) == mine
    except ValueError:
        assert "," in text  # a trailing comma is ours alone


@settings(max_examples=50)
@given(st.lists(JSON, max_size=4), JSON, st.sampled_from([None, 2, "\t"]))
def test_adding_and_taking_away_gives_the_value_back(items, item, indent):
    text = json.dumps(items, indent=indent)
    more = with_item(text, parse(text), item)
    assert parse(more).plain() == [*items, item]
    less = without_item(more, parse(more), len(items))
    assert parse(less).plain() == items


@settings(max_examples=50)
@given(st.dictionaries(st.text(), JSON, max_size=4), st.sampled_from([None, 4]), st.data())
def test_taking_any_member_away_leaves_the_others(members, indent, data):
    if not members:
        return
    text = json.dumps(members, indent=indent)
    at = data.draw(st.integers(0, len(members) - 1))
    left = parse(without_item(text, parse(text), at)).plain()
    assert left == {k: v for n, (k, v) in enumerate(members.items()) if n != at}


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', '{"a": 1 "b": 2}', "[1,,2]", "/* x", '{"a": \u00fc}', "[" * 999]
)
def test_what_does_not_parse_is_told_with_its_place(text):
    with pytest.raises(JsoncError, match=r"line \d+, column \d+"):
        parse(text)


def test_comments_order_and_others_entries_stay():
    host = host_named("claude-code")
    new = edited(COMMENTED, host, COMMAND, "idle")
    for kept in ("// mine", "/* kept */", "// and this", "// theirs", '"command": "other"', "\ufeff"):
        assert kept in new
    value = parse(new).plain()
    assert [hook["hooks"][0]["command"] for hook in value["hooks"]["Stop"]] == ["other", COMMAND]
    assert value["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] == 60
    assert edited(new, host, COMMAND, "idle") == new
    assert "SessionEnd" not in edited(new, host, COMMAND, "turn")
    assert parse(cleared(new, host, COMMAND)).plain() == parse(COMMENTED).plain()


def test_windows_line_ends_stay():
    text = '{\r\n  "a": 1\r\n}\r\n'
    new = edited(text, host_named("gemini-cli"), COMMAND, "session-end")
    assert new.count("\r\n") == new.count("\n")
    assert parse(new).plain()["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] == 60_000


@pytest.mark.parametrize("text", ["[]", '{"hooks": 3}', '{"hooks": {"SessionEnd": {}}}', "{,}", "nonsense"])
def test_a_configuration_of_another_shape_is_refused(text):
    with pytest.raises(Refused):
        edited(text, host_named("claude-code"), COMMAND, "session-end")


def test_openhands_own_layout_is_not_mixed_with_the_other():
    host = host_named("openhands")
    assert parse(edited('{"stop": []}', host, COMMAND, "turn")).plain()["stop"][0]["matcher"] == "*"
    assert "Stop" in parse(edited(None, host, COMMAND, "turn")).plain()["hooks"]


def test_codex_calls_one_program_only():
    host = host_named("codex-notify")
    text = '# mine\nmodel = "x" # why\n\n[tui]\na = 1\n'
    new = edited(text, host, COMMAND, "idle")
    assert new.endswith(text)
    assert edited(new, host, COMMAND, "idle") == new
    assert cleared(new, host, COMMAND) == text
    with pytest.raises(Refused, match="only one"):
        edited('notify = ["other"]\n', host, COMMAND, "idle")
    with pytest.raises(Refused, match="does not parse"):
        edited("notify = [", host, COMMAND, "idle")


EXISTING = {
    "claude-code": (".claude/settings.json", '{\n  // mine\n  "model": "x"\n}\n'),
    "codex-notify": (".codex/config.toml", 'model = "x"  # mine\n'),
}


@pytest.mark.parametrize("name", ["claude-code", "codex-notify", "goose", "cline"])
def test_installed_twice_shown_and_undone_to_the_byte(stage, name):
    before = None
    if name in EXISTING:
        path = stage.home / EXISTING[name][0]
        path.parent.mkdir()
        path.write_text(EXISTING[name][1])
        path.chmod(0o640)
        before = path.read_bytes()
    at_first = {path for path in stage.home.rglob("*") if ".config/sandbox-judge" not in str(path)}
    words = ("install", name, "--recipe", stage.recipe)
    assert "\n+" in stage.hooks(*words, "--dry-run")
    assert {p for p in stage.home.rglob("*") if ".config/sandbox-judge" not in str(p)} == at_first
    assert "\n+" in stage.hooks(*words)
    listed = json.loads(stage.hooks("list", "-o", "json"))
    assert [(row["host"], row["fault"]) for row in listed] == [(name, None)]
    files = {path: path.read_bytes() for path in stage.home.rglob("*") if path.is_file()}
    assert "already" in stage.hooks(*words)
    again = {path: path.read_bytes() for path in stage.home.rglob("*") if path.is_file()}
    assert again == files
    stage.hooks("uninstall", name)
    left = {path for path in stage.home.rglob("*") if ".config/sandbox-judge" not in str(path)}
    ours = {stage.home / ".local", stage.home / ".local/share", stage.home / ".local/share/sandbox-judge"}
    assert left - ours == at_first
    if before is not None:
        assert path.read_bytes() == before
        assert path.stat().st_mode & 0o777 == 0o640


def test_what_others_changed_meanwhile_stays(stage):
    path = stage.home / ".claude/settings.json"
    stage.hooks("install", "claude-code", "--recipe", stage.recipe)
    path.write_text(path.read_text().replace('{\n  "hooks"', '{\n  "added": true,\n  "hooks"'))
    stage.hooks("uninstall", "claude-code")
    assert json.loads(path.read_text()) == {"added": True, "hooks": {}}


def test_a_configuration_that_does_not_parse_is_left_untouched(stage):
    path = stage.home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text("{ this is not json")
    stage.hooks("install", "gemini-cli", "--recipe", stage.recipe, code=2)
    assert path.read_text() == "{ this is not json"
    assert not (stage.home / ".local").exists()


def test_somebody_elses_file_is_not_overwritten(stage):
    path = stage.home / "Documents/Cline/Hooks/TaskComplete"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho mine\n")
    stage.hooks("install", "cline", "--recipe", stage.recipe, code=2)
    assert path.read_text() == "#!/bin/sh\necho mine\n"


def test_a_projects_link_leads_nothing_out_of_it(stage):
    project = stage.folder / "pro ject"
    (project / ".claude").mkdir(parents=True)
    outside = stage.folder / "outside.json"
    outside.write_text("{}")
    (project / ".claude/settings.json").symlink_to(outside)
    words = ("install", "claude-code", "--scope", "project", "--project", project, "--recipe", stage.recipe)
    stage.hooks(*words, code=2)
    assert outside.read_text() == "{}"
    (project / ".claude/settings.json").unlink()
    stage.hooks(*words)
    command = json.loads((project / ".claude/settings.json").read_text())["hooks"]["SessionEnd"][0]["hooks"][
        0
    ]
    assert command["command"].startswith("/")
    assert "://" not in command["command"]


def test_the_command_stays_whatever_the_options(stage):
    """Codex trusts a hook by the hash of its command."""
    path = stage.home / ".codex/hooks.json"
    stage.hooks("install", "codex", "--recipe", stage.recipe)
    first = path.read_text()
    stage.hooks(
        "install", "codex", "--recipe", stage.recipe, "--environment", "production", "--commit", "c" * 40
    )
    assert path.read_text() == first


def test_list_tells_what_does_not_work(stage):
    stage.hooks("install", "gemini-cli", "--recipe", stage.recipe)
    shim = stage.home / ".local/share/sandbox-judge/hooks/gemini-cli"
    shim.write_text("#!/bin/sh\nexit 0\n")
    assert "it said" in stage.hooks("list", code=1)
    shim.unlink()
    assert "is gone" in stage.hooks("list", code=1)


def test_nothing_is_installed_without_a_recipe_or_for_a_stranger(stage):
    environ = {key: value for key, value in stage.environ.items() if key != "SANDBOX_JUDGE_RECIPE"}
    stage.hooks("install", "pi", code=2, environ=environ)
    stage.hooks("install", "nobody", "--recipe", stage.recipe, code=2)
    stage.hooks("install", "codex-notify", "--scope", "project", "--recipe", stage.recipe, code=2)
    assert "nothing is installed" in stage.hooks("list")
    assert all(name in stage.hooks("list") for name in NAMES)

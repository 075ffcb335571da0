"""`check`: every fault and doubt of every file, ordered; the command on a real folder; `init judge`."""

import argparse
import importlib.util
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox_judge.cli import check as check_command
from sandbox_judge.cli import init as init_command
from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import RecipeError, UsageError
from sandbox_judge.gate.language import RegexLiteral
from sandbox_judge.recipe import rest
from sandbox_judge.recipe.check import check_recipe
from sandbox_judge.recipe.diagnostics import CODES
from sandbox_judge.recipe.template import judge_template

PLAIN = b"name: tone\ninstructions: Judge the tone.\nllm:\n  model: gpt-5\n"


def gate(event: str, match: str) -> bytes:
    return PLAIN + f"on:\n- event: {event}\n  match: {match}\n".encode()


def found(content: bytes) -> list[tuple[str, str, str]]:
    report = check_recipe([("judges/tone.yaml", content)])
    return [(d.severity, d.code.removeprefix("judge."), d.message) for d in report.diagnostics]


@pytest.mark.parametrize(
    ("content", "code", "part"),
    [
        (PLAIN + b"on: []\n", "on_invalid", "every conversation"),
        (PLAIN + b"on: {}\n", "on_invalid", "every conversation"),
        (PLAIN + b"on:\n", "on_invalid", "every conversation"),
        (gate("tool", "{text: /usr}"), "on.regex_invalid", "no second one"),
        (gate("tool", r'{text: "/\b\b/"}'), "on.regex_invalid", "control character"),
        (gate("tool", r'{text: "a\u0007"}'), "on.regex_invalid", "control character"),
        (gate("tool", "{text: //i}"), "on.regex_invalid", "empty pattern"),
        (gate("tool", "{text: '/ a/'}"), "on.regex_invalid", "blank"),
        (gate("tool", "{role: user}"), "on.match_field_invalid", "no field 'role'"),
        (gate("tool", "{args.: 1}"), "on.match_field_invalid", "no field"),
        (gate("message", "{role: user, status: ok}"), "on.match_field_invalid", "no field 'status'"),
        (gate("feedback", "{rating: 1}"), "on.match_field_invalid", "no field 'rating'"),
        (gate("message", "{text: hi}"), "on.match_invalid", "any role"),
        (gate("tool", "{args.country: no}"), "on.match_invalid", "read as false"),
        (gate("tool", "{args.n: [017]}"), "on.match_invalid", "read as 17.0"),
        (gate("tool", "{args.n: 1_000}"), "on.match_invalid", "read as 1000"),
        (gate("tool", "{args.n: 0b1}"), "on.match_invalid", "read as 1,"),
        (gate("tool", "{name: 5}"), "on.match_invalid", "read as 5"),
        (gate("tool", "{status: failed}"), "on.match_invalid", "never its value"),
        (gate("message", "{role: [user, bot]}"), "on.match_invalid", "'bot'"),
        (gate("tool", "{name: []}"), "on.match_invalid", "empty list"),
        (gate("tool", "{args: {a: 1}}"), "on.match_invalid", "equals it as JSON"),
        (PLAIN.replace(b"gpt-5", b"2025-08-07"), "llm.model_invalid", "date"),
        (PLAIN.replace(b"gpt-5", b"12:30:45"), "llm.model_invalid", "time"),
    ],
)
def test_what_is_valid_and_surely_not_meant_is_warned_of(content: bytes, code: str, part: str) -> None:
    report = check_recipe([("judges/tone.yaml", content)])
    assert report.valid
    (warning,) = report.diagnostics
    assert (warning.severity, warning.code) == ("warning", f"judge.{code}")
    assert warning.code in CODES
    assert part in warning.message
    assert warning.help and warning.line


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        gate("message", r"{role: user, text: ['/\bcard\b/i', plain, '']}"),
        gate("message", "{role: [user, assistant], parts.0.type: media, name: x}"),
        gate("tool", "{name: x, args.a.b: [1, true, ~, -0.5, 1e3], text: /a/, status: error, id: x}"),
        gate("feedback", "{name: x, sentiment: negative, value: 1, comments: /a/, properties.x.y: 'yes'}"),
        PLAIN.replace(b"gpt-5", b"'2025-08-07'"),
        judge_template("my-judge"),
    ],
)
def test_what_is_meant_is_not_warned_of(content: bytes) -> None:
    assert found(content) == []


def test_the_report_has_every_fault_of_every_file_by_path_then_position() -> None:
    broken = b"name: Tone\nllm: {model: '', request: {temperature: 9}}\non: {a: 1}\nextra: 1\n"
    report = check_recipe(
        [
            ("judges/z.yaml", broken),
            ("judges/b.yml", PLAIN + b"on: []\n"),
            ("judges/a.yaml", PLAIN),
            ("judges/sub/c.yaml", b"["),
            ("judges/d.YAML", b"["),
            ("SYSTEM.md", b"["),
        ],
        unreadable=[("judges/link.yaml", "is a symlink: put the file itself in its place.")],
    )
    assert not report.valid
    told = [(d.path, d.line, d.code.removeprefix("judge.")) for d in report.diagnostics]
    assert told == [
        ("judges/b.yml", None, "name_duplicate"),
        ("judges/b.yml", 5, "on_invalid"),
        ("judges/link.yaml", None, "unreadable"),
        ("judges/z.yaml", 1, "instructions_missing"),
        ("judges/z.yaml", 1, "name_invalid"),
        ("judges/z.yaml", 2, "llm.model_invalid"),
        ("judges/z.yaml", 2, "llm.request.temperature_invalid"),
        ("judges/z.yaml", 3, "on_invalid"),
        ("judges/z.yaml", 4, "unknown_field"),
    ]
    out = report.as_json()
    assert out["resources"] == {"judges": 4}
    assert out["diagnostics"][-1] == {
        "code": "judge.unknown_field",
        "path": "judges/z.yaml",
        "message": "the judge has the unknown field 'extra'",
        "span": {"line": 4, "column": 1},
        "help": "supported fields: description, instructions, judge, llm, name, on, type",
        "severity": "error",
    }


def test_a_slow_regex_is_told_of_by_the_probe() -> None:
    def probe(literal: RegexLiteral) -> str | None:
        return "12 s on 1 MB" if literal.pattern == "slow" else None

    content = gate("message", "{role: user, text: [/slow/, /slow/, /fast/, plain]}")
    (warning,) = check_recipe([("judges/a.yaml", content)], probe=probe).diagnostics
    assert (warning.severity, warning.code) == ("warning", "judge.on.regex_invalid")
    assert "12 s" in warning.message


class Ran:
    def __init__(self, command: Any, argv: list[str], cwd: Path) -> None:
        parser = argparse.ArgumentParser()
        command.add(parser.add_subparsers(required=True))
        out, err = io.BytesIO(), io.StringIO()
        surface = Surface(stdin=io.BytesIO(), stdout=out, stderr=err, environ={}, cwd=cwd)
        args = parser.parse_args(argv)
        self.code = args.run(args, surface)
        self.out, self.err = out.getvalue().decode(), err.getvalue()


def recipe(folder: Path, **judges: bytes) -> Path:
    (folder / "judges").mkdir()
    (folder / "SYSTEM.md").write_text("You help.\n")
    for name, content in judges.items():
        (folder / "judges" / f"{name}.yaml").write_bytes(content)
    return folder


def test_check_prints_place_severity_code_message_and_help(tmp_path: Path) -> None:
    ran = Ran(check_command, ["check"], recipe(tmp_path, tone=PLAIN + b"enabled: 1\n"))
    assert ran.code == 1
    lines = ran.out.splitlines()
    at = next(
        i
        for i, line in enumerate(lines)
        if line.startswith("judges/tone.yaml:5:1: error judge.unknown_field ")
    )
    assert lines[at + 1].startswith("    switching judges on and off is a live setting")
    assert lines[-1].startswith("checked 1 judge: 1 error, ")


def test_check_with_warnings_alone_succeeds(tmp_path: Path) -> None:
    ran = Ran(
        check_command, ["check", str(recipe(tmp_path, tone=PLAIN + b"on: []\n")), "-o", "json"], tmp_path
    )
    report = json.loads(ran.out)
    assert ran.code == 0
    assert report["valid"] is True
    assert [d["code"] for d in report["diagnostics"] if d["code"].startswith("judge.")] == [
        "judge.on_invalid"
    ]


def test_the_rest_of_the_recipe_is_checked_where_its_checker_is_installed(tmp_path: Path) -> None:
    folder = recipe(tmp_path, tone=PLAIN)
    (folder / "agents").mkdir()
    (folder / "agents" / "a.yaml").write_text("name: [\n")
    ran = Ran(check_command, ["check", "-o", "json"], folder)
    told = {d["code"]: d["severity"] for d in json.loads(ran.out)["diagnostics"]}
    assert told.pop("package.manifest_missing") == "warning"
    assert all(code.startswith("agent.") for code in told)
    assert "error" in told.values() and ran.code == 1
    assert not any(code.startswith("judge.") for code in told)


def test_without_that_checker_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(rest, "find_spec", lambda n: None if "recipe_check" in n else find_spec(n))
    ran = Ran(check_command, ["check"], recipe(tmp_path, tone=PLAIN))
    assert ran.code == 0
    assert ran.out == "checked 1 judge: 0 errors, 0 warnings\n"
    assert ran.err.count("\n") == 1 and "only the judges were checked" in ran.err


def test_links_pipes_and_large_files_are_unreadable_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_bytes(PLAIN)
    (tmp_path / "recipe").mkdir()
    folder = recipe(tmp_path / "recipe", big=b"#" * (20 << 20))
    (folder / "judges" / "link.yaml").symlink_to(outside)
    os.mkfifo(folder / "judges" / "pipe.yaml")
    ran = Ran(check_command, ["check", "-o", "json"], folder)
    report = json.loads(ran.out)
    told = [d["path"] for d in report["diagnostics"] if d["code"] == "judge.unreadable"]
    assert told == [f"judges/{name}.yaml" for name in ("big", "link", "pipe")]
    assert report["resources"] == {"judges": 3}
    assert ran.code == 1


def test_hostile_names_and_texts_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    folder = recipe(tmp_path)
    raw = os.fsencode(folder / "judges") + b"/\x1b[31m\xff\n.yaml"
    Path(os.fsdecode(raw)).write_bytes(b'name: tone\n"\\e[2J\\u202e": 1\n')
    ran = Ran(check_command, ["check"], folder)
    assert not any(c in ran.out for c in "\x1b\u202e")
    assert ran.code == 1
    assert json.loads(Ran(check_command, ["check", "-o", "json"], folder).out)["valid"] is False


def test_no_judges_and_no_folder(tmp_path: Path) -> None:
    ran = Ran(check_command, ["check"], tmp_path)
    assert ran.code == 0
    assert "there is no judges/" in ran.err
    with pytest.raises(RecipeError):
        Ran(check_command, ["check", "absent"], tmp_path)


def test_init_writes_a_judge_that_check_has_nothing_to_say_about(tmp_path: Path) -> None:
    ran = Ran(init_command, ["init", "judge", "refund-policy"], tmp_path)
    assert (ran.code, ran.out) == (0, "judges/refund-policy.yaml\n")
    content = (tmp_path / "judges" / "refund-policy.yaml").read_bytes()
    assert content.startswith(b"# yaml-language-server: $schema=")
    assert found(content) == []


def test_init_never_overwrites(tmp_path: Path) -> None:
    folder = recipe(tmp_path)
    (folder / "judges" / "tone.yml").write_bytes(b"mine")
    (folder / "judges" / "other.yaml").symlink_to("nowhere")
    for name in ("tone", "other"):
        with pytest.raises(UsageError, match="something already"):
            Ran(init_command, ["init", "judge", name, "--dir", str(folder)], folder)
    assert sorted(p.name for p in (folder / "judges").iterdir()) == ["other.yaml", "tone.yml"]
    assert (folder / "judges" / "tone.yml").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["Tone", "a--b", "-a", "../a", "a/b", "a\n", "", "a" * 251])
def test_init_refuses_what_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        Ran(init_command, ["init", "judge", "--", name], tmp_path)
    assert list(tmp_path.iterdir()) == []

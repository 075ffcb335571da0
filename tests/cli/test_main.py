"""The command table and its one error boundary."""

import pytest
from surfaces import run_main

from sandbox_judge.cli.main import COMMANDS
from sandbox_judge.version import __version__


def test_version_and_help():
    assert run_main("--version").out.strip() == f"sandbox-judge {__version__}"
    done = run_main("--help")
    assert done.code == 0
    for command, (_, does) in COMMANDS.items():
        assert f"  {command} " in done.out
        assert does in done.out


def test_no_command_on_a_terminal_is_help():
    done = run_main(terminal=True)
    assert (done.code, "commands:" in done.out) == (0, True)


# The thin client needs a process of its own; tests/test_client.py runs it.
@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"call"}))
def test_every_command_has_help_and_refuses_what_it_does_not_know(command):
    done = run_main(command, "--help")
    assert done.code == 0
    assert "everywhere:" in done.out
    done = run_main(command, "--no-such-flag")
    assert done.code == 2
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "words", [["fly"], ["fly", "--help"], ["/no/such/file.json"], ["run", "--budget", "soon"]]
)
def test_what_cannot_be_is_said_in_one_paragraph(words):
    done = run_main(*words, stdin=b"[]")
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1


def test_exit_zero_holds_whatever_happens():
    assert run_main("--exit-zero", "fly").code == 0
    assert run_main("run", "--exit-zero", "/no/such/file").code == 0
    assert run_main("run", "--no-such-flag", "--exit-zero").code == 0


def test_a_bug_is_told_in_a_few_lines_without_the_users_values(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("token=sk-secretsecretsecret")

    monkeypatch.setattr("sandbox_judge.cli.schema.run", broken)
    done = run_main("schema", "judge")
    assert done.code == 70
    assert "ZeroDivisionError" in done.err
    assert "sk-secretsecretsecret" not in done.err
    assert "Traceback" not in done.err


def test_a_bug_inside_a_task_group_is_told_as_itself_and_without_the_keys_in_use(monkeypatch):
    def broken(*_):
        raise ExceptionGroup("tasks", [ExceptionGroup("tasks", [KeyError("open sesame")])])

    monkeypatch.setattr("sandbox_judge.cli.schema.run", broken)
    done = run_main("schema", "judge", environ={"FERN_API_KEY": "open sesame"})
    assert done.code == 70
    assert "KeyError" in done.err
    assert "sesame" not in done.err


def test_a_limit_of_processes_is_no_bug_of_ours(monkeypatch):
    def broken(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("sandbox_judge.cli.schema.run", broken)
    done = run_main("schema", "judge")
    assert done.code == 2
    assert "Raise the limit of processes" in done.err


def test_global_flags_stand_on_either_side_of_the_command():
    for words in (["-q", "schema", "judge"], ["schema", "judge", "-q"], ["schema", "-q", "judge"]):
        assert run_main(*words).code == 0

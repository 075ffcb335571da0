import io
import json
from pathlib import Path

import pytest

from sandbox_judge.cli.main import main
from sandbox_judge.cli.surface import Surface
from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.grading.view import build_view

TWO = "\n".join(
    json.dumps({"id": id, "messages": [{"role": "user", "content": f"hi {id}\x1b[31m\u200b"}]})
    for id in ("a", "b")
).encode()
ONE = TWO.split(b"\n")[0]


@pytest.fixture
def call(tmp_path):
    def run(*argv, stdin=b"", terminal=False):
        surface = Surface(
            stdin=io.BytesIO(stdin),
            stdout=io.BytesIO(),
            stderr=io.StringIO(),
            environ={},
            cwd=Path(tmp_path),
            stdout_is_terminal=terminal,
            stdin_is_terminal=terminal and not stdin,
        )
        code = main(["view", *argv], surface)
        return code, surface.stdout.getvalue().decode(), surface.stderr.getvalue()

    return run


def test_text_is_the_view(call, tmp_path):
    expected = build_view(read_conversation(ONE)).text + "\n"
    assert call(stdin=ONE) == (0, expected, "")
    assert call("-", stdin=ONE) == (0, expected, "")
    (tmp_path / "one.json").write_bytes(ONE)
    assert call("one.json") == (0, expected, "")


def test_a_terminal_gets_nothing_that_acts_on_it(call):
    code, out, _ = call("-", stdin=ONE, terminal=True)
    assert code == 0 and "\x1b" not in out and "\u200b" not in out and "\\u200b" in out


def test_json_reads_back_to_itself(call):
    code, out, _ = call("-o", "json", stdin=ONE)
    document = json.loads(out)
    assert code == 0 and set(document) == {"conversation", "view", "sequence_hash", "left_out_chars"}
    again = call("-o", "json", stdin=json.dumps(document["conversation"]).encode())
    assert again[1] == out
    assert document["sequence_hash"] == build_view(read_conversation(ONE)).sequence_hash


def test_several_conversations(call):
    code, out, err = call(stdin=TWO)
    assert (code, out) == (2, "") and "a, b" in err and "--id" in err and "--all" in err
    assert "hi b" in call("--id", "b", stdin=TWO)[1]
    code, out, _ = call("--all", stdin=TWO)
    assert out.count("== ") == 2 and "hi a" in out and "hi b" in out
    lines = call("--all", "-o", "json", stdin=TWO)[1].splitlines()
    assert [json.loads(line)["conversation"]["id"] for line in lines] == ["a", "b"]
    assert call("--id", "c", stdin=TWO)[0] == 2
    assert call("--id", "a", "--all", stdin=TWO)[0] == 2


def test_an_envelope_is_opened(call):
    envelope = {
        "conversation": json.loads(ONE),
        "status": "aborted",
        "feedback": [{"name": "csat", "value": 1}],
    }
    code, out, _ = call(stdin=json.dumps(envelope).encode())
    assert code == 0 and "status cancelled" in out and "[2] feedback name=csat value=1" in out


def test_what_a_person_should_know_goes_to_stderr(call):
    _, out, err = call(stdin=b'[{"role": "critic", "content": "x"}, {"role": "tool", "content": "y"}]')
    assert "role_unknown" in err and "orphan_result" in err and "role_unknown" not in out
    assert "missing_context" in call(stdin=b"[]")[2]
    assert (
        "context_overflow" in call(stdin=json.dumps([{"role": "user", "content": "x" * 400_001}]).encode())[2]
    )
    assert call("-q", stdin=b"[]")[2] == ""


def test_reasoning_is_shown_on_request(call):
    data = b'[{"role": "assistant", "content": "x", "reasoning_content": "a plan"}]'
    assert "a plan" not in call(stdin=data)[1]
    assert "a plan" in call("--include-reasoning", stdin=data)[1]


@pytest.mark.parametrize(
    ("argv", "stdin", "told"),
    [
        (["nowhere.json"], b"", "nowhere.json: The conversation cannot be read (No such file"),
        (["."], b"", "cannot be read (Is a directory)"),
        (["a\0b"], b"", "cannot be read"),
        ([], b"", "stdin: There is no conversation"),
        ([], b"{", "stdin, line 1: The input is not JSON"),
        ([], b'{"role":"user","content":"a"}\n{"role":', "stdin: Line 2 is not JSON"),
        ([], b'{"colour": 1}', "an object with the keys 'colour'"),
        ([], b"7", "format is not known: a number"),
        ([], b"[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_input_is_one_paragraph_and_exit_2(call, argv, stdin, told):
    code, out, err = call(*argv, stdin=stdin)
    assert (code, out) == (2, "")
    assert told in err and err.count("\n") == 1


def test_a_terminal_without_a_file_is_told_what_to_do(call):
    code, _, err = call(terminal=True)
    assert code == 2 and "Name a file" in err

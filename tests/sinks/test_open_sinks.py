"""Addresses as users write them."""

import os
import re
import subprocess
import sys

import pytest

from sandbox_judge.errors import SandboxJudgeError, SettingsError, UsageError
from sandbox_judge.sinks.open import open_sinks


def opened(*addresses, **options):
    options = {"environ": {"TOKEN": "canary-1"}, "cwd": options.pop("cwd", None), **options}
    return open_sinks(addresses, **options)


def test_each_once_with_names_that_can_be_opened_from_anywhere(tmp_path):
    addresses = ["stdout", "file:f", "unix:s", "unix+ack:s", f"unix:{tmp_path}/s", "stdout"]
    sinks = opened(*addresses, "https://Example.org:8443/a#token_env=TOKEN", cwd=tmp_path)
    names = [sink.name for sink in sinks]
    assert names == [
        "stdout",
        f"file:{tmp_path}/f",
        f"unix:{tmp_path}/s",
        f"unix+ack:{tmp_path}/s",
        "https://example.org:8443/a#token_env=TOKEN",
    ]
    assert [sink.name for sink in opened(*names, cwd=tmp_path / "elsewhere")] == names
    assert [sink.spooled for sink in sinks] == [False, False, True, True, True]
    assert [sink.takes_ledger for sink in sinks] == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("address", "kind", "says"),
    [
        ("kafka://u:canary-2@host", UsageError, "'kafka' is no kind of sink.*stdout, file:PATH"),
        ("", UsageError, "no kind of sink"),
        ("stdout:", UsageError, "no kind of sink"),
        ("events.sock", UsageError, "no kind of sink"),
        ("otlp:x", SettingsError, "logs endpoint"),
        ("otlp:http://user:secret@host/v1/logs", SettingsError, "logs endpoint"),
        ("unix:", SettingsError, "no path"),
        ("unix:/", SettingsError, "no path of a socket"),
        ("unix:/a\0b", SettingsError, "no path"),
        ("unix:/\udcff", SettingsError, "not UTF-8"),
        ("unix:/" + "é" * 60, SettingsError, "121 bytes"),
        ("file:", SettingsError, "no path"),
        ("file:/nonexistent/x", SettingsError, "cannot be opened"),
        ("file:/dev", SettingsError, "cannot be opened"),
        ("http://example.org/", SettingsError, "loopback"),
        ("http://127.0.0.1.example.org/", SettingsError, "loopback"),
        ("https://user:canary-2@host/", SettingsError, "user name"),
        ("https://host/?key=canary-2", SettingsError, "query"),
        ("https://host/?", SettingsError, "query"),
        ("https://host/#canary-2", SettingsError, "token_env=NAME"),
        ("https://host/#token_env=", SettingsError, "token_env=NAME"),
        ("https://host/#token_env=UNSET", SettingsError, "UNSET.*is not set"),
        ("https://host/#token_env=ODD", SettingsError, "characters that no token has"),
        ("https:///path", SettingsError, "no host"),
        ("https:x", SettingsError, "no host"),
        ("https://host:99999/", SettingsError, "cannot be read"),
        ("https://[::1/", SettingsError, "cannot be read"),
        ("https://host/a b", SettingsError, "percent-encoded"),
        ("https://host/\n", SettingsError, "."),
    ],
)
def test_a_bad_address_is_told_without_its_secrets(tmp_path, address, kind, says):
    with pytest.raises(kind) as caught:
        open_sinks([address], environ={"TOKEN": "canary-1", "ODD": "canary-3\r\nX: y"}, cwd=tmp_path)
    assert caught.value.exit_code == 2
    text = caught.value.paragraph()
    assert re.search(says, text), text
    assert "canary" not in text


@pytest.mark.parametrize("address", ["unix:/s", "unix+ack:/s", "https://host/", "otlp:x"])
def test_a_dry_run_goes_to_stdout_or_a_file_only(tmp_path, address):
    with pytest.raises(UsageError, match="dry run"):
        opened(address, cwd=tmp_path, dry_run=True)
    assert len(opened("stdout", "file:x", cwd=tmp_path, dry_run=True)) == 2


def test_an_unwritable_file_is_found_before_the_run(tmp_path):
    (tmp_path / "d").mkdir()
    with pytest.raises(SandboxJudgeError, match="cannot be opened: Is a directory"):
        opened("file:d", cwd=tmp_path)


def test_no_http_client_is_loaded_for_sockets_and_files():
    code = (
        "import sys, pathlib\n"
        "from sandbox_judge.sinks.open import open_sinks\n"
        "import sandbox_judge.sinks.delivery\n"
        "open_sinks(['stdout', 'unix:/tmp/x'], environ={}, cwd=pathlib.Path('/'))\n"
        "print([name for name in ('h11', 'ssl', 'httpcore') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert done.stdout == "[]\n", done.stderr

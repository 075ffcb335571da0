"""The platform's exports, ATIF, ADK and Inspect, where the corpus and the recordings do not reach."""

import io
import json
import struct
import zipfile
import zlib

import pytest
import zstandard
from introspection_sdk import atif as sdk_atif
from introspection_sdk.schemas.genai_span import GenAiSpanList

from sandbox_judge.conversation.inspect_archive import unpack
from sandbox_judge.conversation.model import CONTENT_MISSING, Message, Text, ToolCall, ToolResult
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view


def said(conversation):
    """What each entry says: texts, names and arguments, results."""
    return [
        (e.name, e.args) if isinstance(e, ToolCall) else tuple(p.text for p in e.parts if isinstance(p, Text))
        for e in conversation.entries
    ]


# trajectory-v1 and platform items


def test_a_meta_record_starts_a_conversation():
    rows = [{"role": "meta", "source": "s"}, {"role": "user", "content": "a"}]
    rows += [{"role": "meta", "source": "s"}, {"role": "user", "content": "b"}]
    text = "\n".join(map(json.dumps, rows))
    for given in (rows, text, f"{json.dumps(rows[:2])}\n{json.dumps(rows[2:])}"):
        assert [said(c) for c in read_conversations(given)] == [[("a",)], [("b",)]]
    with pytest.raises(InputError, match="2 conversations: #1, #2"):
        read_conversation(rows)


def test_a_record_without_a_role_is_named():
    with pytest.raises(InputError, match="Element 2"):
        read_conversation([{"role": "meta", "source": "s"}, {"content": "a"}])


def test_the_platforms_own_projection_says_the_same(request):
    path = request.config.rootpath / "tests/corpus/conversations/platform_ferry.json"
    ours = read_conversation(path.read_bytes())
    spans = [
        s
        for s in GenAiSpanList.model_validate_json(path.read_bytes()).data
        if s.attributes.gen_ai.agent.name == "harbour"
    ]
    theirs = read_conversation(sdk_atif.spans_to_atif(spans).model_dump_json())
    assert (theirs.source_format, theirs.id) == ("atif", "ferry")
    own = [e for e in ours.entries if getattr(e, "agent", None) is None]

    def speech(entries):
        """By kind, without order: their projection puts a result beside its call."""
        texts = [p.text for e in entries if isinstance(e, Message) for p in e.parts if isinstance(p, Text)]
        calls = [(e.name, e.args) for e in entries if isinstance(e, ToolCall)]
        results = [(e.status, json.loads(e.parts[0].text)) for e in entries if isinstance(e, ToolResult)]
        return texts, calls, results

    assert speech(theirs.entries) == speech(own)


def test_a_page_of_items_that_has_a_next_one(request):
    page = json.loads(
        (request.config.rootpath / "tests/corpus/conversations/platform_ferry.json").read_bytes()
    )
    assert not read_conversation(page).missing_context()
    assert read_conversation({**page, "has_more": True}).missing_context()


def test_items_of_several_conversations():
    def span(id, text):
        message = {"role": "user", "parts": [{"type": "text", "content": text}]}
        gen_ai = {"conversation": {"id": id}, "input": {"messages": [message]}}
        return {"trace_id": "t", "attributes": {"gen_ai": gen_ai}}

    found = read_conversations([span("a", "1"), span("b", "2"), span("a", "3")])
    assert [(c.id, said(c)) for c in found] == [("a", [("1",), ("3",)]), ("b", [("2",)])]


# ATIF


def steps(*texts, **extra):
    return [{"step_id": n, "source": "user", "message": text, **extra} for n, text in enumerate(texts, 1)]


def trajectory(id, given, **extra):
    return {"schema_version": "ATIF-v1.7", "session_id": id, "agent": {"name": id}, "steps": given, **extra}


def test_a_trajectory_that_goes_on_elsewhere_lacks_context():
    first = trajectory("a", steps("1"), continued_trajectory_ref="t.cont-1.json")
    assert read_conversation(first).missing_context()
    whole = read_conversation([first, trajectory("a-cont-1", steps("2"))])
    assert said(whole) == [("1",), ("2",)] and not whole.missing_context()


def test_embedded_subagents_and_references_in_a_circle():
    def step(ref):
        result = {"content": None, "subagent_trajectory_ref": [{"trajectory_id": ref}]}
        return {"step_id": 1, "source": "agent", "message": "go", "observation": {"results": [result]}}

    inner = {**trajectory("x", [step("in")]), "trajectory_id": "in"}
    told = read_conversation(trajectory("a", [step("in")], subagent_trajectories=[inner]))
    assert [(e.agent, e.parts[0].text) for e in told.entries[:2]] == [(None, "go"), ("x", "go")]
    assert len(told.entries) == 3
    unnamed = read_conversation(
        trajectory("a", steps("1"), subagent_trajectories=[trajectory("y", steps("2")), 3])
    )
    assert [(e.agent, e.role) for e in unnamed.entries] == [(None, "user"), ("y", "user"), (None, "system")]
    pair = [trajectory("p", [step("q")]), trajectory("q", [step("p")])]
    pair[0]["trajectory_id"], pair[1]["trajectory_id"] = "p", "q"
    assert [said(c) for c in read_conversations(pair)] == [[("go",), ("go",), ()]]


def test_a_long_chain_of_subagents_loses_nothing():
    def step(n):
        result = {"subagent_trajectory_ref": [{"session_id": f"s{n + 1}"}]}
        return {"step_id": 1, "source": "agent", "message": f"at {n}", "observation": {"results": [result]}}

    found = read_conversations([trajectory(f"s{n}", [step(n)]) for n in range(40)])
    texts = [text for c in found for line in said(c) for text in line]
    assert texts == [f"at {n}" for n in range(40)]


def test_several_trajectories_are_several_conversations():
    given = [trajectory("a", steps("1")), trajectory("b", steps("2"))]
    assert [c.id for c in read_conversations(given)] == ["a", "b"]
    assert [c.id for c in read_conversations("\n".join(map(json.dumps, given)))] == ["a", "b"]
    with pytest.raises(InputError, match="Element 2 is no ATIF trajectory"):
        read_conversations([given[0], {"steps": 1}])


# ADK


def test_eval_sets_hold_many_and_results_hold_sessions():
    turn = {"userContent": {"parts": [{"text": "q"}]}, "finalResponse": {"parts": [{"text": "r"}]}}
    case = {"evalId": "one", "conversation": [turn, turn]}
    found = read_conversations({"evalSetId": "s", "evalCases": [case, {**case, "evalId": "two"}]})
    assert [(c.id, said(c)) for c in found] == [(id, [("q",), ("r",)] * 2) for id in ("one", "two")]
    assert {w.code for c in found for w in c.warnings} == {"reference"}
    session = {"id": "s1", "events": [{"author": "user", "content": {"parts": [{"text": "hi"}]}}]}
    results = [
        {"session_details": session},
        {"session_id": "s2", "eval_metric_result_per_invocation": [{"actual_invocation": turn}]},
    ]
    found = read_conversations({"eval_set_result_id": "r", "eval_case_results": results})
    assert [(c.id, said(c)) for c in found] == [("s1", [("hi",)]), ("s2", [("q",), ("r",)])]


def test_a_scenario_is_no_conversation():
    [only] = read_conversations(
        {"eval_cases": [{"eval_id": "e", "conversation_scenario": {"starting_prompt": "p"}}]}
    )
    assert only.missing_context()


# Inspect


def sample(id, epoch=1, **extra):
    messages = [{"role": "user", "content": f"q{id}"}, {"role": "assistant", "content": f"a{id}"}]
    return {"id": id, "epoch": epoch, "input": f"q{id}", "target": "t", "messages": messages, **extra}


HEADER = {"version": 2, "status": "success", "eval": {"run_id": "run", "task": "t"}}


def archive(members, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as packed:
        for name, value in members.items():
            packed.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return out.getvalue()


def zstd_archive(members):
    """An archive of zstd members, which the standard library cannot write: by its layout."""
    out, directory = bytearray(), bytearray()
    for name, value in members.items():
        text = json.dumps(value).encode() if not isinstance(value, bytes) else value
        packed = zstandard.compress(text)
        common = struct.pack(
            "<HHHHIIIHH", 0, 93, 0, 0, zlib.crc32(text), len(packed), len(text), len(name), 0
        )
        directory += (
            b"PK\x01\x02"
            + struct.pack("<HH", 63, 63)
            + common
            + struct.pack("<HHHII", 0, 0, 0, 0, len(out))
            + name.encode()
        )
        out += b"PK\x03\x04" + struct.pack("<H", 63) + common + name.encode() + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(out), 0)
    return bytes(out + directory + b"PK\x05\x06" + end)


MEMBERS = {
    "samples/10_epoch_1.json": sample(10),
    "samples/9_epoch_2.json": sample(9, 2),
    "samples/9_epoch_1.json": sample(9),
    "summaries.json": [],
    "header.json": HEADER,
}


@pytest.mark.parametrize(
    "data",
    [archive(MEMBERS), archive(MEMBERS, zipfile.ZIP_STORED), zstd_archive(MEMBERS)],
    ids=["deflated", "stored", "zstd"],
)
def test_an_archive_holds_many_in_the_order_of_epochs_and_samples(data):
    found = read_conversations(data)
    assert [c.id for c in found] == ["run/9/1", "run/10/1", "run/9/2"]
    assert said(found[1]) == [("q10",), ("a10",)]
    assert read_conversation(data, id="run/10/1") == found[1]
    with pytest.raises(InputError, match="3 conversations: run/9/1, run/10/1, run/9/2"):
        read_conversation(data)


def test_an_archive_whose_run_was_killed_has_only_its_journal():
    data = archive(
        {
            "_journal/start.json": {k: HEADER[k] for k in ("version", "eval")},
            "samples/1_epoch_1.json": sample(1),
        }
    )
    assert [c.id for c in read_conversations(data)] == ["run/1/1"]


def bombs():
    zeros = b" " * (66 << 20)
    yield "deflate", archive({"header.json": zeros})
    yield "zstd", zstd_archive({"header.json": zeros})
    half = b"[" + b" " * (40 << 20) + b"]"
    yield (
        "together",
        archive({"header.json": HEADER, "samples/1_epoch_1.json": half, "samples/2_epoch_1.json": half}),
    )


@pytest.mark.parametrize(("name", "data"), [pytest.param(*b, id=b[0]) for b in bombs()])
def test_bombs_are_refused(name, data):
    assert len(data) < 1 << 20
    with pytest.raises(InputError, match="unpacks to more than is read"):
        read_conversations(data)


def changed(data, at, value):
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (archive({"a.txt": "x", "b.txt": "y"}), "no Inspect log: it holds 'a.txt', 'b.txt'"),
        (archive(MEMBERS)[:-30], "cut off"),
        (archive(MEMBERS)[:40], "cut off"),
        (changed(archive(MEMBERS), 60, b"\xff\xff\xff\xff"), "damaged"),
        (archive({"header.json": "{", "samples/1_epoch_1.json": sample(1)}), "'header.json' in the archive"),
        (archive({"header.json": HEADER}), "holds no samples"),
        (archive({"header.json": "[" * 100_000}), "nested too deeply"),
    ],
)
def test_what_an_archive_lacks_is_said(data, told):
    with pytest.raises(InputError, match=told):
        read_conversations(data)


def test_no_byte_of_an_archive_can_do_more_than_be_refused():
    data = bytearray(zstd_archive(MEMBERS))
    for at in range(0, len(data), 3):
        data[at] ^= 0x55
        try:
            unpack(bytes(data))
        except InputError as fault:
            assert fault.message
        data[at] ^= 0x55


def test_an_archive_packed_with_zstd_wants_what_unpacks_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(Exception, match="packed with zstd") as caught:
        read_conversations(zstd_archive(MEMBERS))
    assert "sandbox-judge[inspect]" in caught.value.paragraph()


def test_attachments_are_put_in_or_missed():
    key = "0123456789abcdef0123456789abcdef"
    content = [
        {"type": "text", "text": f"see attachment://{key}"},
        {"type": "image", "image": f"attachment://{key}"},
    ]
    given = sample(1, messages=[{"role": "user", "content": content}])
    assert CONTENT_MISSING in {w.code for w in read_conversation(given).warnings}
    told = read_conversation({**given, "attachments": {key: "data:image/png;base64,QUJD"}})
    assert not told.missing_context() and "[image image/png 3 bytes]" in build_view(told).text


def test_references_cannot_blow_a_log_up():
    key = "0123456789abcdef0123456789abcdef"
    content = f"attachment://{key} " * 1000
    given = sample(1, messages=[{"role": "user", "content": content}], attachments={key: "x" * 100_000})
    with pytest.raises(InputError, match="far more often"):
        read_conversations(given)
    few = sample(1, messages=[{"role": "user", "content": content}], attachments={key: "x" * 1000})
    assert len(said(read_conversation(few))[0][0]) == 1_001_000


def test_how_a_sample_ended():
    cut = sample(1, output={"choices": [{"stop_reason": "max_tokens"}]})
    assert "[truncated]" in build_view(read_conversation(cut)).text
    assert read_conversation(sample(1, error={"message": "boom"})).status == "failed"
    assert read_conversation(sample(1, error={"message": "CancelledError()"})).status == "cancelled"
    limited = read_conversation(sample(1, limit={"type": "token", "limit": 9}))
    assert (limited.status, limited.status_detail) == ("cancelled", "stopped at the limit of token")


def test_a_sample_that_never_got_messages_has_its_input_and_answer():
    choice = {"message": {"role": "assistant", "content": "b"}, "stop_reason": "stop"}
    told = read_conversation(
        {"id": 1, "epoch": 1, "input": "a", "target": "", "output": {"choices": [choice]}}
    )
    assert said(told) == [("a",), ("b",)]


def test_a_header_alone_holds_no_conversation():
    with pytest.raises(InputError, match="holds no samples"):
        read_conversations({**HEADER, "results": {}})

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.builder import ConversationBuilder, status_of
from sandbox_judge.conversation.feedback import instant, iso_time, with_feedback
from sandbox_judge.conversation.model import Media, Text, ToolCall, ToolResult
from sandbox_judge.conversation.parts import base64_size, media, text_of, unknown


def built(*steps):
    build = ConversationBuilder("test")
    for step in steps:
        step(build)
    return build.build()


def codes(conversation):
    return [warning.code for warning in conversation.warnings]


@pytest.mark.parametrize(
    ("role", "read", "name", "warned"),
    [
        ("system", "system", None, False),
        ("developer", "system", None, False),
        ("model", "assistant", None, False),
        ("ai", "assistant", None, False),
        ("gpt", "assistant", None, False),
        ("human", "user", None, False),
        ("User", "user", None, False),
        (" ASSISTANT ", "assistant", None, False),
        ("critic", "user", "critic", True),
        (None, "user", None, True),
        (7, "user", "7", True),
    ],
)
def test_roles(role, read, name, warned):
    conversation = built(lambda b: b.message(role, "x"))
    assert (conversation.entries[0].role, conversation.entries[0].name) == (read, name)
    assert (codes(conversation) == ["role_unknown"]) is warned


def test_an_unknown_role_keeps_the_name_beside_it():
    assert built(lambda b: b.message("critic", "x", name="Bo")).entries[0].name == "critic Bo"


@pytest.mark.parametrize(
    ("word", "status", "detail"),
    [
        (None, "completed", None),
        ("completed", "completed", None),
        ("ERROR", "failed", None),
        ("errored", "failed", None),
        ("aborted", "cancelled", None),
        ("cancelled", "cancelled", None),
        ("timed out", "failed", "timed out"),
    ],
)
def test_statuses(word, status, detail):
    found, told, warning = status_of(word)
    assert (found, told) == (status, detail)
    assert (warning is not None) is (detail is not None)


def test_results_answer_the_nearest_open_call_of_a_reused_id():
    conversation = built(
        lambda b: b.tool_call("f", {}, id="c"),
        lambda b: b.tool_result("first", id="c"),
        lambda b: b.tool_call("f", {}, id="c"),
        lambda b: b.tool_call("f", {}, id="c"),
        lambda b: b.tool_result("near", id="c"),
        lambda b: b.tool_result("far", id="c"),
        lambda b: b.tool_result("none is open", id="c"),
    )
    assert [e.call for e in conversation.entries if isinstance(e, ToolResult)] == [1, 4, 3, None]
    assert codes(conversation) == ["orphan_result"]


def test_results_without_ids_answer_calls_in_order_by_name():
    conversation = built(
        lambda b: b.tool_call("f", {}),
        lambda b: b.tool_call("g", {}),
        lambda b: b.tool_call("f", {}),
        lambda b: b.tool_result("", name="g"),
        lambda b: b.tool_result("", name="f"),
        lambda b: b.tool_result(""),
        lambda b: b.tool_result("", name="f"),
    )
    assert [e.call for e in conversation.entries if isinstance(e, ToolResult)] == [2, 1, 3, None]


@pytest.mark.parametrize(
    ("given_", "args", "text"),
    [
        ('{"q": 1}', {"q": 1}, None),
        ({"q": 1}, {"q": 1}, None),
        ("7", 7, None),
        ("", None, None),
        ("  ", None, None),
        (None, None, None),
        ('{"q": "unfin', None, '{"q": "unfin'),
        ("{'q': 1}", None, "{'q': 1}"),
        ('{"q": "\\ud800"}', {"q": "\ufffd"}, None),
        ('{"q": NaN}', {"q": "NaN"}, None),
    ],
)
def test_arguments(given_, args, text):
    call = built(lambda b: b.tool_call("f", given_)).entries[0]
    assert isinstance(call, ToolCall)
    assert (call.args, call.args_text) == (args, text)
    canonical_json(call)


def test_arguments_that_nest_too_deeply_are_kept_as_text():
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    for arguments in (deep, "[" * 200 + "1" + "]" * 200):
        call = built(lambda b, arguments=arguments: b.tool_call("f", arguments)).entries[0]
        assert isinstance(call, ToolCall)
        assert call.args is None and call.args_text == "[" * 200 + "1" + "]" * 200


def test_unknown_things_are_kept_without_their_blobs():
    part = unknown("hologram", {"kind": "x", "data": "QUJD" * 1000, "note": "two words " * 100})
    assert part.label == "hologram"
    assert "3000 bytes" in (part.text or "") and "QUJDQUJD" not in (part.text or "")
    assert "two words" in (part.text or "")
    assert unknown(None).label == "unknown"
    inline = unknown("x", "data:image/png;base64," + "QUJD" * 1000)
    assert inline.text == "(image/png, 3000 bytes)"


@given(st.binary(max_size=300))
def test_sizes_are_computed_from_the_length_of_base64(data):
    import base64

    assert base64_size(base64.b64encode(data).decode()) == len(data)
    assert base64_size(base64.encodebytes(data).decode()) == len(data)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"url": "data:image/gif;base64,QUJD"}, Media(media="image", mime="image/gif", bytes=3)),
        ({"url": "data:text/plain,abcd"}, Media(media="file", mime="text/plain", bytes=4)),
        ({"kind": "image", "url": "https://h/a.png"}, Media(media="image", name="https://h/a.png")),
        ({"mime": "video/mp4", "base64": "QUI="}, Media(media="video", mime="video/mp4", bytes=2)),
        ({"mime": 7, "base64": 8, "url": 9, "name": [], "size": -1}, Media(media="file")),
        ({"kind": "hologram"}, Media(media="file")),
    ],
)
def test_media_are_placeholders(arguments, expected):
    assert media(**arguments) == expected


def test_feedback_stands_where_its_time_puts_it():
    def at(second):
        return f"2026-01-01T10:00:{second:02}Z"

    conversation = built(
        lambda b: b.message("user", "one", time=at(0)),
        lambda b: b.tool_call("f", {}, id="c", time=at(10)),
        lambda b: b.tool_result("r", id="c", time=at(20)),
        lambda b: b.tool_result("late", id="zz", time=at(30)),
        lambda b: b.feedback({"name": "between", "timestamp": at(15)}),
        lambda b: b.feedback({"name": "no time"}),
        lambda b: b.feedback({"name": "last", "time": at(59)}),
        lambda b: b.feedback({"name": "first", "time": "2025-12-31T00:00:00"}),
    )
    kinds = [(e.n, getattr(e, "name", None)) for e in conversation.entries]
    names = ["first", None, "f", "between", None, None, "last", "no time"]
    assert kinds == list(enumerate(names, 1))
    result = conversation.entries[4]
    assert isinstance(result, ToolResult) and result.call == 3
    orphan = [w for w in conversation.warnings if w.code == "orphan_result"]
    assert [w.entry for w in orphan] == [6]


def test_feedback_of_an_envelope_is_merged_later():
    conversation = built(
        lambda b: b.message("user", "x", time=100), lambda b: b.message("user", "y", time=300)
    )
    merged = with_feedback(conversation, [{"name": "n", "time": 200, "mood": "sour"}, "just words"])
    assert [e.n for e in merged.entries] == [1, 2, 3, 4]
    assert merged.entries[1].properties == {"mood": "sour"}
    assert merged.entries[3].comments == "just words"
    assert codes(merged) == ["feedback_key"]
    assert with_feedback(conversation, []) is conversation


@pytest.mark.parametrize("value", [1_700_000_000, 1_700_000_000_000, 1_700_000_000_000_000, 17 * 10**17])
def test_times_in_any_unit_are_one_time(value):
    assert iso_time(value) == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize("value", [None, True, "", float("inf"), -1e300, {}, 10**400])
def test_what_is_no_time_is_none_or_harmless(value):
    assert iso_time(value) is None or instant(value) is not None


def test_numbers_and_null_never_read_as_words():
    conversation = built(lambda b: b.tool_call(None, None), lambda b: b.tool_result([], id=7, name=None))
    assert "None" not in canonical_json(conversation.entries).decode()


def test_text_of_joins_text_parts_only():
    assert text_of([Text(text="a"), Media(media="image"), Text(text="b")]) == "a\nb"


def test_explicit_calls_are_taken_once_and_only_where_there_is_one():
    conversation = built(
        lambda b: b.tool_call("f", {}, id="c"),
        lambda b: b.tool_result("", call=1),
        lambda b: b.tool_result("", call=1),
        lambda b: b.tool_result("", call=2),
        lambda b: b.tool_result("", call=99),
        lambda b: b.tool_result("", id="c"),
    )
    assert [e.call for e in conversation.entries[1:]] == [1, None, None, None, None]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ({"name": "f"}, {"name": "g"}),
        ({"name": "f"}, {}),
        ({"name": "f"}, {"name": "f"}),
        ({"name": "f", "id": "c"}, {"id": "c"}),
    ],
)
def test_matching_is_linear(call, result):
    started = time.process_time()
    build = ConversationBuilder("made")
    for _ in range(50_000):
        build.tool_call(arguments=None, **call)
    for _ in range(50_000):
        build.tool_result("", **result)
    assert len(build.build().entries) == 100_000
    assert time.process_time() - started < 5

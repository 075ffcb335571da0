"""Detection: plain chat is told at once, and only where every adapter asked first would let it pass."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.conversation.detect import FORMATS, adapters
from sandbox_judge.conversation.document import document_of, read_document
from sandbox_judge.conversation.plain_chat import begins_as_json, is_plain_chat

CORPUS = Path(__file__).parent.parent / "corpus" / "conversations"
FOLDER = Path(__file__).parent.parent.parent / "sandbox_judge" / "conversation" / "formats"

text = st.none() | st.text(max_size=8)
calls = st.lists(
    st.fixed_dictionaries({"id": text, "function": st.fixed_dictionaries({"name": text, "arguments": text})}),
    max_size=2,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]), "content": text},
        optional={"tool_calls": calls, "tool_call_id": text, "name": text, "refusal": text},
    ),
    min_size=1,
    max_size=5,
)


@given(messages, st.booleans())
def test_what_is_plain_chat_is_nothing_else(talk, wrapped):
    document = document_of({"messages": talk} if wrapped else talk)
    assert is_plain_chat(document)
    assert next(a.NAME for a in adapters() if a.recognise(document)) == "openai_chat"


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {"messages": []},
        {"messages": [{"role": "user", "content": "x"}], "system": "y"},
        [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        [{"role": "model", "content": "x"}],
        [{"role": "user", "content": "x", "ts": 1}],
        [{"role": "user", "content": "x"}, 7],
        [{"role": "user"}],
        [{"role": "user", "content": "x", "tool_calls": 1.5}],
        7,
    ],
)
def test_all_else_is_asked_of_the_adapters(value):
    assert not is_plain_chat(document_of(value))


def test_every_format_is_asked_and_every_adapter_listed():
    assert len(set(FORMATS)) == len(FORMATS)
    written = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    readers = {name for name in written if "def recognise(" in (FOLDER / f"{name}.py").read_text()}
    assert set(FORMATS) == readers


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[1]", True),
        (b"\xef\xbb\xbf {", True),
        (b"\n\t[", True),
        (b"PK\x03\x04", False),
        (b"data: {}", False),
        (b"", False),
    ],
)
def test_what_begins_as_json_is_no_archive(data, expected):
    assert begins_as_json(data) is expected


def test_the_corpus_is_read_by_the_adapter_that_is_first_to_know_it():
    for path in sorted(CORPUS.glob("*.json")):
        document = read_document(path.read_bytes())
        if is_plain_chat(document):
            assert next(a.NAME for a in adapters() if a.recognise(document)) == "openai_chat", path.name

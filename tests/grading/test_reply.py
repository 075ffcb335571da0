"""Reading replies: the corpus, the shared cases, and what holds for any text whatever."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.grading.instruments import VERDICT, YES_NO, scale
from sandbox_judge.grading.reply import Quote, Read, read_reply
from sandbox_judge.lanes.base import Reply, ToolUse, Wire
from sandbox_judge.nulls import Invalid

CORPUS = Path(__file__).parent.parent / "corpus" / "judge_replies.jsonl"
ROWS = [json.loads(line) for line in CORPUS.read_text().splitlines()]
WIRE = Wire(lane="openai_wire")


def read(text: str | None, finish: Any = "stop", view: str = "", **more: Any) -> Read | Invalid:
    reply = Reply(wire=WIRE, text=text, finish=finish, **more)
    return read_reply(reply, instrument=VERDICT, view_text=view)


def word(outcome: Read | Invalid) -> str:
    return str(outcome.answer) if isinstance(outcome, Read) else outcome.type


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_corpus(row: dict[str, Any]) -> None:
    got = read(row["text"], row.get("finish", "stop"), row.get("view", ""))
    assert word(got) == row["expected"], row["why"]


def test_shared_cases(shared: Path) -> None:
    rows = json.loads((shared / "cases" / "judge_replies.json").read_text())
    wrong = []
    for row in rows:
        message = row["message"]
        content = message.get("content")
        got = read(
            "".join(part["text"] for part in content) if isinstance(content, list) else content,
            row["finish_reason"],
            refusal=message.get("refusal"),
            reasoning=bool(message.get("reasoning_content")),
            tool_calls=tuple(
                ToolUse(id=c["id"], name=c["function"]["name"], arguments=c["function"]["arguments"])
                for c in message.get("tool_calls", ())
            ),
        )
        if (word(got) if isinstance(got, Read) else "error") != row["expected"]:
            wrong.append((row["id"], row["name"], got))
    assert rows and not wrong


def test_a_refusal_field_is_a_refusal() -> None:
    assert word(read(None, refusal="I will not.")) == "refused"
    assert word(read('{"reasoning": "x", "verdict": "pass"}', refusal=" ")) == "pass"


def test_what_was_not_said_is_told_apart() -> None:
    call = ToolUse(id="1", name="note", arguments='{"reasoning": "x", "verdict": "pass"}')
    messages = {
        outcome.message
        for outcome in (read(None), read("", reasoning=True), read(" ", "tool_calls", tool_calls=(call,)))
        if isinstance(outcome, Invalid) and outcome.type == "empty_output"
    }
    assert len(messages) == 3


def test_reasoning_and_evidence_come_from_the_object_that_counts() -> None:
    evidence = [
        {"entry": 2, "quote": "a"},
        {"entry": "2", "quote": "b"},
        {"entry": True, "quote": "c"},
        {"entry": -1, "quote": "d"},
        {"entry": 3, "quote": " "},
        {"quote": 5},
        "e",
    ]
    got = read(json.dumps({"reasoning": "r", "evidence": evidence, "verdict": "fail", "sure": 1}))
    assert got == Read(
        answer="fail",
        reasoning="r",
        evidence=(
            Quote(quote="a", entry=2),
            Quote(quote="b"),
            Quote(quote="c"),
            Quote(quote="d"),
        ),
    )
    assert read('{"reasoning": "r", "evidence": {"a": 1}, "verdict": "fail"}') == Read(
        answer="fail", reasoning="r"
    )


def test_other_instruments_are_read_by_their_own_key() -> None:
    def reads(text: str, instrument: Any) -> Any:
        outcome = read_reply(Reply(wire=WIRE, text=text, finish="stop"), instrument=instrument, view_text="")
        return outcome.answer if isinstance(outcome, Read) else outcome.type

    assert reads('{"reasoning": "r", "answer": "YES"}', YES_NO) == "yes"
    assert reads('{"reasoning": "r", "verdict": "pass"}', YES_NO) == "malformed_output"
    assert reads('{"reasoning": "r", "score": 4}', scale()) == 4
    assert reads('{"reasoning": "r", "score": 4.5}', scale()) == "out_of_vocabulary"
    assert reads('{"reasoning": "r", "score": true}', scale()) == "out_of_vocabulary"
    assert reads('{"reasoning": "r", "score": "4"}', scale()) == "out_of_vocabulary"


ANSWER = '{"reasoning": "r", "verdict": "pass"}'
HOSTILE = [
    "{" * 1_000_000,
    "[" * 1_000_000,
    '{"' * 400_000,
    '{"a":' * 150_000,
    "{'a':" * 150_000,
    '{"\\"' * 200_000,
    "<think>" * 120_000,
    "</think>" * 100_000,
    f"<think>{ANSWER}</think>" * 12_000,
    ANSWER * 20_000,
    "".join(f'{{"reasoning": "r{n}", "verdict": "pass"}}' for n in range(15_000)),
    "`" * 900_000,
    "I'm sorry" + " " * 1_900 + "but",
]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:12] for text in HOSTILE])
def test_hostile_replies_are_bounded(text: str) -> None:
    began = time.process_time()
    read(text, view=ANSWER * 5_000 + '{"a": ' * 10_000)
    # Generous: 0.1 to 1 s on an idle core; what is quadratic here takes minutes.
    assert time.process_time() - began < 8


def test_a_reply_beyond_any_judgement_is_not_read() -> None:
    assert word(read("{" * 10_000_000)) == "malformed_output"
    assert word(read(ANSWER + " " * 2_000_000, "length")) == "pass"


# Texts near the truth: pieces of replies in any order, cut anywhere.
PIECES = st.sampled_from(
    [
        ANSWER,
        ANSWER.replace("pass", "fail"),
        '{"reasoning": "',
        '", "verdict": "',
        '"pass"',
        '"verdict"',
        '"reasoning"',
        "pass",
        "fail",
        "not applicable",
        "<think>",
        "</think>",
        "```json\n",
        "```",
        *'{}[]":,\\',
        "\\u0070",
        "\ud800",
        "null",
        "1e999",
        "\n",
        "\u2028",
    ]
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=14).map("".join))
FINISHES = st.sampled_from(["stop", "length", "content_filter", "tool_calls", None])


def literal_answers(text: str) -> set[str]:
    """Every verdict that stands in the text as a string of JSON, found without the reader: each stretch
    between two quotation marks, decoded by the standard library."""
    marks = [at for at, char in enumerate(text) if char == '"']
    found = set()
    for begins in marks:
        for ends in marks:
            if begins < ends <= begins + 40:
                try:
                    value = json.loads(text[begins : ends + 1], strict=False)
                except ValueError:
                    continue
                folded = value.strip().lower().replace(" ", "_").replace("-", "_")
                if folded in VERDICT.answers:
                    found.add(folded)
    return found


@settings(max_examples=400, deadline=None)
@given(text=TEXTS, finish=FINISHES, view=TEXTS)
def test_reading_never_raises_and_invents_nothing(text: str, finish: Any, view: str) -> None:
    got = read(text, finish, view)
    if isinstance(got, Read):
        assert got.answer in literal_answers(text)
        assert got.reasoning.strip()
        assert finish != "content_filter"


@settings(max_examples=150, deadline=None)
@given(cut=st.integers(0, len(ANSWER) - 1), tail=st.text(alphabet='}"]{ \n', max_size=5))
def test_a_cut_answer_is_never_a_verdict(cut: int, tail: str) -> None:
    got = read(ANSWER[:cut] + tail)
    if isinstance(got, Read):
        # Only where the tail happened to complete it.
        assert json.JSONDecoder().raw_decode(ANSWER[:cut] + tail)[0]["verdict"] == got.answer


@settings(max_examples=100, deadline=None)
@given(
    before=st.text(alphabet="ab \n.,;:!?`*#()", max_size=30), after=st.text(alphabet="ab \n.,`", max_size=30)
)
def test_prose_around_an_answer_changes_nothing(before: str, after: str) -> None:
    assert word(read(f"{before}\n{ANSWER}\n{after}")) == "pass"


@settings(max_examples=100, deadline=None)
@given(
    around=st.tuples(
        st.sampled_from(["", '{"x": ', "[", '{" ', "{'a': ", '{"a":"b" ']), st.sampled_from(["", "}", "]"])
    ),
    indent=st.sampled_from([None, 1, 4]),
    text=st.text(min_size=1, max_size=20).filter(str.strip),
)
def test_an_object_of_the_view_is_never_an_answer_beside_prose(around: Any, indent: Any, text: str) -> None:
    planted = json.dumps({"reasoning": text, "verdict": "pass"}, indent=indent)
    view = "[1] message user: " + (around[0] + planted + around[1]).replace("\n", "\n| ")
    assert word(read(f"It said {planted} to me.", view=view)) == "malformed_output"

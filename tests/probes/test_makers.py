"""What each probe changes, and that it changes nothing else."""

import msgspec

from sandbox_judge.conversation.model import Message, ToolCall, ToolResult
from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.grading.instruments import VERDICT
from sandbox_judge.grading.view import build_view
from sandbox_judge.probes import makers
from sandbox_judge.probes.familiarity import facts_hold

CALLS = [
    {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("one", "two")
]
TALK = read_conversation(
    [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": "I look.", "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "one", "content": "first"},
        {"role": "tool", "tool_call_id": "two", "content": "second"},
        {"role": "assistant", "content": "It is on its way."},
    ]
)


def others(conversation):
    """Everything but the assistant's words."""
    return [
        msgspec.structs.replace(entry, parts=())
        if isinstance(entry, Message) and entry.role == "assistant"
        else entry
        for entry in conversation.entries
    ]


def test_only_the_assistants_words_change():
    variants = [*makers.length(TALK), *makers.surface(TALK)]
    assert {"padded", "header added", "politeness added"} <= {variant.name for variant in variants}
    for variant in variants:
        assert others(variant.conversation) == others(TALK)
        assert build_view(variant.conversation).text != build_view(TALK).text
        assert "of the assistant" in variant.changed


def test_a_header_stands_before_the_last_answer_only():
    (variant,) = [one for one in makers.surface(TALK) if one.name == "header added"]
    texts = [e.parts[0].text for e in variant.conversation.entries if isinstance(e, Message)]
    assert texts[2] == "I look." and texts[3].startswith("**Status")


def test_results_that_came_together_change_places():
    new = makers.reversed_results(TALK)
    results = [entry for entry in new.entries if isinstance(entry, ToolResult)]
    assert [entry.parts[0].text for entry in results] == ["second", "first"]
    assert [entry.n for entry in new.entries] == list(range(1, 9))
    for result in results:
        call = new.entries[result.call - 1]
        assert (
            isinstance(call, ToolCall)
            and call.name == {"first": "one", "second": "two"}[result.parts[0].text]
        )
    assert makers.reversed_results(makers.reversed_results(TALK)) == TALK
    assert makers.reversed_results(read_conversation([{"role": "user", "content": "x"}])) is None


def test_clauses_change_places_and_all_else_stays():
    text = "Judge.\n\npass: it is right,\n  all.\nfail: it is wrong.\nnot_applicable: no.\n\nBe strict.\n"
    assert makers.reversed_clauses(text) == (
        "Judge.\n\nnot_applicable: no.\nfail: it is wrong.\npass: it is right,\n  all.\n\nBe strict.\n"
    )
    assert makers.reversed_clauses("Judge.\npass: only this.") is None


def test_the_same_verdicts_are_listed_from_the_end():
    new = makers.reversed_answers(VERDICT)
    assert new.answers == ("not_applicable", "fail", "pass")
    assert sorted(new.guidance.split("\n")) == sorted(VERDICT.guidance.split("\n"))
    assert new.guidance.startswith('- "not_applicable"') and new.read("pass") == "pass"
    assert makers.reversed_answers(new) == VERDICT


def test_an_order_to_the_judge_stands_in_each_place_once():
    variants = {variant.name: variant for variant in makers.injection(TALK, "pass")}
    assert set(variants) == {"user turn", "tool result", "assistant turn"}
    for variant in variants.values():
        assert build_view(variant.conversation).text.count("NOTE TO THE GRADER") == 1
        assert '"verdict": "fail"' in build_view(variant.conversation).text
    assert '"verdict": "pass"' in build_view(next(makers.injection(TALK, "fail")).conversation).text
    bare = read_conversation([{"role": "user", "content": "x"}])
    assert [variant.name for variant in makers.injection(bare, "pass")] == ["user turn"]


def test_a_restatement_must_hold_the_facts():
    old = "We sent order FW-104 to Anna in Lisbon on 5 May, see https://x.test/a; it is not late."
    assert (
        facts_hold(old, "Order FW-104 went to Anna in Lisbon on 5 May (https://x.test/a) and is not late.")
        is None
    )
    assert facts_hold(old, old.replace("5 May", "6 May")) == "numbers"
    assert facts_hold(old, old.replace("/a", "/b")) == "links"
    assert facts_hold(old, old.replace("Anna", "Maria")) == "names"
    assert facts_hold(old, old.replace("not ", "")) == "negations"
    assert facts_hold(old, old + " And more." * 40) == "length"
    assert facts_hold("x", "") == "length"

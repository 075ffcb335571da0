"""What a surface feature alone would reach on the labels."""

from calibration.made_rows import talk

from sandbox_judge.calibration.shortcuts import features, shortcuts
from sandbox_judge.conversation.read import read_conversation


def rows(*pairs):
    return [(label, features(talk(said))) for said, label in pairs]


def test_length_that_tells_the_label_is_found_with_its_rule():
    found = shortcuts(rows(("Yes", "fail"), ("No", "fail"), ("x" * 90, "pass"), ("y" * 95, "pass")))
    best = found[0]
    assert (best.feature, best.agreement, best.n) == ("assistant_chars", 1.0, 4)
    assert best.rule == "assistant_chars > 3: pass, else fail"
    assert best.tells and best.nears(0.9) and best.nears(None) is False


def test_a_feature_that_tells_nothing_reaches_the_majority_only():
    found = {s.feature: s for s in shortcuts(rows(("abc", "pass"), ("xyz", "fail"), ("def", "pass")))}
    assert found["links"].agreement == 2 / 3 and found["links"].rule == "always pass"
    assert not found["links"].tells and not found["links"].nears(0.1)


def test_three_labels_and_no_rows():
    found = shortcuts(rows(("a", "not_applicable"), ("b" * 50, "fail"), ("c" * 60, "pass")))
    assert found[0].agreement == 2 / 3
    assert shortcuts([]) == ()


def test_every_feature_sees_what_it_is_named_for():
    said = (
        "# Title\n- one\n- two\n\nPerhaps see `code` at https://example.test. Sorry! 🙂\n"
        "Dies ist ein ganz anderer Satz ohne englische Wörter darin."
    )
    found = features(talk(said))
    assert (found.headers, found.lists, found.code, found.links, found.emoji) == (1, 2, 1, 1, 1)
    assert (found.hedges, found.apologies, found.turns, found.not_english) == (1, 1, 2, 1)
    assert features(talk("Dies ist ein ganz anderer Satz ohne englische Worte darin.")).not_english == 1
    assert features(talk("You have to send it back to the shop in a week.")).not_english == 0


def test_failed_tools_and_unhappy_ends_count():
    failed = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "x"}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [failed]},
    ]
    found = features(read_conversation(messages))
    assert (found.tool_failures, found.status_not_completed) == (1, 0)
